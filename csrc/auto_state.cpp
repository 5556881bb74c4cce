// What an Auto has learned, as plain arrays, and back.

#include <algorithm>

#include "auto.hpp"

namespace pqr {

namespace {

constexpr int exponent_zero = 128;  // exponents are saved without a sign

// z, then I, of one slot or of the experts with features of two, whose first has none.
void append(std::vector<float>& to, const Experts& slot) {
  to.insert(to.end(), slot.z, slot.z + paired);
  to.insert(to.end(), slot.info, slot.info + paired);
}
void append(std::vector<float>& to, const FeatureExperts& slots) {
  for (const auto part : {&Experts::z, &Experts::info}) {
    to.insert(to.end(), slots.linear.*part + 1, slots.linear.*part + paired);
    to.insert(to.end(), slots.with_pairs.*part, slots.with_pairs.*part + paired);
  }
}
void take(const float*& from, Experts& slot) {
  for (float& z : slot.z) z = *from++;
  for (float& info : slot.info) info = *from++;
}
void take(const float*& from, FeatureExperts& slots) {
  for (const auto part : {&Experts::z, &Experts::info}) {
    for (std::size_t k = 1; k < paired; ++k) (slots.linear.*part)[k] = *from++;
    for (float& number : slots.with_pairs.*part) number = *from++;
  }
}

}  // namespace

AutoState Auto::state() const {
  AutoState state;
  numbers_.each_sorted([&](std::uint32_t feature, std::uint32_t number) {
    if (number == 0) return;
    const auto [slots, seen] = known(number);
    state.features.push_back(feature);
    state.counts.push_back(seen->count);
    state.squares.push_back(slots->linear.z[0]);
    state.exponents.push_back(static_cast<std::uint8_t>(seen->exponent + exponent_zero));
    append(state.slots, *slots);
  });
  for (const Experts& slot : shared_) append(state.shared, slot);
  for (std::uint32_t later = 0; later < shared_.size(); ++later) {
    pairs_.each_of_span(later, [&](std::uint32_t earlier, const Experts& slot) {
      if (!is_made(slot)) return true;
      state.pairs.push_back(later << 16 | earlier);
      append(state.pair_slots, slot);
      return true;
    });
  }
  return state;
}

void Auto::restore(const AutoState& state) {
  const float* next = state.slots.data();
  for (std::size_t n = 0; n < state.features.size(); ++n) {
    const auto [slots, seen] = add(state.features[n]);
    const auto exponent = static_cast<std::int8_t>(int{state.exponents[n]} - exponent_zero);
    *seen = {state.counts[n], 0, exponent, exponent != 0 || state.squares[n] != 1.0f};
    slots->linear.z[0] = state.squares[n];
    take(next, *slots);
  }
  next = state.shared.data();
  for (const std::uint32_t feature : rise.high) {
    take(next, shared_.emplace_back());
    find(feature).seen->above = static_cast<std::uint16_t>(shared_.size());
  }
  pairs_.resize(shared_.size());
  pair_count_ = state.pairs.size();
  next = state.pair_slots.data();
  bool moved = false;
  for (const std::uint32_t pair : state.pairs) {
    take(next, *pairs_.make(pair & 0xFFFF, pair >> 16, moved));
  }
}

}  // namespace pqr
