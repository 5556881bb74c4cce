// What a model has learned: slots and weights, counted, handed out, copied and put back.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <future>
#include <utility>
#include <variant>

#include "model.hpp"

namespace pqr {

namespace {

constexpr double many_pairs = 100'000;

bool rises(const std::uint32_t* keys, std::size_t size, std::size_t below) {
  for (std::size_t i = 0; i < size; ++i) {
    if (keys[i] >= below || (i > 0 && keys[i] <= keys[i - 1])) return false;
  }
  return true;
}

// Two threads, where there is much and where a second is to be had: most of the time goes into
// memory. `work` is given a range of ranks.
template <class Work>
void in_halves(std::size_t first, std::size_t last, Work work) {
  const auto square = [](std::size_t side) { return static_cast<double>(side * side); };
  const double pairs = (square(last) - square(first)) / 2;
  const auto middle =
      static_cast<std::size_t>(std::sqrt(square(first) + pairs));  // as many in both
  const auto soon = std::launch::async | std::launch::deferred;
  auto other =
      std::async(pairs > many_pairs ? soon : std::launch::deferred, [=] { work(first, middle); });
  work(middle, last);
  other.get();
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
  const std::size_t size = count(block, [](const Slot<float>* slots, std::size_t many) {
    return std::count_if(slots, slots + many, [](const auto& slot) { return !is_initial(slot); });
  });
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
  in_halves(0, counts.size(), [&](std::size_t from, std::size_t to) {
    for (std::size_t j = from; j < to; ++j) {
      std::uint32_t count = 0;
      pairs_.each_of_span(static_cast<std::uint32_t>(j), [&](std::uint32_t, const auto& slot) {
        count += !is_initial(slot);
        return true;
      });
      counts[j] = count;
    }
  });
  return counts;
}

PairState Model::pairs(std::size_t first, std::size_t size, const std::uint32_t* counts) const {
  std::vector<std::size_t> ends{0};
  for (std::size_t n = 0; n < size; ++n) ends.push_back(ends.back() + counts[n]);
  PairState state{Buffer<std::uint32_t>(ends.back()), Buffer<float>(2 * ends.back())};
  // Every slot is written, and the next one over it if it was in its initial state: in a row that
  // is half full, no predictor guesses which are.
  in_halves(first, first + size, [&](std::size_t from, std::size_t to) {
    for (std::size_t j = from; j < to; ++j) {
      std::uint32_t* rank = state.ranks.data() + ends[j - first];
      float* slots = state.slots.data() + 2 * ends[j - first];
      std::uint32_t* const end = state.ranks.data() + ends[j - first + 1];
      if (rank == end) continue;
      pairs_.each_of_span(static_cast<std::uint32_t>(j), [&](std::uint32_t i, const auto& slot) {
        *rank = i;
        std::memcpy(slots, &slot, sizeof slot);
        const bool used = !is_initial(slot);
        rank += used;
        slots += 2 * used;
        return rank != end;
      });
      for (; rank != end; ++rank, slots += 2) *rank = 0, slots[0] = slots[1] = 0.0f;  // fewer now
    }
  });
  return state;
}

// `of` says how many of some slots that lie side by side are counted.
template <class Of>
std::size_t Model::count(Block block, Of of) const {
  std::size_t count = 0;
  const auto add = [&](const Slot<float>* slots, std::size_t size) { count += of(slots, size); };
  if (block == Block::linear) {
    linear_.each_run(
        [&](std::uint32_t, const Slot<float>* slots, std::size_t size) { add(slots, size); });
  } else if (block == Block::pair) {
    pairs_.each_run(add);
    count -= this->count(own(), of);
  } else {
    each_slot(block, [&](std::uint32_t, const Slot<float>& slot) { add(&slot, 1); });
  }
  return count;
}

std::size_t Model::nonzeros(Block block) const {
  return with_optimizer(optimizer, [&](const auto& chosen) {
    return count(block, [&](const Slot<float>* slots, std::size_t size) {
      return count_nonzeros(avx2_, chosen.template at<float>(block), slots, size);
    });
  });
}

bool Model::restore(Block block, const std::uint32_t* keys, const float* slots, std::size_t size) {
  const auto slot = [&](std::size_t n) { return Slot<float>{slots[2 * n], slots[2 * n + 1]}; };
  bool moved = false;
  if (block == Block::linear) {
    if (!rises(keys, size, std::size_t{1} << 32)) return false;
    for (std::size_t n = 0; n < size; ++n) *linear_.make(keys[n], moved) = slot(n);
  } else {
    if (!rises(keys, size, block == own() ? separation_->order() : 0)) return false;
    for (std::size_t n = 0; n < size; ++n) *pairs_.make(keys[n], keys[n], moved) = slot(n);
  }
  return true;
}

bool Model::restore_pairs(const std::uint32_t* counts, const std::uint32_t* ranks,
                          const float* slots) {
  bool moved = false;
  for (std::uint32_t j = 0; j < separation_->order(); ++j) {
    const std::size_t size = counts[j];
    if (!rises(ranks, size, j)) return false;
    for (std::size_t n = 0; n < size; ++n) {
      *pairs_.make(ranks[n], j, moved) = {slots[2 * n], slots[2 * n + 1]};
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

std::vector<float> Model::slots(Block block, const float* weights, const float* n,
                                std::size_t size) const {
  std::vector<float> slots(2 * size);
  with_optimizer(optimizer, [&](const auto& chosen) {
    const auto rule = chosen.template at<double>(block);
    for (std::size_t i = 0; i < size; ++i) {
      const Slot<double> slot = rule.slot(weights[i], n[i]);
      slots[2 * i] = static_cast<float>(slot.z);
      slots[2 * i + 1] = static_cast<float>(slot.root_n);
    }
  });
  return slots;
}

Slot<double> Model::bias_slot(double weight, double n) const {
  return with_optimizer(optimizer, [=](const auto& chosen) {
    return chosen.template at<double>(Block::bias).slot(weight, n);
  });
}

std::size_t Model::weights_in(const Rows& batch) const {
  const auto entries = static_cast<std::size_t>(batch.indptr[batch.size] - batch.indptr[0]);
  if (is_linear() || entries == 0) return entries;
  return entries * std::max<std::size_t>(1, entries / batch.size / 2);  // most are pairs
}

std::shared_ptr<const Frozen> Model::freeze(std::size_t predicted) const {
  constexpr std::size_t worth = 4;  // predictions of a weight
  const std::size_t order = separation_->order(), size = Frozen::size(next_feature, order);
  if (settings_.everything_high || size > std::min(Frozen::most, predicted / worth)) return {};
  const auto made =
      std::make_shared<Frozen>(next_feature, separation_, rule_, bias_weight(), avx2_);
  Frozen& frozen = *made;
  with_optimizer(optimizer, [&](const auto& chosen) {
    const auto at = [&](Block block) { return chosen.template at<float>(block); };
    const auto linear = at(Block::linear), pair = at(Block::pair), own = at(this->own());
    const std::size_t features = next_feature;
    linear_.each_run([&](std::uint32_t first, const Slot<float>* slots, std::size_t many) {
      if (first >= features) return;
      weigh_all(avx2_, linear, slots, std::min(many, features - first), frozen.linear() + first);
    });
    std::vector<float> shared(settings_.shares_pairs ? order : 0);
    for (std::uint32_t rank = 0; rank < shared.size(); ++rank) {
      if (const Slot<float>* slot = pairs_.find(rank, rank)) shared[rank] = own.weight(*slot);
    }
    in_halves(0, order, [&](std::size_t from, std::size_t to) {
      for (auto j = static_cast<std::uint32_t>(from); j < to; ++j) {
        float* const weights = frozen.span(j);
        const Slot<float>* const row = pairs_.span(j);
        if (row) {
          weigh_all(avx2_, pair, row, j + 1, weights);
        } else {
          std::fill_n(weights, j + 1, 0.0f);
          pairs_.each_of_span(j, [&](std::uint32_t i, const Slot<float>& slot) {
            weights[i + 1] = pair.weight(slot);
            return true;
          });
        }
        if (const Slot<float>* slot = pairs_.find(j, j)) weights[0] = own.weight(*slot);
        for (std::size_t i = 0; settings_.shares_pairs && i < j; ++i) {
          if (weights[i + 1] == 0.0f) weights[i + 1] = shared[i];
        }
      }
    });
  });
  return made;
}

}  // namespace pqr
