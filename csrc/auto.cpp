#include "auto.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace pqr {

namespace {

constexpr float most_units = 1 << 20;  // of a value: so products of four are floats
constexpr float least_units = 0x1p-20f;
constexpr float farthest = 16;        // times M: beyond, a value is an outlier
constexpr std::uint32_t settled = 8;  // rows after which the scale of a feature is trusted
constexpr float far = 256;            // times M or less: until then, the scale is found anew
constexpr double largest_target = 1e15;
constexpr std::size_t most_high = 512;  // of a row: 130,816 pairs; later ones count as low there

// How many rows ahead memory is prefetched.
constexpr std::size_t numbers_ahead = 6, features_ahead = 4, pairs_ahead = 2;

int exponent_of(float x) { return std::clamp(std::ilogb(x), -most_exponent, most_exponent); }

// 2^-exponent, exactly.
float unit_of(int exponent) {
  const std::uint32_t bits = static_cast<std::uint32_t>(127 - exponent) << 23;
  float unit = 0.0f;
  std::memcpy(&unit, &bits, sizeof unit);
  return unit;
}

const PairExperts unmade;

}  // namespace

Auto::Auto(const AutoSettings& settings) : mixture(settings.loss), settings_(settings) {
  slots_.add();
  seen_.add();
}

Auto::Known Auto::find(std::uint32_t feature) const {
  const std::uint32_t* const number = numbers_.find(feature);
  return known(number ? *number : 0);
}

Auto::Known Auto::add(std::uint32_t feature) {
  bool moved = false;
  *numbers_.make(feature, moved) = static_cast<std::uint32_t>(slots_.size());
  return {slots_.add(), seen_.add()};
}

// -- planning ahead

// Prefetches memory of rows to come, in the order in which it is found: the numbers of features,
// their slots, then those of pairs.
template <class W>
PQR_ALWAYS_INLINE inline void Auto::look_ahead(W width, const Rows& batch, std::size_t r,
                                               Work& work) const {
  if (r + numbers_ahead < batch.size) {
    const Row row = batch[r + numbers_ahead];
    numbers_.prefetch(row.indices, row.size);
  }
  if (r + features_ahead < batch.size) {
    locate(batch[r + features_ahead], work.plans[(r + features_ahead) % planned]);
  }
  if (r + pairs_ahead < batch.size) {
    plan(width, batch[r + pairs_ahead], work.plans[(r + pairs_ahead) % planned]);
  }
}

// Does for the rows from r on what `look_ahead` takes for done.
template <class W>
PQR_ALWAYS_INLINE inline void Auto::plan_first(W width, const Rows& batch, std::size_t r,
                                               Work& work) const {
  for (std::size_t n = r; n < std::min(r + features_ahead, batch.size); ++n) {
    locate(batch[n], work.plans[n % planned]);
    if (n < r + pairs_ahead) plan(width, batch[n], work.plans[n % planned]);
  }
}

PQR_ALWAYS_INLINE inline void Auto::locate(const Row& row, Plan& plan) const {
  if (plan.known.size() < row.size) plan.known.resize(row.size);
  const auto each = [&](auto number_of) PQR_ALWAYS_INLINE {
    for (std::size_t i = 0; i < row.size; ++i) {
      const Known found = plan.known[i] = known(number_of(row.indices[i]));
      fetch(found.slot);
      fetch(found.seen);
    }
  };
  if (const std::uint32_t* const front = numbers_.front(row.indices, row.size)) {
    each([=](std::uint32_t feature) PQR_ALWAYS_INLINE { return front[feature]; });
  } else {
    each([this](std::uint32_t feature) PQR_ALWAYS_INLINE {
      const std::uint32_t* const number = numbers_.find(feature);
      return number ? *number : 0;
    });
  }
}

