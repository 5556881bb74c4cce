#include "auto.hpp"

#include <algorithm>
#include <cmath>

namespace pqr {

namespace {

constexpr int most_exponent = 100;       // of a unit, 2^exponent: its inverse is a float, too
constexpr float most_units = 1 << 20;    // of a value: so products of four, and their
constexpr float least_units = 0x1p-20f;  // inverses, are floats
// Outliers (docs/notes/auto-prototype.md). A value beyond `farthest` M is clipped. Until a feature
// has been in `settled` rows, a value `far` times M away, either way, starts its scale anew: more
// rows or a smaller factor would forget what features of varying values have learned.
constexpr float farthest = 16, far = 256;
constexpr std::uint32_t settled = 8;
constexpr double largest_target = 1e15;  // of label times weight: sums of squares are doubles

// How many rows ahead memory is prefetched: two rows take longer than memory does.
constexpr std::ptrdiff_t numbers_ahead = 6, features_ahead = 4, pairs_ahead = 2;

constexpr Four kalman_bias = {1, 1, 1, 0};  // FTRL has no variance
const Experts unmade;

}  // namespace

Auto::Known Auto::find(std::uint32_t feature) const {
  const std::uint32_t* const number = numbers_.find(feature);
  return known(number ? *number : 0);
}

Auto::Known Auto::add(std::uint32_t feature) {
  if (known_count_ % Chunk::size == 0) chunks_.emplace_back().slots.prefer_large(0, Chunk::size);
  *numbers_.make(feature) = static_cast<std::uint32_t>(known_count_);
  return known(known_count_++);
}

// -- planning ahead

// Prefetches memory of the rows that follow row r, in the order in which addresses become known:
// numbers of features, their slots, then those of pairs. Rows before `first` have had their turn;
// for that one, r starts `features_ahead` rows earlier.
PQR_ALWAYS_INLINE inline void Auto::look_ahead(const Rows& batch, std::ptrdiff_t first,
                                               std::ptrdiff_t r, Work& work) const {
  const auto ahead = [&](std::ptrdiff_t many, auto prepare) PQR_ALWAYS_INLINE {
    const auto n = static_cast<std::size_t>(r + many);
    if (r + many >= first && n < batch.size) prepare(batch[n], work.plans[n % plans_kept]);
  };
  ahead(numbers_ahead,
        [&](const Row& row, Plan&) PQR_ALWAYS_INLINE { numbers_.prefetch(row.indices, row.size); });
  ahead(features_ahead, [&](const Row& row, Plan& of) PQR_ALWAYS_INLINE {
    if (of.known.size() < row.size) of.known.resize(row.size);
    const std::uint32_t* const front = numbers_.front(row.indices, row.size);
    for (std::size_t i = 0; i < row.size; ++i) {
      const std::uint32_t feature = row.indices[i];
      const Known found = of.known[i] = front ? known(front[feature]) : find(feature);
      fetch(found.slot);
      fetch(found.seen);
    }
  });
  ahead(pairs_ahead, [&](const Row& row, Plan& of) PQR_ALWAYS_INLINE { plan(row, of); });
}

PQR_ALWAYS_INLINE inline void Auto::plan(const Row& row, Plan& plan) const {
  for (auto* const array : {&plan.ranks, &plan.places, &plan.found, &plan.at}) {
    if (array->size() < row.size + more_keys) array->resize(row.size + more_keys);
  }
  std::size_t size = 0;
  for (std::size_t i = 0; i < row.size; ++i) {
    const std::uint32_t above = plan.known[i].seen->above;
    plan.found[size] = above - 1;
    plan.at[size] = static_cast<std::uint32_t>(i);
    size += above != 0;
  }
  sort_keys(plan.found.data(), plan.at.data(), size, plan.ranks.data(), plan.places.data());
  plan.size = std::min<std::size_t>(size, most_high);
  plan.end = size > most_high ? plan.ranks[most_high] : Rise::low;
  RowBlock::reserve(plan.pairs, plan.size * plan.size / 2);
  Experts** next = plan.pairs.data();
  const std::uint32_t* const ranks = plan.ranks.data();
  for (std::size_t b = 1; b < plan.size; ++b) {
    Experts* const span = pairs_.span(ranks[b]);
    for (std::size_t a = 0; a < b; ++a) {
      Experts* const slot = *next++ = span ? span + 1 + ranks[a] : const_cast<Experts*>(&unmade);
      span ? fetch(slot) : pairs_.prefetch(ranks[a], ranks[b]);
    }
  }
}

// -- a row's coordinates

// Starts a new feature, or one anew. It is set aside until the row is learned.
Auto::Known Auto::start(std::uint32_t feature, const Seen& seen, Work& work) const {
  NewFeature& fresh = work.new_features.emplace_back(NewFeature{feature, seen, {}});
  fresh.slot.linear.z[0] = 1.0f;  // M^2, unless the value is not 1
  return {&fresh.slot, &fresh.seen};
}

// The features of a row. Most rows have values of 1 only, and features that never had others.
PQR_ALWAYS_INLINE inline void Auto::gather(const Row& row, Plan& plan, Work& work) const {
  work.new_features.clear();
  work.new_features.reserve(row.size);  // pointers into it are kept
  work.linear.clear(2 * row.size);
  work.linear.size = 2 * row.size;
  std::uint32_t low = 0;
  bool ones = true;
  for (std::size_t i = 0; i < row.size; ++i) {
    Known& known = plan.known[i];
    if (known.seen->count == 0) known = find(row.indices[i]);  // it may have come since
    if (known.seen->count == 0) known = start(row.indices[i], {}, work);
    work.take(i, known);
    ones &=
        (row.values[i] == 1.0f) & (known.slot->linear.z[0] == 1.0f) & (known.seen->exponent == 0);
    low += known.seen->above - 1u >= plan.end;
  }
  work.low_sum = low;
  if (ones && !work.linear.same) work.linear.values.assign(work.linear.values.size(), Value{});
  work.linear.same = ones;
  if (!ones) scale(row, plan, work);
}

// The values of a row and the scales of its features. M is the root mean square of a feature's
// values, the one at hand included. A value far beyond M counts as one at the border; and where the
// first values turn out to be of another size than those that follow, the feature starts anew.
void Auto::scale(const Row& row, Plan& plan, Work& work) const {
  work.low_sum = 0.0;
  for (std::size_t i = 0; i < row.size; ++i) {
    const float value = row.values[i];
    Known& known = plan.known[i];
    const Seen seen = *known.seen;
    const auto count = static_cast<float>(seen.count);
    float x = value * std::ldexp(1.0f, -seen.exponent), square = work.linear.slots[2 * i]->z[0];
    const bool alike = x * x < far * far * square && x * x * (far * far) > square;
    if (seen.count == 0 || (!alike && seen.count < settled && seen.above == 0)) {
      if (seen.count > 0) work.take(i, known = start(row.indices[i], seen, work));
      const int exponent = std::clamp(std::ilogb(value), -most_exponent, most_exponent);
      known.seen->exponent = static_cast<std::int8_t>(exponent);
      x = value * std::ldexp(1.0f, -exponent);
      square = x * x;
    }
    const float most = std::min(most_units, farthest * std::sqrt(square));
    x = std::copysign(std::clamp(std::fabs(x), least_units, most), x);
    square = (count * square + x * x) / (count + 1.0f);
    const Value scaled{x, x / std::sqrt(square), square};
    work.linear.values[2 * i] = work.linear.values[2 * i + 1] = scaled;
    if (seen.above - 1u >= plan.end) work.low_sum += double{scaled.scaled};
  }
}

// A new pair starts at its shared weight, q_i / M_j; where no more slots may be made, x_j is added
// to the sum that q_i multiplies instead.
PQR_ALWAYS_INLINE inline void Auto::gather_pairs(Plan& plan, Work& work) const {
  const std::size_t most = plan.size * (plan.size - 1) / 2;
  const bool ones = work.pairs.same = work.linear.same;
  work.sums.assign(plan.size, static_cast<float>(work.low_sum));
  work.pairs.slots.swap(plan.pairs);
  work.pairs.clear(most);
  work.new_pairs.clear();
  work.new_pairs.reserve(most);  // pointers into it are kept
  Experts **from = work.pairs.slots.data(), **to = from;
  Value* values = work.pairs.values.data();
  *values = Value{};
  for (std::size_t b = 1; b < plan.size; ++b) {
    const Value later = work.value(plan.places[b]);
    for (std::size_t a = 0; a < b; ++a) {
      Experts* slot = *from++;
      if (__builtin_expect(!is_made(*slot), 0)) {
        slot = find_or_start(plan, a, b, work);
        if (!slot) {
          work.sums[a] += later.scaled;
          continue;
        }
      }
      if (!ones) *values++ = work.value(plan.places[a]) * later;
      *to++ = slot;
    }
  }
  work.pairs.size = static_cast<std::size_t>(to - work.pairs.slots.data());
}

// The slot of a pair that lies in no array or is new; null if no more slots may be made.
Experts* Auto::find_or_start(const Plan& plan, std::size_t a, std::size_t b, Work& work) const {
  const auto* const found = pairs_.find(plan.ranks[a], plan.ranks[b]);
  if (found && is_made(*found)) return const_cast<Experts*>(found);
  if (pair_count_ + work.new_pairs.size() >= settings_.most_pairs) return nullptr;
  const float earlier = work.value(plan.places[a]).square;
  const float later = work.value(plan.places[b]).square;
  const Experts& shared = shared_[plan.ranks[a]];
  const Quad prior = work.priors.pair, ridge = ftrl4 * ftrl_ridge;
  const Quad lambda = prior * (earlier * work.priors.low_square) + ridge;
  const Quad q = -read_as<Quad>(shared.z) / (lambda + read_as<Quad>(shared.info));
  const Quad z = -(prior * (earlier * later) + ridge) * q * (kalman4 / std::sqrt(later) + ftrl4);
  Experts& slot = work.new_pairs.emplace_back(NewPair{plan.ranks[a], plan.ranks[b], {}}).slot;
  write(slot.z, z);
  std::fill_n(slot.info, paired, made);
  return &slot;
}

// -- predicting

// Margins and variances of all experts: of the bias in double, then of the coordinates. The expert
// without features knows the chance of a click so far (Krichevsky and Trofimov), which costs at
// most ln(T) / 2 + ln 2 more than the best constant in hindsight.
PQR_ALWAYS_INLINE inline void Auto::weigh(Work& work) const {
  const std::size_t interactions = std::max<std::size_t>(1, work.pairs.size + work.shared.size);
  const float shrink = 1.0f / std::sqrt(static_cast<float>(interactions));
  const Eight prior = twice(work.priors.pair);
  Eight margin{}, variance{}, pair_margin{}, pair_variance{};
  work.linear.weigh(work.priors.linear, 1.0f, margin, variance);
  work.pairs.weigh(prior, shrink, pair_margin, pair_variance);
  work.shared.weigh(prior, shrink, pair_margin, pair_variance);
  margin += joined(Quad{}, half<0>(pair_margin) + half<1>(pair_margin));
  variance += joined(Quad{}, half<0>(pair_variance) + half<1>(pair_variance));
  const double clicks = bias.z[0], seen = bias.info[0];
  // 1/4 is the largest p (1 - p), one row's worth; a mean of labels must not be drawn towards 0.
  const double ridge = settings_.loss == Loss::squared ? 1e-6 : 0.25;
  const auto four = [&](std::size_t k, Quad m, Quad V) PQR_ALWAYS_INLINE {
    const Four ridges = {ridge, ridge, ridge, double{ftrl_ridge}};
    const Four v = 1.0 / (ridges + read_as<Four>(bias.info.data() + k));
    Four w = -read_as<Four>(bias.z.data() + k) * v;
    if (k == 0 && settings_.loss == Loss::logistic) {
      w[0] = log_of((clicks + 0.5) / (seen - clicks + 0.5));
    }
    write(work.bias_variances + k, v);
    write(work.mixed.margins + k, w + __builtin_convertvector(m, Four));
    write(work.variances + k, kalman_bias * (v + __builtin_convertvector(V, Four)));
  };
  four(0, half<0>(margin), half<0>(variance));
  four(paired, half<1>(margin), half<1>(variance));
}

PQR_ALWAYS_INLINE inline void Auto::predict(const Row& row, Plan& plan, Work& work) const {
  work.priors = priors(row.size);
  gather(row, plan, work);
  gather_pairs(plan, work);
  const bool all_paired = work.pairs.size == plan.size * (plan.size - 1) / 2;
  work.shared.clear(plan.size);
  work.shared.same = work.linear.same && all_paired;
  for (std::size_t h = 0; h < plan.size; ++h) {
    if (work.sums[h] == 0.0f) continue;
    const Value meets{work.sums[h], work.sums[h], work.priors.low_square};
    work.shared.values[work.shared.size] = work.value(plan.places[h]) * meets;
    work.shared.slots[work.shared.size++] = const_cast<Experts*>(&shared_[plan.ranks[h]]);
  }
  weigh(work);
  mixture.mix(work.mixed);
}

// Predicts rows, calling `after` for each, until it returns false. Returns how many it took. When
// features have risen, plans may be out of date: the rows ahead are planned again.
template <class After>
PQR_ALWAYS_INLINE inline std::size_t Auto::each_row(const Rows& batch, double* margins,
                                                    After after) const {
  Work work;
  std::ptrdiff_t first = 0;
  const auto size = static_cast<std::ptrdiff_t>(batch.size);
  for (std::ptrdiff_t r = -features_ahead; r < size; ++r) {
    look_ahead(batch, first, r, work);
    if (r < first) continue;
    const auto n = static_cast<std::size_t>(r);
    Plan& plan = work.plans[n % plans_kept];
    predict(batch[n], plan, work);
    margins[n] = work.mixed.margin;
    const std::size_t high = rise.high.size();
    if (!std::isfinite(margins[n]) || !after(n, plan, work)) return n;
    if (rise.high.size() == high) continue;
    first = r + 1;
    r -= features_ahead;
  }
  return batch.size;
}

std::size_t Auto::margin(const Rows& batch, double* margins, double* of_experts) const {
  return vectorised(avx2_, [&, this](auto) PQR_ALWAYS_INLINE {
    return each_row(batch, margins, [&](std::size_t n, const Plan&, const Work& work) {
      if (of_experts) std::copy_n(work.mixed.margins, experts, of_experts + n * experts);
      return true;
    });
  });
}

// -- learning

std::size_t Auto::learn(const Rows& batch, double* margins) {
  return vectorised(avx2_, [&, this](auto) PQR_ALWAYS_INLINE {
    const auto after = [&, this](std::size_t n, const Plan& plan, Work& work) PQR_ALWAYS_INLINE {
      const double label = kept(settings_.loss, batch.labels[n]), weight = batch.weights[n];
      if (weight == 0.0) return true;
      if (!(weight * std::max(1.0, std::fabs(label)) <= largest_target)) return false;
      // First, so that the processor does what follows while it waits for divisions.
      implicit_slopes<experts>(settings_.loss, work.mixed.margins, work.mixed.links, work.variances,
                               label, weight, work.slopes);
      count(batch[n], plan, work);
      step(work, label, weight);
      if (!work.new_features.empty() || !work.new_pairs.empty()) keep(work);
      mixture.learn(work.mixed, label, weight);
      if (rise.see(batch[n].size, plan.size > 0 ? work.low_sum : 0.0)) let_rise();
      return true;
    };
    return each_row(batch, margins, after);
  });
}

// Steps the biases of the experts and all coordinates. FTRL has a variance of 0, so its slope is
// that before the step.
PQR_ALWAYS_INLINE inline void Auto::step(Work& work, double label, double weight) {
  double curvatures[experts];
  for (std::size_t k = 0; k < experts; k += 4) {
    const Four p = read_as<Four>(work.mixed.links + k);
    const Four h = larger(p * (1.0 - p), all(flattest));
    write(curvatures + k, weight * (settings_.loss == Loss::squared ? all(1.0) : h));
  }
  step_bias(work, curvatures, label, weight);
  const auto floats = [](const double* from) PQR_ALWAYS_INLINE {
    return joined(__builtin_convertvector(read_as<Four>(from), Quad),
                  __builtin_convertvector(read_as<Four>(from + paired), Quad));
  };
  const Slopes of{floats(work.slopes), floats(curvatures), floats(work.variances)};
  const Slopes of_pairs{twice(half<1>(of.slope)), twice(half<1>(of.curvature)),
                        twice(half<1>(of.variance))};
  work.linear.step(of);
  work.pairs.step(of_pairs);
  work.shared.step(of_pairs);
}

// The step of experts.hpp in double, for x = 1 and without a cap on information.
PQR_ALWAYS_INLINE inline void Auto::step_bias(const Work& work, const double* curvatures,
                                              double label, double weight) {
  const double clicks = bias.z[0] + weight * label, seen = bias.info[0] + weight;
  for (std::size_t k = 0; k < experts; k += 4) {
    const Four s = read_as<Four>(work.slopes + k), h = read_as<Four>(curvatures + k);
    const Four z = read_as<Four>(bias.z.data() + k), info = read_as<Four>(bias.info.data() + k);
    const Four v = read_as<Four>(work.bias_variances + k), V = read_as<Four>(work.variances + k);
    const Four scaled = s * (1.0 / double{ftrl_alpha});
    const Four of_kalman = h / (1.0 + larger(h * (V - v), Four{}));
    const Four of_ftrl = root(info * info + scaled * scaled) - info;
    const Four d = kalman_bias > 0.0 ? of_kalman : of_ftrl;
    write(bias.z.data() + k, z + (s + d * v * (kalman_bias * s + z)));
    write(bias.info.data() + k, info + d);
  }
  if (settings_.loss == Loss::squared) return;
  bias.z[0] = clicks;
  bias.info[0] = seen;
}

// Counts the row and its features.
PQR_ALWAYS_INLINE inline void Auto::count(const Row& row, const Plan& plan, const Work& work) {
  for (std::size_t i = 0; !work.linear.same && i < row.size; ++i) {
    work.linear.slots[2 * i]->z[0] = work.value(i).square;
  }
  const bool may_rise = pairs() < Rise::budget;  // there are never fewer
  for (std::size_t i = 0; i < row.size; ++i) {
    Seen& seen = *plan.known[i].seen;
    seen.count += seen.count < 0xFFFFFFFFu;  // never overflows
    const bool rises = may_rise && seen.count >= Rise::enough && seen.above == 0;
    if (rises) rise.waiting.push_back(row.indices[i]);
  }
  ++rows;
}

// Keeps what is new, within the limits of the settings.
void Auto::keep(const Work& work) {
  for (const NewFeature& fresh : work.new_features) {
    next_feature = std::max(next_feature, std::uint64_t{fresh.feature} + 1);
    Known known = find(fresh.feature);
    const bool is_new = known.seen->count == 0;
    if (is_new && features() >= settings_.most_features) continue;
    if (is_new) known = add(fresh.feature);
    *known.slot = fresh.slot;
    *known.seen = fresh.seen;
  }
  for (const NewPair& pair : work.new_pairs) {
    *pairs_.make(pair.earlier, pair.later) = pair.slot;
  }
  pair_count_ += work.new_pairs.size();
}

void Auto::let_rise() {
  for (const std::uint32_t feature : rise.next(pairs())) {
    shared_.emplace_back();
    find(feature).seen->above = static_cast<std::uint16_t>(shared_.size());
  }
  pairs_.resize(shared_.size());
}

}  // namespace pqr
