// What an Auto has learned, as plain arrays, and back.
#include "auto.hpp"

namespace pqr {

AutoState Auto::state() const {
  AutoState state;
  numbers_.each_sorted([&](std::uint32_t feature, std::uint32_t number) {
    if (number == 0) return;
    const auto [slot, seen] = known(number);
    state.features.push_back(feature);
    state.counts.push_back(seen->count);
    state.exponents.push_back(seen->exponent);
    state.slots.push_back(*slot);
  });
  state.shared = shared_;
  for (std::uint32_t later = 0; later < shared_.size(); ++later) {
    pairs_.each_of_span(later, [&](std::uint32_t earlier, const Experts& slot) {
      if (!is_made(slot)) return;
      state.pairs.push_back(later << 16 | earlier);
      state.pair_slots.push_back(slot);
    });
  }
  return state;
}

void Auto::restore(const AutoState& state) {
  for (std::size_t n = 0; n < state.features.size(); ++n) {
    const auto [slot, seen] = add(state.features[n]);
    *slot = state.slots[n];
    *seen = {state.counts[n], 0, state.exponents[n]};
  }
  shared_ = state.shared;
  for (std::size_t rank = 0; rank < rise.high.size(); ++rank) {
    find(rise.high[rank]).seen->above = static_cast<std::uint16_t>(rank + 1);
  }
  pairs_.resize(shared_.size());
  pair_count_ = state.pairs.size();
  for (std::size_t n = 0; n < state.pairs.size(); ++n) {
    *pairs_.make(state.pairs[n] & 0xFFFF, state.pairs[n] >> 16) = state.pair_slots[n];
  }
}

}  // namespace pqr
