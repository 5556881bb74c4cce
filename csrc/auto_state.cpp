// What an Auto has learned, as plain arrays, and back; and its weights, as if it were linear.

#include <algorithm>
#include <cmath>

#include "auto.hpp"

namespace pqr {

namespace {

constexpr int exponent_zero = 128;
constexpr std::size_t linear_floats = 2 * (experts - 1), pair_floats = 2 * paired;

void append(std::vector<float>& to, const PairExperts& slot) {
  to.insert(to.end(), slot.z, slot.z + paired);
  to.insert(to.end(), slot.info, slot.info + paired);
}

PairExperts slot_at(const float* from) {
  PairExperts slot;
  std::copy_n(from, paired, slot.z);
  std::copy_n(from + paired, paired, slot.info);
  return slot;
}

}  // namespace

AutoState Auto::state() const {
  AutoState state;
  numbers_.each_sorted([&](std::uint32_t feature, std::uint32_t number) {
    if (number == 0) return;
    const auto [slot, seen] = known(number);
    state.features.push_back(feature);
    state.counts.push_back(seen->count);
    state.squares.push_back(slot->z[0]);
    state.exponents.push_back(static_cast<std::uint8_t>(seen->exponent + exponent_zero));
    state.slots.insert(state.slots.end(), slot->z + 1, slot->z + experts);
    state.slots.insert(state.slots.end(), slot->info + 1, slot->info + experts);
  });
  for (const PairExperts& slot : shared_) append(state.shared, slot);
  for (std::uint32_t later = 0; later < shared_.size(); ++later) {
    pairs_.each_of_span(later, [&](std::uint32_t earlier, const PairExperts& slot) {
      if (!is_made(slot)) return true;
      state.pairs.push_back(later << 16 | earlier);
      append(state.pair_slots, slot);
      return true;
    });
  }
  return state;
}

bool Auto::restore(const AutoState& state) {
  const std::size_t size = state.features.size(), order = rise.high.size();
  const bool fits = state.counts.size() == size && state.squares.size() == size &&
                    state.exponents.size() == size && state.slots.size() == linear_floats * size &&
                    state.shared.size() == pair_floats * order && order <= Rise::most &&
                    state.pairs.size() <= settings_.most_pairs &&
                    state.pair_slots.size() == pair_floats * state.pairs.size();
  return fits && restore_features(state) && restore_pairs(state);
}

bool Auto::restore_features(const AutoState& state) {
  for (std::size_t n = 0; n < state.features.size(); ++n) {
    const int exponent = int{state.exponents[n]} - exponent_zero;
    if ((n > 0 && state.features[n] <= state.features[n - 1]) || state.counts[n] == 0 ||
        std::abs(exponent) > most_exponent) {
      return false;
    }
    const auto [slot, seen] = add(state.features[n]);
    const float* const from = state.slots.data() + n * linear_floats;
    const bool scaled = exponent != 0 || state.squares[n] != 1.0f;
    *seen = {state.counts[n], 0, static_cast<std::int8_t>(exponent), scaled};
    slot->z[0] = state.squares[n];
    std::copy_n(from, experts - 1, slot->z + 1);
    std::copy_n(from + experts - 1, experts - 1, slot->info + 1);
  }
  return std::all_of(rise.waiting.begin(), rise.waiting.end(),
                     [&](std::uint32_t feature) { return find(feature).seen->count > 0; });
}

bool Auto::restore_pairs(const AutoState& state) {
  const std::size_t order = rise.high.size();
  for (std::size_t rank = 0; rank < order; ++rank) {
    Seen* const seen = find(rise.high[rank]).seen;
    if (seen->count == 0 || seen->above != 0) return false;
    seen->above = static_cast<std::uint16_t>(rank + 1);
    shared_.push_back(slot_at(state.shared.data() + rank * pair_floats));
  }
  pairs_.resize(order);
  pair_count_ = state.pairs.size();
  bool moved = false;
  for (std::size_t n = 0; n < state.pairs.size(); ++n) {
    const std::uint32_t key = state.pairs[n], later = key >> 16, earlier = key & 0xFFFF;
    if ((n > 0 && key <= state.pairs[n - 1]) || earlier >= later || later >= order) return false;
    PairExperts& slot = *pairs_.make(earlier, later, moved);
    slot = slot_at(state.pair_slots.data() + n * pair_floats);
    if (!is_made(slot)) return false;
  }
  return true;
}

// What FTRL divides by depends on the row: here it is that of a mean row.
std::vector<float> Auto::weights(Part part, const AutoState& state) const {
  const auto shares = mixture.coefficients();
  const Priors priors = this->priors(0);
  const double shrink = 1.0 / std::sqrt(rise.pairs_for(0));
  const auto of = [&](const float* slot, std::size_t size, const Eight& lambdas, double square,
                      double unit, double ftrl) {
    double sum = 0.0;
    for (std::size_t k = 0; k < size; ++k) {
      const std::size_t expert = experts - size + k;
      const bool by_ftrl = ftrl8[expert] != 0.0f;
      const double lambda = by_ftrl ? double{ftrl_ridge} : double{lambdas[expert]} * square;
      const double weight = -double{slot[k]} / (lambda + double{slot[size + k]});
      sum += shares[expert] * (by_ftrl ? weight * ftrl : weight);
    }
    return static_cast<float>(sum * unit);
  };
  std::vector<double> squares, units;  // by rank
  for (const std::uint32_t feature : rise.high) {
    const auto [slot, seen] = find(feature);
    squares.push_back(double{slot->z[0]});
    units.push_back(std::ldexp(1.0, -seen->exponent));
  }
  std::vector<float> found;
  if (part == Part::linear) {
    for (std::size_t n = 0; n < state.features.size(); ++n) {
      const double square = double{state.squares[n]};
      const double unit = std::ldexp(1.0, exponent_zero - int{state.exponents[n]});
      found.push_back(of(state.slots.data() + n * linear_floats, experts - 1, priors.linear, square,
                         unit, 1.0 / std::sqrt(square)));
    }
  } else if (part == Part::shared) {
    for (std::size_t rank = 0; rank < squares.size(); ++rank) {
      found.push_back(of(state.shared.data() + rank * pair_floats, paired, priors.pair,
                         squares[rank] * double{priors.low_square}, units[rank],
                         shrink / std::sqrt(squares[rank])));
    }
  } else {
    for (std::size_t n = 0; n < state.pairs.size(); ++n) {
      const std::uint32_t later = state.pairs[n] >> 16, earlier = state.pairs[n] & 0xFFFF;
      const double square = squares[later] * squares[earlier];
      found.push_back(of(state.pair_slots.data() + n * pair_floats, paired, priors.pair, square,
                         units[later] * units[earlier], shrink / std::sqrt(square)));
    }
  }
  return found;
}

}  // namespace pqr