template <class W>
PQR_ALWAYS_INLINE inline void Auto::plan(W, const Row& row, Plan& plan) const {
  if (plan.ranks.size() < row.size + more_keys) {
    for (auto* const part : {&plan.ranks, &plan.places, &plan.found, &plan.at, &plan.order}) {
      part->resize(row.size + more_keys);
    }
  }
  std::size_t size = 0;
  for (std::size_t i = 0; i < row.size; ++i) {
    const std::uint32_t above = plan.known[i].seen->above;
    plan.found[size] = above - 1;
    plan.at[size] = static_cast<std::uint32_t>(i);
    size += above != 0;
  }
  if (size <= few_keys) {
    places_in_order<W::value>(plan.found.data(), size, plan.order.data());
  } else {
    const auto first = plan.found.begin(), last = first + static_cast<std::ptrdiff_t>(size);
    std::vector<std::uint32_t> sorted(first, last);
    std::sort(sorted.begin(), sorted.end());
    std::transform(first, last, plan.order.begin(), [&](std::uint32_t rank) {
      const auto place = std::lower_bound(sorted.begin(), sorted.end(), rank);
      return static_cast<std::uint32_t>(place - sorted.begin());
    });
  }
  for (std::size_t n = 0; n < size; ++n) {
    plan.ranks[plan.order[n]] = plan.found[n];
    plan.places[plan.order[n]] = plan.at[n];
  }
  plan.size = std::min(size, most_high);
  plan.end = size > most_high ? plan.ranks[most_high] : Rise::low;
  Terms<OfPairs>::reserve(plan.pairs, plan.size * plan.size / 2);
  PairExperts** next = plan.pairs.data();
  const std::uint32_t* const ranks = plan.ranks.data();
  for (std::size_t b = 1; b < plan.size; ++b) {
    PairExperts* const span = pairs_.span(ranks[b]);
    for (std::size_t a = 0; span && a < b; ++a) {
      PairExperts* const slot = span + ranks[a] + 1;
      fetch(slot);
      *next++ = slot;
    }
    for (std::size_t a = 0; !span && a < b; ++a) {
      pairs_.prefetch(ranks[a], ranks[b]);
      *next++ = const_cast<PairExperts*>(&unmade);
    }
  }
}

// -- a row's coordinates

// The features of a row. Most rows have values of 1 only, and features that never had others.
PQR_ALWAYS_INLINE inline void Auto::gather(const Row& row, const Plan& plan, Work& work) const {
  if (work.seen.size() < row.size) {
    work.seen.resize(row.size);
    work.starts.resize(row.size);
    work.features.resize(row.size);
  }
  work.linear.clear(row.size);
  work.linear.size = row.size;
  FeatureExperts** const slots = work.linear.slots.data();
  Start* const starts = work.starts.data();
  std::uint32_t low = 0;
  bool ones = true, is_new = false;
  for (std::size_t i = 0; i < row.size; ++i) {
    Known known = plan.known[i];
    if (known.seen->count == 0) known = find(row.indices[i]);  // it may have come since
    starts[i] = known.seen->count > 0 ? Start::slot : Start::added;
    is_new |= known.seen->count == 0;
    slots[i] = known.slot;
    work.seen[i] = known.seen;
    ones &= (row.values[i] == 1.0f) & !known.seen->scaled;
    low += known.seen->above - 1u >= plan.end;
  }
  work.ones = work.linear.same = work.pairs.same = ones;
  work.dropped = false;
  work.anew = is_new;
  work.low_sum = low;
  if (!ones) scale(row, plan, work);
  work.linear.finish();
}

// The values of a row and the scales of its features. M is the root mean square of a feature's
// values, the one at hand included. A value far beyond M counts as one at the border; and where the
// first values turn out to be of another size than those that follow, the feature starts anew.
void Auto::scale(const Row& row, const Plan& plan, Work& work) const {
  work.low_sum = 0.0;
  for (std::size_t i = 0; i < row.size; ++i) {
    const Seen& seen = *work.seen[i];
    Feature& feature = work.features[i];
    const float value = row.values[i];
    const auto count = static_cast<float>(seen.count);
    float x = value * unit_of(seen.exponent), square = work.linear.slots[i]->z[0];
    const bool alike = x * x < far * far * square && x * x * (far * far) > square;
    feature.exponent = seen.exponent;
    if (seen.count == 0 || (!alike && seen.count < settled && seen.above == 0)) {
      if (seen.count > 0) work.starts[i] = Start::anew;
      work.linear.slots[i] = known(0).slot;
      work.anew = true;
      feature.exponent = static_cast<std::int8_t>(exponent_of(value));
      x = value * unit_of(feature.exponent);
      square = x * x;
    }
    const float most = std::min(most_units, farthest * std::sqrt(square));
    x = std::copysign(std::clamp(std::fabs(x), least_units, most), x);
    square = (count * square + x * x) / (count + 1.0f);
    const float scale = std::sqrt(square);
    feature.inverse = 1.0f / scale;
    work.linear.values[i] = {x, x / scale, square};
    if (seen.above - 1u >= plan.end) work.low_sum += double{x / scale};
  }
}

