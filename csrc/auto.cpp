#include "auto.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "order.hpp"

namespace pqr {

namespace {

constexpr float infinite = std::numeric_limits<float>::infinity();
constexpr Linear8 linear_tau = {1, 1.5f, 10, 1, 1.5f, 10, 100, 1};
constexpr Pair4 pair_tau = {2, 1, 5, 1};
constexpr float ftrl_ridge = beta / alpha;

constexpr float most_units = 1 << 20;  // that a value has: products of four are floats,
constexpr float least_units = 0x1p-20f;
constexpr float farthest = 16;        // times M: beyond, a value is an outlier
constexpr std::uint32_t settled = 8;  // rows after which the scale of a feature is trusted
constexpr float far = 256;            // times M or less: until then, the scale is found anew
constexpr double largest_target = 1e15;
constexpr std::size_t most_high = 512;  // of a row: 130,816 pairs; later ones count as low there

// How many rows ahead memory is fetched: features, or what says where they are packed, then those,
// then pairs.
constexpr std::size_t features_ahead = 6, packed_ahead = 4, pairs_ahead = 2;

constexpr int most_exponent = 100, exponent_zero = 128;

int exponent_of(float x) { return std::clamp(std::ilogb(x), -most_exponent, most_exponent); }

// 2^-exponent, exactly.
float unit_of(int exponent) {
  const std::uint32_t bits = static_cast<std::uint32_t>(127 - exponent) << 23;
  float unit = 0.0f;
  std::memcpy(&unit, &bits, sizeof unit);
  return unit;
}

// The information that a pair starts with, so that a slot that was made is never all zeros.
constexpr float made = 1e-30f;
bool is_made(const PairSlot& slot) { return slot.info[0] > 0.0f; }

std::uint32_t key_of(std::uint32_t later, std::uint32_t earlier) { return later << 16 | earlier; }

// The value of a coordinate as each expert sees it: FTRL has it divided by its scale.
PQR_ALWAYS_INLINE inline Linear8 seen_by(float x, float scaled) {
  return kalman8 * x + ftrl8 * scaled;
}

}  // namespace

// Two pairs side by side: the experts of one, then those of the other.
PQR_ALWAYS_INLINE inline Linear8 joined(Pair4 first, Pair4 second) {
#if __has_builtin(__builtin_shufflevector)
  return __builtin_shufflevector(first, second, 0, 1, 2, 3, 4, 5, 6, 7);
#else
  return Linear8{first[0],  first[1],  first[2],  first[3],
                 second[0], second[1], second[2], second[3]};
#endif
}
template <int which>
PQR_ALWAYS_INLINE inline Pair4 half(Linear8 x) {
#if __has_builtin(__builtin_shufflevector)
  return __builtin_shufflevector(x, x, 4 * which, 4 * which + 1, 4 * which + 2, 4 * which + 3);
#else
  return Pair4{x[4 * which], x[4 * which + 1], x[4 * which + 2], x[4 * which + 3]};
#endif
}
PQR_ALWAYS_INLINE inline Linear8 joined(const float* first, const float* second) {
  return joined(read_as<Pair4>(first), read_as<Pair4>(second));
}
PQR_ALWAYS_INLINE inline void split(Linear8 both, float* first, float* second) {
  write(first, half<0>(both));
  write(second, half<1>(both));
}
PQR_ALWAYS_INLINE inline Linear8 both(float a, float b) { return joined(a - Pair4{}, b - Pair4{}); }
PQR_ALWAYS_INLINE inline Linear8 twice(Pair4 x) { return joined(x, x); }
Auto::Auto(const AutoSettings& settings) : mixture(settings.loss), settings_(settings) {}

Auto::Priors Auto::priors(std::size_t size) const {
  const auto features = static_cast<float>(rise.features_for(size));
  const auto pairs = static_cast<float>(rise.pairs_for(size));
  const auto low = static_cast<float>(rise.mean_low);
  Priors priors{};
  for (std::size_t k = 0; k < experts; ++k)
    priors.linear[k] = kalman8[k] * (features / linear_tau[k]);
  for (std::size_t k = 0; k < paired; ++k) priors.pair[k] = kalman4[k] * (pairs / pair_tau[k]);
  priors.shared = low * low;
  return priors;
}

// A row's high features in the order of rise.
template <class W>
PQR_ALWAYS_INLINE inline void Auto::plan(W, const Row& row, Plan& plan) const {
  if (plan.ranks.size() < row.size + more_keys) {
    for (auto* const part : {&plan.ranks, &plan.places, &plan.found, &plan.at, &plan.order}) {
      part->resize(row.size + more_keys);
    }
  }
  std::size_t size = 0;
  for (std::size_t i = 0; i < row.size; ++i) {
    const Seen* const seen = seen_.find(row.indices[i]);
    const std::uint32_t above = seen ? seen->above : 0;
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
  plan.last = size > most_high ? plan.ranks[most_high - 1] : Rise::low;
}

// The features of a row with their scales: M is the root mean square of a feature's values, the one
// at hand included. A value far beyond M counts as one at the border; and where the first values
// turn out to be of another size than those that follow, the feature starts anew.
PQR_ALWAYS_INLINE inline void Auto::gather(const Row& row, const Plan& plan, const Priors& priors,
                                           Work& work) const {
  static const LinearSlot initial{};
  work.features.resize(row.size);
  work.size = 0;
  work.low_sum = 0.0;
  work.ones = true;
  work.anew = false;
  for (std::size_t i = 0; i < row.size; ++i) {
    Feature& feature = work.features[i];
    const Seen* const known = seen_.find(row.indices[i]);
    const Seen seen = known ? *known : Seen{};
    feature.seen = known;
    feature.exponent = seen.exponent;
    feature.is_new = feature.anew = seen.count == 0;
    feature.slot = feature.anew ? &initial : linear_.find(row.indices[i]);
    float square = feature.slot->z[0];
    if (row.values[i] == 1.0f && (feature.anew || (seen.exponent == 0 && square == 1.0f))) {
      feature.x = feature.scaled = feature.square = 1.0f;  // as below
    } else {
      float x = row.values[i] * unit_of(seen.exponent);
      const bool alike = x * x < far * far * square && x * x * (far * far) > square;
      feature.anew |= !alike && seen.count < settled && seen.above == 0;
      if (feature.anew) {
        feature.slot = &initial;
        feature.exponent = static_cast<std::int8_t>(exponent_of(row.values[i]));
        x = row.values[i] * unit_of(feature.exponent);
        square = x * x;
      }
      const float most = std::min(most_units, farthest * std::sqrt(square));
      x = std::copysign(std::clamp(std::fabs(x), least_units, most), x);
      const auto count = static_cast<float>(seen.count);
      feature.x = x;
      feature.square = (count * square + x * x) / (count + 1.0f);
      feature.scaled = x / std::sqrt(feature.square);
      work.ones = false;
    }
    work.anew |= feature.anew;
    if (seen.above == 0 || seen.above - 1u > plan.last)
      work.low_sum += static_cast<double>(feature.scaled);
  }
  work.high.resize(plan.size);
  const Pair4 ridge = ftrl4 * ftrl_ridge, prior = read_as<Pair4>(priors.pair);
  for (std::size_t h = 0; h < plan.size; ++h) {
    const Feature& feature = work.features[plan.places[h]];
    const PairSlot& slot = shared_[plan.ranks[h]];
    High& high = work.high[h];
    const Pair4 lambda = prior * (feature.square * priors.shared) + ridge;
    const Pair4 v = 1.0f / (lambda + read_as<Pair4>(slot.info));
    high.rank = plan.ranks[h];
    high.x = feature.x;
    high.square = feature.square;
    high.inverse = work.ones ? 1.0f : 1.0f / std::sqrt(feature.square);
    high.sum = static_cast<float>(work.low_sum);
    write(high.v, v);
    write(high.q, -read_as<Pair4>(slot.z) * v);
  }
  work.fresh.clear();
  work.missing.clear();
  if (plan.size < 2) return;
  work.ones ? pair_up<true>(plan, priors, work) : pair_up<false>(plan, priors, work);
}

// The interactions of the high features. A pair that has no slot yet is like its shared weight,
// q_i / M_j; where there is no room for another slot, it goes into the sum that q_i multiplies.
template <bool ones>
PQR_ALWAYS_INLINE inline void Auto::pair_up(const Plan& plan, const Priors& priors,
                                            Work& work) const {
  const Pair4 ridge = ftrl4 * ftrl_ridge, prior = read_as<Pair4>(priors.pair);
  const std::size_t most = work.high.size() * (work.high.size() - 1) / 2 + 1;
  if (work.slots.size() < most) {
    work.slots.resize(most);
    work.keys.resize(most);
    work.values.resize(most);
    work.v.resize(most * paired);
  }
  work.fresh.reserve(most);  // pointers to its slots are kept
  PairSlot** const slots = work.slots.data();
  std::uint32_t* const keys = work.keys.data();
  const std::uint32_t* const ranks = plan.ranks.data();
  High* const high = work.high.data();
  std::size_t next = 0;
  std::size_t room = settings_.most_pairs - std::min(settings_.most_pairs, pair_count_);
  for (std::size_t b = 1; b < plan.size; ++b) {
    const High& later = high[b];
    const PairTable<PairSlot>::Row row(pairs_, ranks[b]);
    for (std::size_t a = 0; a < b; ++a) {
      High& earlier = high[a];
      auto* slot = const_cast<PairSlot*>(row.find(ranks[a]));
      const float square = ones ? 1.0f : earlier.square * later.square;
      if (!slot || !is_made(*slot)) {
        if (room == 0) {
          earlier.sum += later.x * later.inverse;
          continue;
        }
        --room;
        slot = &work.fresh.emplace_back();
        work.missing.push_back(next);
        const Pair4 start = read_as<Pair4>(earlier.q) * (kalman4 * later.inverse + ftrl4);
        write(slot->z, -(prior * square + ridge) * start);
        std::fill_n(slot->info, paired, made);
      }
      slots[next] = slot;
      keys[next] = key_of(ranks[b], ranks[a]);
      if (!ones) {
        const float x = earlier.x * later.x;
        work.values[next] = {x, x * (earlier.inverse * later.inverse), square};
      }
      ++next;
    }
  }
  work.size = next;
  work.nothing = PairSlot{};
  work.slots[next] = &work.nothing;
  work.values[next] = {0.0f, 0.0f, 1.0f};
}

// Does the work on a row's pairs, two at a time: it is given the first's number, their values as
// experts see them, and their M^2. Of values that are all 1, none is read.
template <bool ones, class Work, class Do>
PQR_ALWAYS_INLINE inline void by_two(const Work& work, Do two) {
  const std::size_t size = work.size;
  if (ones) {
    const Pair4 x = kalman4 + ftrl4 * work.shrink;
    const Linear8 twice_x = twice(x), one = 1.0f - Linear8{};
    std::size_t p = 0;
    for (; p + 1 < size; p += 2) two(p, twice_x, one);
    if (p < size) two(p, joined(x, Pair4{}), one);
    return;
  }
  const Linear8 by_kalman = twice(kalman4), by_ftrl = twice(ftrl4) * work.shrink;
  const auto* const values = work.values.data();
  for (std::size_t p = 0; p < size; p += 2) {
    const auto &first = values[p], &second = values[p + 1];
    const Linear8 x = both(first.x, second.x), scaled = both(first.scaled, second.scaled);
    two(p, by_kalman * x + by_ftrl * scaled, both(first.square, second.square));
  }
}

double Auto::bias_ridge(std::size_t expert) const {
  if (ftrl8[expert] != 0.0f) return ftrl_ridge;
  return settings_.loss == Loss::squared ? 1e-6 : 0.25;
}

// The expert without features knows the chance of a click so far (Krichevsky and Trofimov), which
// costs at most ln(T) / 2 + ln 2 more than the best constant in hindsight.
PQR_ALWAYS_INLINE inline double Auto::bias_margin(std::size_t expert) const {
  const auto [z, info] = bias[expert];
  if (expert == 0 && settings_.loss == Loss::logistic) return log_of((z + 0.5) / (info - z + 0.5));
  return -z / (bias_ridge(expert) + info);
}

// Margins and variances of all experts: of the bias in double, of features in their order, and of
// interactions in two sums, so that one need not wait for the other.
PQR_ALWAYS_INLINE inline void Auto::weigh(const Priors& priors, Work& work) const {
  std::size_t interactions = work.size;
  for (const High& high : work.high) interactions += high.sum != 0.0f;
  work.shrink = 1.0f / std::sqrt(static_cast<float>(std::max<std::size_t>(1, interactions)));
  for (std::size_t k = 0; k < experts; ++k) {
    work.margins[k] = bias_margin(k);
    work.variances[k] = 1.0 / (bias_ridge(k) + bias[k].info);
  }
  work.ones ? weigh_coordinates<true>(priors, work) : weigh_coordinates<false>(priors, work);
}

template <bool ones>
PQR_ALWAYS_INLINE inline void Auto::weigh_coordinates(const Priors& priors, Work& work) const {
  Linear8 margin{}, variance{};
  const Linear8 ridge = ftrl8 * ftrl_ridge + Linear8{1, 0, 0, 0, 0, 0, 0, 0};
  for (Feature& feature : work.features) {
    const Linear8 x = ones ? seen_by(1.0f, 1.0f) : seen_by(feature.x, feature.scaled);
    const float square = ones ? 1.0f : feature.square;
    const Linear8 lambda = read_as<Linear8>(priors.linear) * square + ridge;
    const Linear8 v = 1.0f / (lambda + read_as<Linear8>(feature.slot->info)), vx = v * x;
    write(feature.v, v);
    margin -= read_as<Linear8>(feature.slot->z) * vx;
    variance += vx * x;
  }
  Linear8 margins = {}, variances = {};
  const Linear8 prior = twice(read_as<Pair4>(priors.pair)), pair_ridge = twice(ftrl4) * ftrl_ridge;
  PairSlot* const* const slots = work.slots.data();
  float* const pair_v = work.v.data();
  by_two<ones>(work, [&](std::size_t p, Linear8 x, Linear8 square) PQR_ALWAYS_INLINE {
    const PairSlot &first = *slots[p], &second = *slots[p + 1];
    const Linear8 lambda = prior * square + pair_ridge;
    const Linear8 v = 1.0f / (lambda + joined(first.info, second.info)), vx = v * x;
    write(pair_v + p * paired, v);
    margins -= joined(first.z, second.z) * vx;
    variances += vx * x;
  });
  Pair4 pair_margin = half<0>(margins) + half<1>(margins);
  Pair4 pair_variance = half<0>(variances) + half<1>(variances);
  const Pair4 shrink = kalman4 + ftrl4 * work.shrink;
  for (const High& high : work.high) {
    const float x = high.x * high.sum;
    const Pair4 values = (kalman4 * x + ftrl4 * (x * high.inverse)) * shrink;
    pair_margin += read_as<Pair4>(high.q) * values;
    pair_variance += read_as<Pair4>(high.v) * values * values;
  }
  for (std::size_t k = 0; k < experts; ++k) {
    work.margins[k] += static_cast<double>(margin[k]);
    work.variances[k] += static_cast<double>(variance[k]);
  }
  for (std::size_t k = 0; k < paired; ++k) {
    work.margins[paired + k] += static_cast<double>(pair_margin[k]);
    work.variances[paired + k] += static_cast<double>(pair_variance[k]);
  }
}

// Slots for what has none, as long as there is room.
void Auto::make(const Row& row, Work& work) {
  bool moved = false;
  if (work.anew) {
    for (std::size_t i = 0; i < row.size; ++i) {
      Feature& feature = work.features[i];
      if (!feature.is_new || features_ >= settings_.most_features) continue;
      feature.is_new = false;
      *seen_.make(row.indices[i], moved) = {0, 0, feature.exponent};
      linear_.make(row.indices[i], moved);
      ++features_;
    }
    for (std::size_t i = 0; i < row.size; ++i) {  // those that are there may have moved
      Feature& feature = work.features[i];
      feature.seen = seen_.find(row.indices[i]);
      feature.slot = feature.is_new ? nullptr : linear_.find(row.indices[i]);
      if (feature.anew && feature.slot) const_cast<LinearSlot&>(*feature.slot) = LinearSlot{};
    }
  }
  moved = false;
  for (std::size_t n = 0; n < work.missing.size(); ++n) {
    const std::uint32_t key = work.keys[work.missing[n]];
    PairSlot* const slot = pairs_.make(key & 0xFFFF, key >> 16, moved);
    *slot = work.fresh[n];
    work.slots[work.missing[n]] = slot;
  }
  pair_count_ += work.missing.size();
  for (std::size_t p = 0; moved && p < work.size; ++p) {
    work.slots[p] = const_cast<PairSlot*>(pairs_.find(work.keys[p] & 0xFFFF, work.keys[p] >> 16));
  }
}

PQR_ALWAYS_INLINE inline void Auto::step(const Priors& priors, Work& work, const double* links,
                                         double label, double weight) {
  const bool squared = settings_.loss == Loss::squared;
  double by_kalman[experts], by_ftrl[experts], curvature[experts];
  implicit_slopes<experts>(settings_.loss, work.margins, links, work.variances, label, weight,
                           by_kalman);
  by_four([&](std::size_t k) PQR_ALWAYS_INLINE {
    const Four p = read_as<Four>(links + k);
    const Four h = squared ? all(1.0) : larger(p * (1.0 - p), all(flattest));
    write(by_ftrl + k, weight * (p - label));
    write(curvature + k, weight * h);
  });
  Slopes<Linear8> each{};
  for (std::size_t k = 0; k < experts; ++k) {
    const bool ftrl = ftrl8[k] != 0.0f;
    const double slope = ftrl ? by_ftrl[k] : by_kalman[k];
    each.slope[k] = static_cast<float>(slope);
    each.curvature[k] = static_cast<float>(curvature[k]);
    each.variance[k] = static_cast<float>(work.variances[k]);
    if (k == 0 && !squared) {
      bias[k].z += weight * label;
      bias[k].info += weight;
    } else {
      step_bias(bias[k], bias_ridge(k), ftrl, slope, curvature[k], work.variances[k]);
    }
  }
  work.ones ? step_coordinates<true>(priors, work, each)
            : step_coordinates<false>(priors, work, each);
}

template <bool ones>
PQR_ALWAYS_INLINE inline void Auto::step_coordinates(const Priors& priors, Work& work,
                                                     const Slopes<Linear8>& each) {
  const Linear8 ridge = ftrl8 * ftrl_ridge + Linear8{1, 0, 0, 0, 0, 0, 0, 0};
  for (const Feature& feature : work.features) {
    auto* const slot = const_cast<LinearSlot*>(feature.slot);
    if (!slot) continue;  // there was no room for it
    const Linear8 x = ones ? seen_by(1.0f, 1.0f) : seen_by(feature.x, feature.scaled);
    const float square = ones ? 1.0f : feature.square;
    const Linear8 cap = ftrl8 > 0.0f ? infinite - Linear8{} : most_information * square - Linear8{};
    const Linear8 lambda = read_as<Linear8>(priors.linear) * square + ridge;
    step_slot(*slot, read_as<Linear8>(feature.v), x, each, cap, lambda);
    slot->z[0] = square;
  }
  const Slopes<Pair4> pairs{half<1>(each.slope), half<1>(each.curvature), half<1>(each.variance)};
  const Slopes<Linear8> two{twice(pairs.slope), twice(pairs.curvature), twice(pairs.variance)};
  const Pair4 prior = read_as<Pair4>(priors.pair), pair_ridge = ftrl4 * ftrl_ridge;
  const Linear8 priors2 = twice(prior), ridge2 = twice(pair_ridge);
  PairSlot* const* const slots = work.slots.data();
  const float* const pair_v = work.v.data();
  by_two<ones>(work, [&](std::size_t p, Linear8 x, Linear8 square) PQR_ALWAYS_INLINE {
    PairSlot &first = *slots[p], &second = *slots[p + 1];
    const Linear8 cap = twice(ftrl4) > 0.0f ? infinite - Linear8{} : most_information * square;
    Linear8 z = joined(first.z, second.z), info = joined(first.info, second.info);
    const Linear8 v = read_as<Linear8>(pair_v + p * paired);
    pqr::step(z, info, v, x, two, cap, priors2 * square + ridge2);
    split(z, first.z, second.z);
    split(info, first.info, second.info);
  });
  const Pair4 shrink = kalman4 + ftrl4 * work.shrink;
  for (const High& high : work.high) {
    if (high.sum == 0.0f) continue;
    const float x = high.x * high.sum, square = high.square * priors.shared;
    const Pair4 values = (kalman4 * x + ftrl4 * (x * high.inverse)) * shrink;
    const Pair4 cap = ftrl4 > 0.0f ? infinite - Pair4{} : most_information * square - Pair4{};
    step_slot(shared_[high.rank], read_as<Pair4>(high.v), values, pairs, cap,
              prior * square + pair_ridge);
  }
}

// As pqr::step, in double and without a cap.
void Auto::step_bias(BiasSlot& slot, double ridge, bool ftrl, double slope, double curvature,
                     double variance) {
  const double v = 1.0 / (ridge + slot.info), w = -slot.z * v;
  const double by_kalman = curvature / (1.0 + std::max(0.0, curvature * (variance - v)));
  const double scaled = slope / static_cast<double>(alpha);
  const double by_ftrl = std::sqrt(slot.info * slot.info + scaled * scaled) - slot.info;
  const double d = ftrl ? by_ftrl : by_kalman;
  slot.z += slope + ((ftrl ? 0.0 : slope * d * v) - d * w);
  slot.info += d;
}

// Counts the row and its features, and lets features rise.
void Auto::see(const Row& row, const Work& work) {
  const bool may_rise = pairs() < Rise::budget;  // there are never fewer
  for (std::size_t i = 0; i < row.size; ++i) {
    const Feature& feature = work.features[i];
    if (!feature.slot) continue;
    auto& seen = const_cast<Seen&>(*feature.seen);
    seen.exponent = feature.exponent;
    if (seen.count < 0xFFFFFFFFu) ++seen.count;
    if (seen.count >= Rise::enough && seen.above == 0 && may_rise) {
      rise.waiting.push_back(row.indices[i]);
    }
  }
  if (row.size > 0) {
    next_feature = std::max(next_feature, std::uint64_t{row.indices[row.size - 1]} + 1);
  }
  ++rows;
  if (!rise.see(row.size, work.high.empty() ? 0.0 : work.low_sum)) return;
  bool moved = false;
  for (const std::uint32_t feature : rise.next(pairs())) {
    shared_.emplace_back();
    pairs_.resize(shared_.size());
    seen_.make(feature, moved)->above = static_cast<std::uint16_t>(shared_.size());
  }
}

PQR_ALWAYS_INLINE inline bool Auto::learn_row(const Row& row, const Plan& plan, Work& work,
                                              double label, double weight, double& margin) {
  const Priors priors = this->priors(row.size);
  gather(row, plan, priors, work);
  weigh(priors, work);
  const Mixture::Mixed mixed = mixture.mix(work.margins);
  margin = mixed.margin;
  if (!std::isfinite(margin)) return false;
  if (weight == 0.0) return true;
  if (!(weight * std::max(1.0, std::fabs(label)) <= largest_target)) return false;
  mixture.learn(mixed, label, weight);
  make(row, work);
  step(priors, work, mixed.links, label, weight);
  see(row, work);
  return true;
}

std::size_t Auto::learn(const Rows& batch, double* margins) {
  return vectorised(avx2_, [&, this](auto width) PQR_ALWAYS_INLINE {
    Work work;
    std::size_t risen = shared_.size() + 1;  // none of the plans is made
    for (std::size_t r = 0; r < batch.size; ++r) {
      if (risen != shared_.size()) replan(width, batch, r, work);
      risen = shared_.size();
      look_ahead(width, batch, r, work);
      const double label = kept(settings_.loss, batch.labels[r]);
      if (!learn_row(batch[r], work.plans[r % planned], work, label, batch.weights[r],
                     margins[r])) {
        return r;
      }
    }
    return batch.size;
  });
}

std::size_t Auto::margin(const Rows& batch, double* margins) const {
  return vectorised(avx2_, [&, this](auto width) PQR_ALWAYS_INLINE {
    Work work;
    if (batch.size > 0) replan(width, batch, 0, work);
    for (std::size_t r = 0; r < batch.size; ++r) {
      look_ahead(width, batch, r, work);
      const Priors priors = this->priors(batch[r].size);
      gather(batch[r], work.plans[r % planned], priors, work);
      weigh(priors, work);
      margins[r] = mixture.mix(work.margins).margin;
      if (!std::isfinite(margins[r])) return r;
    }
    return batch.size;
  });
}

std::array<double, experts> Auto::expert_margins(const Row& row) const {
  std::array<double, experts> margins{};
  vectorised(avx2_, [&, this](auto width) PQR_ALWAYS_INLINE {
    Work work;
    const Priors priors = this->priors(row.size);
    plan(width, row, work.plans[0]);
    gather(row, work.plans[0], priors, work);
    weigh(priors, work);
    std::copy_n(work.margins, experts, margins.begin());
  });
  return margins;
}

// Plans the rows from r on that `look_ahead` takes for planned.
template <class W>
PQR_ALWAYS_INLINE inline void Auto::replan(W width, const Rows& batch, std::size_t r,
                                           Work& work) const {
  for (std::size_t n = r; n < std::min(r + pairs_ahead, batch.size); ++n) {
    plan(width, batch[n], work.plans[n % planned]);
  }
}

// Fetches memory of rows to come, and plans one of them.
template <class W>
PQR_ALWAYS_INLINE inline void Auto::look_ahead(W width, const Rows& batch, std::size_t r,
                                               Work& work) const {
  if (r + features_ahead < batch.size) {
    const Row row = batch[r + features_ahead];
    seen_.prefetch(row.indices, row.size);
    linear_.prefetch(row.indices, row.size);
  }
  if (r + packed_ahead < batch.size) {
    const Row row = batch[r + packed_ahead];
    for (std::size_t i = 0; i < row.size; ++i) {
      seen_.prefetch_packed(row.indices[i]);
      linear_.prefetch_packed(row.indices[i]);
    }
  }
  if (r + pairs_ahead >= batch.size) return;
  Plan& next = work.plans[(r + pairs_ahead) % planned];
  plan(width, batch[r + pairs_ahead], next);
  for (std::size_t b = 1; b < next.size; ++b) {
    const PairTable<PairSlot>::Row row(pairs_, next.ranks[b]);
    for (std::size_t a = 0; a < b; ++a) row.prefetch(next.ranks[a]);
  }
}

double Auto::bias_weight() const {
  const auto shares = mixture.coefficients();
  double sum = 0.0;
  for (std::size_t k = 0; k < experts; ++k) sum += shares[k] * bias_margin(k);
  return sum;
}

// What FTRL divides by depends on the row: here it is that of a mean row.
std::vector<float> Auto::weights(Part part, const AutoState& state) const {
  const auto shares = mixture.coefficients();
  const Priors prior = priors(0);
  const double shrink = 1.0 / std::sqrt(rise.pairs_for(0));
  const auto of = [&](const float* slot, std::size_t size, const float* lambdas, double square,
                      double units, double ftrl) {
    double sum = 0.0;
    for (std::size_t k = 0; k < size; ++k) {
      const std::size_t expert = experts - size + k;
      const bool by_ftrl = ftrl8[expert] != 0.0f;
      const double lambda = by_ftrl ? ftrl_ridge : lambdas[k] * square;
      const double weight = -slot[k] / (lambda + slot[size + k]);
      sum += shares[expert] * (by_ftrl ? weight * ftrl : weight);
    }
    return static_cast<float>(sum * units);
  };
  std::vector<double> squares, units;  // by rank
  for (const std::uint32_t feature : rise.high) {
    squares.push_back(linear_.find(feature)->z[0]);
    units.push_back(unit_of(seen_.find(feature)->exponent));
  }
  std::vector<float> found;
  if (part == Part::linear) {
    for (std::size_t n = 0; n < state.features.size(); ++n) {
      const double unit = unit_of(int{state.exponents[n]} - exponent_zero);
      const double square = state.squares[n];
      found.push_back(of(state.slots.data() + n * 2 * (experts - 1), experts - 1, prior.linear + 1,
                         square, unit, 1.0 / std::sqrt(square)));
    }
  } else if (part == Part::shared) {
    for (std::size_t rank = 0; rank < squares.size(); ++rank) {
      found.push_back(of(state.shared.data() + rank * 2 * paired, paired, prior.pair,
                         squares[rank] * prior.shared, units[rank],
                         shrink / std::sqrt(squares[rank])));
    }
  } else {
    for (std::size_t n = 0; n < state.pairs.size(); ++n) {
      const std::uint32_t later = state.pairs[n] >> 16, earlier = state.pairs[n] & 0xFFFF;
      const double square = squares[later] * squares[earlier];
      found.push_back(of(state.pair_slots.data() + n * 2 * paired, paired, prior.pair, square,
                         units[later] * units[earlier], shrink / std::sqrt(square)));
    }
  }
  return found;
}

AutoState Auto::state() const {
  AutoState state;
  linear_.each_sorted([&](std::uint32_t feature, const LinearSlot& slot) {
    const Seen* const seen = seen_.find(feature);
    if (!seen || seen->count == 0) return;
    state.features.push_back(feature);
    state.counts.push_back(seen->count);
    state.squares.push_back(slot.z[0]);
    state.exponents.push_back(static_cast<std::uint8_t>(seen->exponent + exponent_zero));
    state.slots.insert(state.slots.end(), slot.z + 1, slot.z + experts);
    state.slots.insert(state.slots.end(), slot.info + 1, slot.info + experts);
  });
  const auto append = [](std::vector<float>& to, const PairSlot& slot) {
    to.insert(to.end(), slot.z, slot.z + paired);
    to.insert(to.end(), slot.info, slot.info + paired);
  };
  for (const PairSlot& slot : shared_) append(state.shared, slot);
  for (std::uint32_t later = 0; later < shared_.size(); ++later) {
    pairs_.each_of_row(later, [&](std::uint32_t earlier, const PairSlot& slot) {
      if (!is_made(slot)) return true;
      state.pairs.push_back(key_of(later, earlier));
      append(state.pair_slots, slot);
      return true;
    });
  }
  return state;
}

bool Auto::restore(const AutoState& state) {
  constexpr std::size_t linear_floats = 2 * (experts - 1), pair_floats = 2 * paired;
  const std::size_t size = state.features.size(), order = rise.high.size();
  const bool fits = state.counts.size() == size && state.squares.size() == size &&
                    state.exponents.size() == size && state.slots.size() == linear_floats * size &&
                    state.shared.size() == pair_floats * order && order <= Rise::most &&
                    state.pair_slots.size() == pair_floats * state.pairs.size();
  if (!fits) return false;
  bool moved = false;
  for (std::size_t n = 0; n < size; ++n) {
    if ((n > 0 && state.features[n] <= state.features[n - 1]) || state.counts[n] == 0) return false;
    const int exponent = int{state.exponents[n]} - exponent_zero;
    if (std::abs(exponent) > most_exponent) return false;
    *seen_.make(state.features[n], moved) = {state.counts[n], 0,
                                             static_cast<std::int8_t>(exponent)};
    LinearSlot& slot = *linear_.make(state.features[n], moved);
    const float* const from = state.slots.data() + n * linear_floats;
    slot.z[0] = state.squares[n];
    std::copy_n(from, experts - 1, slot.z + 1);
    std::copy_n(from + experts - 1, experts - 1, slot.info + 1);
  }
  features_ = size;
  for (const std::uint32_t feature : rise.waiting) {
    if (!linear_.find(feature)) return false;
  }
  const auto slot_at = [](const float* from) {
    PairSlot slot;
    std::copy_n(from, paired, slot.z);
    std::copy_n(from + paired, paired, slot.info);
    return slot;
  };
  for (std::size_t rank = 0; rank < order; ++rank) {
    if (!linear_.find(rise.high[rank])) return false;
    Seen& seen = *seen_.make(rise.high[rank], moved);
    if (seen.above != 0) return false;
    seen.above = static_cast<std::uint16_t>(rank + 1);
    shared_.push_back(slot_at(state.shared.data() + rank * pair_floats));
  }
  pairs_.resize(order);
  pair_count_ = state.pairs.size();
  if (pair_count_ > settings_.most_pairs) return false;
  for (std::size_t n = 0; n < state.pairs.size(); ++n) {
    const std::uint32_t key = state.pairs[n], later = key >> 16, earlier = key & 0xFFFF;
    if ((n > 0 && key <= state.pairs[n - 1]) || earlier >= later || later >= order) return false;
    PairSlot& slot = *pairs_.make(earlier, later, moved);
    slot = slot_at(state.pair_slots.data() + n * pair_floats);
    if (!is_made(slot)) return false;
  }
  return true;
}

}  // namespace pqr
