// What a model has learned: slots and weights, counted, handed out, copied and put back.
#include <algorithm>
#include <future>
#include <utility>
#include <variant>

#include "model.hpp"

namespace pqr {

namespace {

constexpr std::size_t much = 100'000;  // slots, in a block

bool rises(const std::uint32_t* keys, std::size_t size, std::size_t below) {
  for (std::size_t i = 0; i < size; ++i) {
    if (keys[i] >= below || (i > 0 && keys[i] <= keys[i - 1])) return false;
  }
  return true;
}

bool pairs_rise(const std::uint32_t* keys, std::size_t size, std::size_t order) {
  for (std::size_t n = 0; n < size; ++n) {
    const std::uint32_t i = keys[2 * n], j = keys[2 * n + 1];
    if (i >= j || j >= order) return false;
    if (n > 0 && std::make_pair(keys[2 * n - 1], keys[2 * n - 2]) >= std::make_pair(j, i)) {
      return false;
    }
  }
  return true;
}

}  // namespace

// Slots in order of key, also those that are still in their initial state.
template <class Visit>
void Model::each_slot(Block block, Visit visit) const {
  if (block == Block::linear) {
    linear_.each_sorted(
        [&](std::uint32_t feature, const Slot<float>& slot) { visit(feature, feature, slot); });
  } else if (block == Block::pair) {
    pair_.each_sorted(visit);
  } else {
    const auto& slots = block == Block::shared ? shared_ : square_;
    for (std::size_t rank = 0; rank < slots.size(); ++rank) {
      visit(static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(rank), slots[rank]);
    }
  }
}

// Two threads, where there is much: most of the time goes into memory that is new.
BlockState Model::state(Block block) const {
  const std::size_t size = count(block, [](const Slot<float>* slots, std::size_t many) {
    return std::count_if(slots, slots + many, [](const auto& slot) { return !is_initial(slot); });
  });
  const std::size_t width = block == Block::pair ? 2 : 1;  // of a key
  BlockState state;
  const auto keys = [&] {
    copy_used(block, size, width, state.keys,
              [=](std::uint32_t* to, std::uint32_t i, std::uint32_t j, const Slot<float>&) {
                to[0] = i;
                to[width - 1] = width == 2 ? j : i;
              });
  };
  const auto soon = std::launch::async | std::launch::deferred;  // where no thread is to be had
  auto other = std::async(size > much ? soon : std::launch::deferred, keys);
  copy_used(block, size, 2, state.slots,
            [](float* to, std::uint32_t, std::uint32_t, const Slot<float>& slot) {
              to[0] = slot.z;
              to[1] = slot.root_n;
            });
  other.get();
  return state;
}

// `write` is given the place, the key and the slot. Every slot is written, and the next one over it
// if it was in its initial state: in a table that is half full, no predictor guesses which are.
template <class T, class Write>
void Model::copy_used(Block block, std::size_t size, std::size_t width, std::vector<T>& out,
                      Write write) const {
  out.resize(width * (size + 1));
  T* to = out.data();
  each_slot(block, [&](std::uint32_t i, std::uint32_t j, const Slot<float>& slot) {
    write(to, i, j, slot);
    to += width * !is_initial(slot);
  });
  out.resize(width * size);
}

// `of` says how many of some slots that lie side by side are counted.
template <class Of>
std::size_t Model::count(Block block, Of of) const {
  std::size_t count = 0;
  const auto add = [&](const Slot<float>* slots, std::size_t size) { count += of(slots, size); };
  if (block == Block::linear) {
    linear_.each([&](const Slot<float>& slot) { add(&slot, 1); });
  } else if (block == Block::pair) {
    pair_.each_run(add);
  } else {
    const auto& slots = block == Block::shared ? shared_ : square_;
    add(slots.data(), slots.size());
  }
  return count;
}

std::size_t Model::nonzeros(Block block) const {
  return std::visit(
      [&](const auto& chosen) {
        return count(block, [&](const Slot<float>* slots, std::size_t size) {
          return count_nonzeros(avx2_, chosen.each(), slots, size);
        });
      },
      optimizer);
}

bool Model::restore(Block block, const std::uint32_t* keys, const float* slots, std::size_t size) {
  const auto slot = [&](std::size_t n) { return Slot<float>{slots[2 * n], slots[2 * n + 1]}; };
  bool moved = false;
  if (block == Block::linear) {
    if (!rises(keys, size, std::size_t{1} << 32)) return false;
    for (std::size_t n = 0; n < size; ++n) *linear_.make(keys[n], moved) = slot(n);
  } else if (block == Block::pair) {
    if (!pairs_rise(keys, size, separation_.order())) return false;
    for (std::size_t n = 0; n < size; ++n) {
      const std::uint32_t i = keys[2 * n], j = keys[2 * n + 1];
      *pair_.make(i, j, moved) = slot(n);
    }
  } else {
    auto& target = block == Block::shared ? shared_ : square_;
    if (!rises(keys, size, target.size())) return false;
    for (std::size_t n = 0; n < size; ++n) target[keys[n]] = slot(n);
  }
  return true;
}

std::vector<float> Model::weights(const float* slots, std::size_t size) const {
  std::vector<float> weights(size);
  std::visit(
      [&](const auto& chosen) {
        const auto each = chosen.each();
        for (std::size_t n = 0; n < size; ++n) {
          weights[n] = each.weight(Slot<float>{slots[2 * n], slots[2 * n + 1]});
        }
      },
      optimizer);
  return weights;
}

std::optional<Frozen> Model::freeze(const Rows& batch) const {
  constexpr std::size_t worth = 4;  // predictions of a weight
  const auto entries = static_cast<std::size_t>(batch.indptr[batch.size] - batch.indptr[0]);
  const std::size_t order = separation_.order();
  // A row of s features has about s (s + 1) / 2 coordinates, if it is worth asking.
  const std::size_t each = order == 0 ? 1 : entries / std::max<std::size_t>(1, batch.size) / 2;
  if (settings_.everything_high || next_feature > entries) return {};
  const std::size_t size = Frozen::size(next_feature, order);
  if (size > Frozen::most || size > entries * each / worth) return {};
  Frozen frozen(next_feature, separation_, rule_, bias_weight(), avx2_);
  std::visit(
      [&](const auto& chosen) {
        const auto one = chosen.each();
        linear_.each_sorted([&](std::uint32_t feature, const Slot<float>& slot) {
          frozen.set_linear(feature, one.weight(slot));
        });
        each_slot(Block::pair, [&](std::uint32_t i, std::uint32_t j, const Slot<float>& slot) {
          frozen.set_pair(i, j, one.weight(slot));
        });
        each_slot(Block::shared, [&](std::uint32_t i, std::uint32_t, const Slot<float>& slot) {
          frozen.set_shared(i, one.weight(slot));
        });
      },
      optimizer);
  return frozen;
}

}  // namespace pqr