// A pair that has no slot yet is like its shared weight, q_i / M_j; where there is no room for
// another slot, it goes into the sum that q_i multiplies.
template <bool ones>
PQR_ALWAYS_INLINE inline void Auto::gather_pairs(Plan& plan, Work& work) const {
  const std::size_t most = plan.size * (plan.size - 1) / 2;
  work.pairs.slots.swap(plan.pairs);
  work.pairs.clear(most);
  if (work.fresh.capacity() < most) work.fresh.reserve(most);  // pointers to its slots are kept
  PairExperts **from = work.pairs.slots.data(), **to = from;
  Value* values = work.pairs.values.data();
  for (std::size_t b = 1; b < plan.size; ++b) {
    const Value later = ones ? Value{1, 1, 1} : work.linear.values[plan.places[b]];
    for (std::size_t a = 0; a < b; ++a) {
      PairExperts* slot = *from++;
      if (__builtin_expect(!is_made(*slot), 0)) {
        slot =
            find_or_start(plan, a, b, static_cast<std::size_t>(to - work.pairs.slots.data()), work);
        if (!slot) {
          work.sums[a] += later.scaled;
          work.dropped = true;
          continue;
        }
      }
      *to++ = slot;
      if (!ones) {
        const Value& earlier = work.linear.values[plan.places[a]];
        *values++ = {earlier.x * later.x, earlier.scaled * later.scaled,
                     earlier.square * later.square};
      }
    }
  }
  work.pairs.size = static_cast<std::size_t>(to - work.pairs.slots.data());
  work.pairs.finish();
}

// The slot of a pair that lies in no array or is new. The latter is kept aside until the row is
// learned; null if there is no room for it.
PairExperts* Auto::find_or_start(const Plan& plan, std::size_t a, std::size_t b, std::size_t at,
                                 Work& work) const {
  const auto* const found = pairs_.find(plan.ranks[a], plan.ranks[b]);
  if (found && is_made(*found)) return const_cast<PairExperts*>(found);
  if (pair_count_ + work.missing.size() >= settings_.most_pairs) return nullptr;
  const std::uint32_t i = plan.places[a], j = plan.places[b];
  const float earlier = work.ones ? 1.0f : work.linear.values[i].square;
  const float later = work.ones ? 1.0f : work.linear.values[j].square;
  const float inverse = work.ones ? 1.0f : work.features[j].inverse;
  const PairExperts& shared = shared_[plan.ranks[a]];
  const Quad prior = half<0>(work.common_pairs.prior), ridge = half<0>(work.common_pairs.ridge);
  const Quad lambda = prior * (earlier * work.low_square) + ridge;
  const Quad q = -read_as<Quad>(shared.z) / (lambda + read_as<Quad>(shared.info));
  work.missing.push_back({at, plan.ranks[a], plan.ranks[b]});
  PairExperts& slot = work.fresh.emplace_back();
  write(slot.z, -(prior * (earlier * later) + ridge) * (q * (kalman4 * inverse + ftrl4)));
  std::fill_n(slot.info, paired, made);
  return &slot;
}

PQR_ALWAYS_INLINE inline void Auto::gather_shared(const Plan& plan, Work& work) const {
  Terms<OfPairs>& shared = work.shared;
  const auto sum = static_cast<float>(work.low_sum);
  shared.clear(plan.size);
  shared.same = work.ones && !work.dropped;
  shared.value = {sum, sum, work.low_square};
  for (std::size_t h = 0; h < plan.size; ++h) {
    if (work.sums[h] == 0.0f) continue;
    shared.slots[shared.size] = const_cast<PairExperts*>(&shared_[plan.ranks[h]]);
    if (!shared.same) {
      const Value value = work.ones ? Value{1, 1, 1} : work.linear.values[plan.places[h]];
      shared.values[shared.size] = {value.x * work.sums[h], value.scaled * work.sums[h],
                                    value.square * work.low_square};
    }
    ++shared.size;
  }
  shared.finish();
}

