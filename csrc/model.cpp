#include "model.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace pqr {

namespace {

// Gradients above this could overflow the square of a float after many rows.
constexpr double largest_gradient = 1e15;

// How many rows ahead memory is fetched: first ranks and linear slots, then,
// once the ranks are there, pairs.
constexpr std::size_t pairs_ahead = 2;
constexpr std::size_t features_ahead = 6;

using PairRow = HashTable<Slot<float>>;

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

// A table that grows voids the pointers it gave: `moved` says so.
struct Model::Make {
  Model& model;

  Slot<float>* linear(std::uint32_t feature, bool& moved) const {
    return model.linear_.make(feature, moved);
  }
  PairRow& row(std::uint32_t j) const { return model.pair_.row(j); }
  static Slot<float>* pair(PairRow& row, std::uint32_t i, std::uint32_t j, bool& moved) {
    return row.make(i, j, moved);
  }
  Slot<float>* shared() const { return model.shared_.data(); }
  Slot<float>* square() const { return model.square_.data(); }
};

// Nothing is made or written: a coordinate never seen reads as its initial state.
struct Model::Find {
  const Model& model;

  static Slot<float>* found(const Slot<float>* slot) {
    static const Slot<float> initial;
    return const_cast<Slot<float>*>(slot ? slot : &initial);
  }
  Slot<float>* linear(std::uint32_t feature, bool&) const {
    return found(model.linear_.find(feature));
  }
  const PairRow& row(std::uint32_t j) const { return model.pair_.row(j); }
  static Slot<float>* pair(const PairRow& row, std::uint32_t i, std::uint32_t, bool&) {
    return found(row.find(i));
  }
  Slot<float>* shared() const { return found(model.shared_.data()); }
  Slot<float>* square() const { return found(model.square_.data()); }
};

Model::Model(const Settings& settings, Separation separation)
    : settings_(settings),
      rule_{!settings.everything_high, settings.everything_high, settings.interaction_scale},
      optimizer_(Ftrl<float>::make(settings.alpha, settings.beta, settings.l1, settings.l2)),
      bias_optimizer_(Ftrl<double>::make(settings.alpha, settings.beta, 0.0, settings.l2)),
      separation_(std::move(separation)) {
  const std::size_t order = separation_.order();
  pair_.resize(order);
  (settings.everything_high ? square_ : shared_).resize(order);
  for (std::uint32_t feature : separation_.features()) {
    next_feature = std::max(next_feature, std::uint64_t{feature} + 1);
  }
}

std::size_t Model::learn(const Rows& batch, double* margins) {
  return settings_.loss == Loss::squared ? learn_rows<Squared>(batch, margins)
                                         : learn_rows<Logistic>(batch, margins);
}

template <class Loss>
std::size_t Model::learn_rows(const Rows& batch, double* margins) {
  Coordinates coordinates;
  const auto learn_one = [&](Expansion& row, std::size_t r) {
    const double label = batch.labels[r];
    const float weight = batch.weights[r];
    return row.ignored == 0 || weight == 0.0f
               ? learn_row<Loss>(row, coordinates, label, weight, margins[r])
               : learn_newcomers<Loss>(row, coordinates, label, weight, margins[r]);
  };
  // In QR a row may bring new ranks, so a later row cannot be split before its turn.
  return settings_.everything_high ? each_row<0>(batch, learn_one)
                                   : each_row<pairs_ahead>(batch, learn_one);
}

std::size_t Model::margin(const Rows& batch, double* margins) const {
  Coordinates coordinates;
  return each_row<pairs_ahead>(batch, [&](const Expansion& row, std::size_t r) {
    margins[r] = margin_row(row, coordinates);
    return std::isfinite(margins[r]);
  });
}

// Visits rows in order, with memory on its way for those ahead, until a visit
// returns false. Returns how many returned true.
template <std::size_t ahead, class Visit>
std::size_t Model::each_row(const Rows& batch, Visit visit) const {
  Expansion ring[ahead + 1];
  std::size_t split = 0;
  for (std::size_t r = 0; r < batch.size; ++r) {
    if (r + features_ahead < batch.size) prefetch_features(batch[r + features_ahead]);
    for (; split < batch.size && split <= r + ahead; ++split) {
      Expansion& next = ring[split % (ahead + 1)];
      next.split(batch[split], separation_, rule_);
      prefetch_pairs(next);
    }
    if (!visit(ring[r % (ahead + 1)], r)) return r;
  }
  return batch.size;
}

// False, and nothing is learned, when the row would leave the range of a float.
template <class Loss>
bool Model::learn_row(const Expansion& expansion, Coordinates& coordinates, double label,
                      float weight, double& margin) {
  if (weight == 0.0f) {
    margin = margin_row(expansion, coordinates);
    return std::isfinite(margin);
  }
  collect(expansion, coordinates, Make{*this});
  margin = weigh(coordinates);
  return step<Loss>(expansion, coordinates, label, weight, margin);
}

// QR: a row with features never learned is predicted without them; then they are
// high, and the step is that of the whole row.
template <class Loss>
bool Model::learn_newcomers(Expansion& expansion, Coordinates& coordinates, double label,
                            float weight, double& margin) {
  margin = margin_row(expansion, coordinates);
  const Row row = expansion.row;
  const std::size_t order = separation_.order();
  for (std::size_t i = 0; i < row.size; ++i) separation_.append(row.indices[i]);
  pair_.resize(std::max(pair_.size(), separation_.order()));
  square_.resize(std::max(square_.size(), separation_.order()));
  expansion.split(row, separation_, rule_);
  collect(expansion, coordinates, Make{*this});
  weigh(coordinates);
  const bool learned = step<Loss>(expansion, coordinates, label, weight, margin);
  if (!learned) separation_.cut(order);
  return learned;
}

double Model::margin_row(const Expansion& expansion, Coordinates& coordinates) const {
  collect(expansion, coordinates, Find{*this});
  return weigh(coordinates);
}

// The coordinates of a row in their one order: linear, pairs by (j, i), shared,
// square. Where a table has moved, its part of the row is walked again.
template <class Slots>
void Model::collect(const Expansion& e, Coordinates& coordinates, Slots slots) {
  coordinates.reserve(e.row.size + e.interactions());
  Cursor c(coordinates);
  for (bool moved = true; moved;) {
    moved = false;
    c.size = 0;
    for (std::size_t i = 0; i < e.row.size; ++i) {
      c.add(slots.linear(e.row.indices[i], moved), e.row.values[i]);
    }
  }
  const High* high = e.high.data();
  for (std::size_t b = 1; b < e.high.size(); ++b) {
    const std::uint32_t j = high[b].rank;
    const float value = high[b].value * e.scale;
    auto& row = slots.row(j);
    if (Slot<float>* array = row.array()) {
      for (std::size_t a = 0; a < b; ++a) c.add(array + high[a].rank, high[a].value * value);
      continue;
    }
    const std::size_t begin = c.size;
    for (bool moved = true; moved;) {
      moved = false;
      c.size = begin;
      for (std::size_t a = 0; a < b; ++a) {
        c.add(slots.pair(row, high[a].rank, j, moved), high[a].value * value);
      }
    }
  }
  if (e.shared) {
    Slot<float>* shared = slots.shared();
    const float value = e.low_sum * e.scale;
    for (const High& h : e.high) c.add(shared + h.rank, h.value * value);
  }
  if (e.squares) {
    Slot<float>* square = slots.square();
    for (const High& h : e.high) c.add(square + h.rank, h.value * (h.value * e.scale));
  }
  coordinates.size = c.size;
}

double Model::weigh(Coordinates& c) const {
  return bias_weight() + Kernel<Ftrl<float>>::weigh(avx2_, optimizer_, c.z.data(), c.root_n.data(),
                                                    c.x.data(), c.w.data(), c.pad());
}

// Learns the row whose slots and weights are in `c`.
template <class Loss>
bool Model::step(const Expansion& expansion, Coordinates& c, double label, float weight,
                 double margin) {
  const double slope = Loss::slope(margin, label) * weight;
  const double gradient = std::fabs(slope) * std::max(1.0, double{expansion.largest});
  if (!(gradient <= largest_gradient)) return false;
  Kernel<Ftrl<float>>::step(avx2_, optimizer_, c.z.data(), c.root_n.data(), c.x.data(), c.w.data(),
                            static_cast<float>(slope), c.pad());
  c.scatter();
  if (settings_.bias) bias = bias_optimizer_.step(bias, bias_optimizer_.weight(bias), slope);
  if (expansion.row.size > 0) {
    const std::uint64_t last = expansion.row.indices[expansion.row.size - 1];
    next_feature = std::max(next_feature, last + 1);
  }
  ++rows;
  return true;
}

void Model::prefetch_features(const Row& row) const {
  for (std::size_t i = 0; i < row.size; ++i) {
    separation_.prefetch(row.indices[i]);
    linear_.prefetch(row.indices[i]);
  }
}

void Model::prefetch_pairs(const Expansion& e) const {
  for (std::size_t b = 1; b < e.high.size(); ++b) {
    const PairRow& row = pair_.row(e.high[b].rank);
    for (std::size_t a = 0; a < b; ++a) row.prefetch(e.high[a].rank);
  }
}

BlockState Model::state(Block block) const {
  BlockState state;
  const auto add = [&](std::uint32_t key, const Slot<float>& slot) {
    if (is_initial(slot)) return;
    state.keys.push_back(key);
    state.slots.insert(state.slots.end(), {slot.z, slot.root_n});
  };
  if (block == Block::linear) {
    linear_.each_sorted(add);
  } else if (block == Block::pair) {
    pair_.each_sorted([&](std::uint32_t i, std::uint32_t j, const Slot<float>& slot) {
      if (!is_initial(slot)) state.keys.push_back(i);
      add(j, slot);
    });
  } else {
    const auto& slots = block == Block::shared ? shared_ : square_;
    for (std::size_t rank = 0; rank < slots.size(); ++rank) {
      add(static_cast<std::uint32_t>(rank), slots[rank]);
    }
  }
  return state;
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
      *pair_.row(j).make(i, j, moved) = slot(n);
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
  for (std::size_t n = 0; n < size; ++n) {
    weights[n] = optimizer_.weight({slots[2 * n], slots[2 * n + 1]});
  }
  return weights;
}

}  // namespace pqr
