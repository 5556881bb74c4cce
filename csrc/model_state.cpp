// The state of a model: slots and weights are counted, exported, copied and restored.
#include <algorithm>
#include <cstring>

#include "model.hpp"
#include "parallel.hpp"

namespace pqr {

namespace {

bool rises(const std::uint32_t* keys, std::size_t size, std::size_t below) {
  for (std::size_t i = 0; i < size; ++i) {
    if (keys[i] >= below || (i > 0 && keys[i] <= keys[i - 1])) return false;
  }
  return true;
}

// Calls work(j) for ranks j, on several threads where they have many pairs.
template <class Work>
void each_rank(std::size_t first, std::size_t size, Work work) {
  constexpr std::size_t part_pairs = 65536;  // these take far longer than starting a thread
  in_parts(size, part_pairs / (first + size + 1) + 1, [&](std::size_t from, std::size_t to) {
    for (std::size_t n = from; n < to; ++n) work(static_cast<std::uint32_t>(first + n));
    return to - from;
  });
}

}  // namespace

// Slots of all blocks but pairs in order of key, also those that are still in their initial state.
template <class Visit>
void Model::each_slot(Block block, Visit visit) const {
  if (block == Block::linear) {
    linear_.each_sorted(visit);
    return;
  }
  if (block != own()) return;
  for (std::uint32_t rank = 0; rank < separation_->order(); ++rank) {
    if (const Slot<float>* slot = pairs_.find(rank, rank)) visit(rank, *slot);
  }
}

BlockState Model::state(Block block) const {
  BlockState state;
  std::size_t size = 0;
  each_slot(block, [&](std::uint32_t, const auto& slot) { size += !is_initial(slot); });
  state.keys.reserve(size);
  state.slots.reserve(2 * size);
  each_slot(block, [&](std::uint32_t key, const Slot<float>& slot) {
    if (is_initial(slot)) return;
    state.keys.push_back(key);
    state.slots.insert(state.slots.end(), {slot.z, slot.root_n});
  });
  return state;
}

std::vector<std::uint32_t> Model::pair_counts() const {
  std::vector<std::uint32_t> counts(separation_->order());
  each_rank(0, counts.size(), [&](std::uint32_t j) {
    std::uint32_t count = 0;
    pairs_.each_of_span(j, [&](std::uint32_t, const auto& slot) { count += !is_initial(slot); });
    counts[j] = count;
  });
  return counts;
}

BlockState Model::pairs(std::size_t first, std::size_t size, const std::uint32_t* counts) const {
  std::vector<std::size_t> ends{0};
  for (std::size_t n = 0; n < size; ++n) ends.push_back(ends.back() + counts[n]);
  BlockState state{std::vector<std::uint32_t>(ends.back()), std::vector<float>(2 * ends.back())};
  // Every slot is written, and overwritten by the next one if it was in its initial state: a branch
  // on that would be mispredicted in a span that is half full.
  each_rank(first, size, [&](std::uint32_t j) {
    std::uint32_t* rank = state.keys.data() + ends[j - first];
    float* slots = state.slots.data() + 2 * ends[j - first];
    std::uint32_t* const end = state.keys.data() + ends[j - first + 1];
    pairs_.each_of_span(j, [&](std::uint32_t i, const auto& slot) {
      if (rank == end) return;
      *rank = i;
      std::memcpy(slots, &slot, sizeof slot);
      const bool used = !is_initial(slot);
      rank += used;
      slots += 2 * used;
    });
    for (; rank != end; ++rank, slots += 2) *rank = 0, slots[0] = slots[1] = 0.0f;  // fewer now
  });
  return state;
}

std::size_t Model::nonzeros(Block block) const {
  std::size_t count = 0;
  with_optimizer(optimizer, [&](const auto& chosen) {
    const auto rule = chosen.template at<float>(block);
    if (block == Block::pair) {
      pairs_.each_run([&](const Slot<float>* slots, std::size_t size) {
        count += count_nonzeros(avx2_, rule, slots, size);
      });
      count -= nonzeros(own());
    } else {
      each_slot(block, [&](std::uint32_t, const auto& slot) { count += rule.weight(slot) != 0; });
    }
  });
  return count;
}

bool Model::restore(Block block, const std::uint32_t* keys, const float* slots, std::size_t size) {
  const auto slot = [&](std::size_t n) { return Slot<float>{slots[2 * n], slots[2 * n + 1]}; };
  if (block == Block::linear) {
    if (!rises(keys, size, std::size_t{1} << 32)) return false;
    for (std::size_t n = 0; n < size; ++n) *linear_.make(keys[n]) = slot(n);
  } else {
    if (!rises(keys, size, block == own() ? separation_->order() : 0)) return false;
    for (std::size_t n = 0; n < size; ++n) *pairs_.make(keys[n], keys[n]) = slot(n);
  }
  return true;
}

bool Model::restore_pairs(const std::uint32_t* counts, const std::uint32_t* ranks,
                          const float* slots) {
  for (std::uint32_t j = 0; j < separation_->order(); ++j) {
    const std::size_t size = counts[j];
    if (!rises(ranks, size, j)) return false;
    for (std::size_t n = 0; n < size; ++n) {
      *pairs_.make(ranks[n], j) = {slots[2 * n], slots[2 * n + 1]};
    }
    ranks += size;
    slots += 2 * size;
  }
  return true;
}

std::vector<float> Model::weights(Block block, const float* slots, std::size_t size) const {
  std::vector<float> weights(size);
  with_optimizer(optimizer, [&](const auto& chosen) {
    const auto rule = chosen.template at<float>(block);
    for (std::size_t n = 0; n < size; ++n) {
      weights[n] = rule.weight(Slot<float>{slots[2 * n], slots[2 * n + 1]});
    }
  });
  return weights;
}

std::vector<double> Model::slots(Block block, const double* weights, const double* n,
                                 std::size_t size) const {
  std::vector<double> slots;
  with_optimizer(optimizer, [&](const auto& chosen) {
    for (std::size_t i = 0; i < size; ++i) {
      const Slot<double> slot = chosen.template at<double>(block).slot(weights[i], n[i]);
      slots.insert(slots.end(), {slot.z, slot.root_n});
    }
  });
  return slots;
}

std::size_t Model::weights_in(const Rows& batch) const {
  const auto entries = static_cast<std::size_t>(batch.indptr[batch.size] - batch.indptr[0]);
  if (is_linear() || entries == 0) return entries;
  return entries * std::max<std::size_t>(1, entries / batch.size / 2);  // most are pairs
}

std::shared_ptr<const Frozen> Model::freeze(std::size_t predicted) const {
  constexpr std::size_t worth = 4;  // coordinates predicted per weight: measured (decision 9)
  const std::size_t order = separation_->order(), size = Frozen::size(next_feature, order);
  if (settings_.expand.all_high || size > std::min(Frozen::most, predicted / worth)) return {};
  const auto made =
      std::make_shared<Frozen>(next_feature, separation_, settings_.expand, bias_weight(), avx2_);
  Frozen& frozen = *made;
  with_optimizer(optimizer, [&](const auto& chosen) {
    const auto at = [&](Block block) { return chosen.template at<float>(block); };
    const auto linear = at(Block::linear), pair = at(Block::pair), own = at(this->own());
    linear_.each_sorted([&](std::uint32_t feature, const Slot<float>& slot) {
      if (feature < next_feature) frozen.linear()[feature] = linear.weight(slot);
    });
    each_rank(0, order, [&](std::uint32_t j) {
      float* const weights = frozen.span(j);
      if (const Slot<float>* const slots = pairs_.span(j)) {
        weigh_all(avx2_, pair, slots, j + 1, weights);
      } else {
        pairs_.each_of_span(j, [&](std::uint32_t i, const Slot<float>& slot) {
          weights[i + 1] = pair.weight(slot);
        });
      }
      if (const Slot<float>* slot = pairs_.find(j, j)) weights[0] = own.weight(*slot);
      for (std::uint32_t i = 0; settings_.shares_pairs && i < j; ++i) {
        const Slot<float>* const slot = weights[i + 1] == 0.0f ? pairs_.find(i, i) : nullptr;
        if (slot) weights[i + 1] = own.weight(*slot);
      }
    });
  });
  return made;
}

}  // namespace pqr