// What a row's coordinates have in common, but for slopes.
PQR_ALWAYS_INLINE inline void Auto::set_common(const Row& row, Work& work) const {
  const Priors priors = this->priors(row.size);
  work.low_square = priors.low_square;
  work.common_linear = {priors.linear, ftrl8 * ftrl_ridge + Eight{1, 0, 0, 0, 0, 0, 0, 0}, kalman8,
                        ftrl8};
  work.common_pairs = {priors.pair, twice(ftrl4 * ftrl_ridge), twice(kalman4), twice(ftrl4)};
}

// -- predicting

std::array<double, experts> Auto::bias_ridges() const {
  std::array<double, experts> ridges;
  ridges.fill(settings_.loss == Loss::squared ? 1e-6 : 0.25);
  ridges[3] = ridges[7] = double{ftrl_ridge};
  return ridges;
}

// The expert without features knows the chance of a click so far (Krichevsky and Trofimov), which
// costs at most ln(T) / 2 + ln 2 more than the best constant in hindsight.
PQR_ALWAYS_INLINE inline void Auto::bias_margins(double* margins, double* variances) const {
  const auto ridges = bias_ridges();
  by_four<experts>([&](std::size_t k) PQR_ALWAYS_INLINE {
    const Four v = 1.0 / (read_as<Four>(ridges.data() + k) + read_as<Four>(bias.info.data() + k));
    write(margins + k, -read_as<Four>(bias.z.data() + k) * v);
    write(variances + k, v);
  });
  const double clicks = bias.z[0], seen = bias.info[0];
  if (settings_.loss == Loss::logistic) margins[0] = log_of((clicks + 0.5) / (seen - clicks + 0.5));
}

double Auto::bias_weight() const {
  const auto shares = mixture.coefficients();
  double margins[experts], variances[experts], sum = 0.0;
  bias_margins(margins, variances);
  for (std::size_t k = 0; k < experts; ++k) sum += shares[k] * margins[k];
  return sum;
}

// Margins and variances of all experts: of the bias in double, then of the coordinates.
PQR_ALWAYS_INLINE inline void Auto::weigh(Work& work) const {
  const std::size_t interactions = std::max<std::size_t>(1, work.pairs.size + work.shared.size);
  work.common_pairs.ftrl *= 1.0f / std::sqrt(static_cast<float>(interactions));
  Eight margin{}, variance{}, pair_margin{}, pair_variance{};
  work.linear.weigh(work.common_linear, margin, variance);
  work.pairs.weigh(work.common_pairs, pair_margin, pair_variance);
  work.shared.weigh(work.common_pairs, pair_margin, pair_variance);
  bias_margins(work.margins, work.variances);
  const auto add = [](double* to, Quad x) PQR_ALWAYS_INLINE {
    write(to, read_as<Four>(to) + __builtin_convertvector(x, Four));
  };
  add(work.margins, half<0>(margin));
  add(work.variances, half<0>(variance));
  add(work.margins + paired, half<1>(margin) + (half<0>(pair_margin) + half<1>(pair_margin)));
  add(work.variances + paired,
      half<1>(variance) + (half<0>(pair_variance) + half<1>(pair_variance)));
}

PQR_ALWAYS_INLINE inline void Auto::predict(const Row& row, Plan& plan, Work& work) const {
  set_common(row, work);
  gather(row, plan, work);
  if (work.sums.size() < plan.size) work.sums.resize(plan.size);
  std::fill_n(work.sums.begin(), plan.size, static_cast<float>(work.low_sum));
  work.missing.clear();
  work.fresh.clear();
  work.pairs.clear(0);
  if (plan.size > 1) work.ones ? gather_pairs<true>(plan, work) : gather_pairs<false>(plan, work);
  gather_shared(plan, work);
  weigh(work);
  mixture.link(work.margins, work.mixed);
}

std::size_t Auto::margin(const Rows& batch, double* margins) const {
  return vectorised(avx2_, [&, this](auto width) PQR_ALWAYS_INLINE {
    Work work;
    plan_first(width, batch, 0, work);
    for (std::size_t r = 0; r < batch.size; ++r) {
      look_ahead(width, batch, r, work);
      predict(batch[r], work.plans[r % planned], work);
      mixture.mix(work.mixed);
      margins[r] = work.mixed.margin;
      if (!std::isfinite(margins[r])) return r;
    }
    return batch.size;
  });
}

std::array<double, experts> Auto::expert_margins(const Row& row) const {
  std::array<double, experts> margins{};
  vectorised(avx2_, [&, this](auto width) PQR_ALWAYS_INLINE {
    Work work;
    locate(row, work.plans[0]);
    plan(width, row, work.plans[0]);
    predict(row, work.plans[0], work);
    std::copy_n(work.margins, experts, margins.begin());
  });
  return margins;
}

// -- learning

std::size_t Auto::learn(const Rows& batch, double* margins) {
  return vectorised(avx2_, [&, this](auto width) PQR_ALWAYS_INLINE {
    Work work;
    std::size_t risen = shared_.size() + 1;  // none of the plans is made
    for (std::size_t r = 0; r < batch.size; ++r) {
      const Row row = batch[r];
      Plan& plan = work.plans[r % planned];
      if (risen != shared_.size()) plan_first(width, batch, r, work);
      risen = shared_.size();
      look_ahead(width, batch, r, work);
      predict(row, plan, work);
      const double label = kept(settings_.loss, batch.labels[r]), weight = batch.weights[r];
      // Coordinates wait for these, not for the mixture: so the processor works on both.
      if (weight > 0.0)
        implicit_slopes<experts>(settings_.loss, work.margins, work.mixed.links, work.variances,
                                 label, weight, work.slopes);
      mixture.mix(work.mixed);
      margins[r] = work.mixed.margin;
      if (!std::isfinite(margins[r])) return r;
      if (weight == 0.0) continue;
      if (!(weight * std::max(1.0, std::fabs(label)) <= largest_target)) return r;
      if (work.anew || !work.missing.empty()) make(row, plan, work);
      count(row, work);
      step(work, label, weight);
      mixture.learn(work.mixed, label, weight);
      if (rise.see(row.size, plan.size > 0 ? work.low_sum : 0.0)) let_rise();
    }
    return batch.size;
  });
}

// Slots for what has none, as long as there is room.
void Auto::make(const Row& row, const Plan& plan, Work& work) {
  for (std::size_t i = 0; work.anew && i < row.size; ++i) {
    if (work.starts[i] == Start::slot) continue;
    const bool is_new = work.starts[i] == Start::added;
    const bool full = is_new && features() >= settings_.most_features;
    const Known known = full     ? Known{&work.scratch, nullptr}
                        : is_new ? add(row.indices[i])
                                 : find(row.indices[i]);
    *known.slot = FeatureExperts{};
    known.slot->z[0] = 1.0f;  // M^2, unless the value is not 1
    work.linear.slots[i] = known.slot;
    work.seen[i] = known.seen;
  }
  bool moved = false;
  for (std::size_t n = 0; n < work.missing.size(); ++n) {
    const auto [at, earlier, later] = work.missing[n];
    PairExperts* const slot = pairs_.make(earlier, later, moved);
    *slot = work.fresh[n];
    work.pairs.slots[at] = slot;
  }
  pair_count_ += work.missing.size();
  std::size_t next = 0;  // in the order of gather_pairs
  for (std::size_t b = 1; moved && b < plan.size; ++b) {
    for (std::size_t a = 0; a < b; ++a) {
      auto* const slot = const_cast<PairExperts*>(pairs_.find(plan.ranks[a], plan.ranks[b]));
      if (slot && is_made(*slot)) work.pairs.slots[next++] = slot;
    }
  }
}

// Steps of the experts' bias and of all coordinates.
PQR_ALWAYS_INLINE inline void Auto::step(Work& work, double label, double weight) {
  const bool squared = settings_.loss == Loss::squared;
  double curvatures[experts], plain[experts];
  double* const slopes = work.slopes;
  by_four<experts>([&](std::size_t k) PQR_ALWAYS_INLINE {
    const Four p = read_as<Four>(work.mixed.links + k);
    const Four h = squared ? all(1.0) : larger(p * (1.0 - p), all(flattest));
    write(plain + k, weight * (p - label));
    write(curvatures + k, weight * h);
  });
  slopes[3] = plain[3];  // FTRL takes the slope before the step
  slopes[7] = plain[7];
  step_bias(slopes, curvatures, work.variances, label, weight);
  Common &linear = work.common_linear, &pairs = work.common_pairs;
  const auto floats = [](const double* from) PQR_ALWAYS_INLINE {
    return joined(__builtin_convertvector(read_as<Four>(from), Quad),
                  __builtin_convertvector(read_as<Four>(from + paired), Quad));
  };
  linear.slope = floats(slopes);
  linear.curvature = floats(curvatures);
  linear.variance = floats(work.variances);
  pairs.slope = twice(half<1>(linear.slope));
  pairs.curvature = twice(half<1>(linear.curvature));
  pairs.variance = twice(half<1>(linear.variance));
  work.linear.step(linear);
  work.pairs.step(pairs);
  work.shared.step(pairs);
}

// As in experts.hpp, in double, of x = 1 and without a cap.
PQR_ALWAYS_INLINE inline void Auto::step_bias(const double* slopes, const double* curvatures,
                                              const double* variances, double label,
                                              double weight) {
  const auto ridges = bias_ridges();
  const double clicks = bias.z[0] + weight * label, seen = bias.info[0] + weight;
  by_four<experts>([&](std::size_t k) PQR_ALWAYS_INLINE {
    const Four s = read_as<Four>(slopes + k), h = read_as<Four>(curvatures + k);
    const Four z = read_as<Four>(bias.z.data() + k), info = read_as<Four>(bias.info.data() + k);
    const Four v = 1.0 / (read_as<Four>(ridges.data() + k) + info), w = -z * v;
    const Four by_kalman = h / (1.0 + larger(h * (read_as<Four>(variances + k) - v), Four{}));
    const Four scaled = s * (1.0 / double{ftrl_alpha});
    const Four by_ftrl = root(info * info + scaled * scaled) - info;
    const Four ftrl = {0, 0, 0, 1};
    const Four d = ftrl > 0.0 ? by_ftrl : by_kalman;
    write(bias.z.data() + k, z + (s + ((ftrl > 0.0 ? Four{} : s * d * v) - d * w)));
    write(bias.info.data() + k, info + d);
  });
  if (settings_.loss == Loss::squared) return;
  bias.z[0] = clicks;
  bias.info[0] = seen;
}

// Counts the row and its features.
PQR_ALWAYS_INLINE inline void Auto::count(const Row& row, const Work& work) {
  Seen* const* const all = work.seen.data();
  const std::size_t size = row.size;
  for (std::size_t i = 0; i < size; ++i) {
    if (Seen* const seen = all[i]) seen->count += seen->count < 0xFFFFFFFFu;
  }
  if (!work.ones) set_scales(row, work);
  if (pairs() < Rise::budget) {  // there are never fewer
    for (std::size_t i = 0; i < size; ++i) {
      if (all[i] && all[i]->count >= Rise::enough && all[i]->above == 0) {
        rise.waiting.push_back(row.indices[i]);
      }
    }
  }
  if (size > 0) next_feature = std::max(next_feature, std::uint64_t{row.indices[size - 1]} + 1);
  ++rows;
}

void Auto::set_scales(const Row& row, const Work& work) {
  for (std::size_t i = 0; i < row.size; ++i) {
    Seen* const seen = work.seen[i];
    if (!seen) continue;  // there was no room for it
    const float square = work.linear.slots[i]->z[0] = work.linear.values[i].square;
    seen->exponent = work.features[i].exponent;
    seen->scaled = square != 1.0f || seen->exponent != 0;
  }
}

void Auto::let_rise() {
  for (const std::uint32_t feature : rise.next(pairs())) {
    shared_.emplace_back();
    pairs_.resize(shared_.size());
    find(feature).seen->above = static_cast<std::uint16_t>(shared_.size());
  }
}

}  // namespace pqr
