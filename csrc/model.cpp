#include "model.hpp"

#include <cmath>
#include <limits>
#include <utility>

namespace pqr {

namespace {

// Gradients above this could overflow the square of a float after many rows.
constexpr double largest_gradient = 1e15;

// How many rows ahead memory is fetched: first ranks and linear slots, then,
// once the ranks are there, pairs.
constexpr std::size_t pairs_ahead = 4;
constexpr std::size_t features_ahead = 8;

// Walks the interaction coordinates of a row in their one order: pairs by (j, i),
// then shared, then square. `pair(j, i)` and `single(block, rank)` say where each
// slot is. Returns where it ended.
template <class Pair, class Single>
std::size_t walk(const Expansion& e, std::size_t at, float* x, Slot<float>** slots, Pair pair,
                 Single single) {
  for (std::size_t b = 1; b < e.high.size(); ++b) {
    const float scaled = e.high[b].value * e.scale;
    pair(b, slots + at);
    for (std::size_t a = 0; a < b; ++a) x[at++] = e.high[a].value * scaled;
  }
  if (e.shared) {
    const float scaled = e.low_sum * e.scale;
    for (const High& high : e.high) {
      slots[at] = single(Block::shared, high.rank);
      x[at++] = high.value * scaled;
    }
  }
  if (e.squares) {
    for (const High& high : e.high) {
      slots[at] = single(Block::square, high.rank);
      x[at++] = high.value * (high.value * e.scale);
    }
  }
  return at;
}

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

void Coordinates::resize(std::size_t size) {
  size_ = size;
  padded_ = (size + lanes - 1) / lanes * lanes;
  if (x_.size() < padded_) {
    slots_.resize(padded_);
    for (auto* array : {&x_, &w_, &z_, &root_n_}) array->resize(padded_);
  }
  for (std::size_t i = size_; i < padded_; ++i) x_[i] = z_[i] = root_n_[i] = 0.0f;
}

void Coordinates::gather() {
  for (std::size_t i = 0; i < size_; ++i) {
    z_[i] = slots_[i]->z;
    root_n_[i] = slots_[i]->root_n;
  }
}

void Coordinates::scatter() {
  for (std::size_t i = 0; i < size_; ++i) *slots_[i] = {z_[i], root_n_[i]};
}

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
  Expansion ring[pairs_ahead + 1];
  // In QR a row may bring new ranks, so a later row cannot be split before its turn.
  const std::size_t ahead = settings_.everything_high ? 0 : pairs_ahead;
  std::size_t split = 0;
  for (std::size_t r = 0; r < batch.size; ++r) {
    if (r + features_ahead < batch.size) prefetch_features(batch[r + features_ahead]);
    for (; split < batch.size && split <= r + ahead; ++split) {
      Expansion& next = ring[split % (pairs_ahead + 1)];
      next.split(batch[split], separation_, rule_);
      prefetch_pairs(next);
    }
    Expansion& row = ring[r % (pairs_ahead + 1)];
    const bool learned =
        row.ignored == 0 || batch.weights[r] == 0.0f
            ? learn_row<Loss>(row, coordinates, batch.labels[r], batch.weights[r], margins[r])
            : learn_newcomers<Loss>(row, coordinates, batch.labels[r], batch.weights[r],
                                    margins[r]);
    if (!learned) return r;
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
  collect(expansion, coordinates);
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
  collect(expansion, coordinates);
  weigh(coordinates);
  const bool learned = step<Loss>(expansion, coordinates, label, weight, margin);
  if (!learned) separation_.cut(order);
  return learned;
}

// Learns the row whose slots and weights are in `coordinates`.
template <class Loss>
bool Model::step(const Expansion& expansion, Coordinates& coordinates, double label, float weight,
                 double margin) {
  const double slope = Loss::slope(margin, label) * weight;
  const double gradient = std::fabs(slope) * std::max(1.0, double{expansion.largest});
  if (!(gradient <= largest_gradient)) return false;
  Kernel<Ftrl<float>>::step(avx2_, optimizer_, coordinates.z(), coordinates.root_n(),
                            coordinates.x(), coordinates.w(), static_cast<float>(slope),
                            coordinates.padded());
  coordinates.scatter();
  if (settings_.bias) bias = bias_optimizer_.step(bias, bias_optimizer_.weight(bias), slope);
  if (expansion.row.size > 0) {
    const std::uint64_t last = expansion.row.indices[expansion.row.size - 1];
    next_feature = std::max(next_feature, last + 1);
  }
  ++rows;
  return true;
}

double Model::weigh(Coordinates& coordinates) const {
  coordinates.gather();
  return bias_weight() + Kernel<Ftrl<float>>::weigh(avx2_, optimizer_, coordinates.z(),
                                                    coordinates.root_n(), coordinates.x(),
                                                    coordinates.w(), coordinates.padded());
}

std::size_t Model::margin(const Rows& batch, double* margins) const {
  Coordinates coordinates;
  Expansion ring[pairs_ahead + 1];
  std::size_t split = 0;
  for (std::size_t r = 0; r < batch.size; ++r) {
    if (r + features_ahead < batch.size) prefetch_features(batch[r + features_ahead]);
    for (; split < batch.size && split <= r + pairs_ahead; ++split) {
      Expansion& next = ring[split % (pairs_ahead + 1)];
      next.split(batch[split], separation_, rule_);
      prefetch_pairs(next);
    }
    margins[r] = margin_row(ring[r % (pairs_ahead + 1)], coordinates);
    if (!std::isfinite(margins[r])) return r;
  }
  return batch.size;
}

double Model::margin_row(const Expansion& expansion, Coordinates& coordinates) const {
  look_up(expansion, coordinates);
  return weigh(coordinates);
}

// Finds or makes the slot of every coordinate. A table that grows voids its
// pointers, so its part of the row is then walked again.
void Model::collect(const Expansion& e, Coordinates& coordinates) {
  coordinates.resize(e.row.size + e.interactions());
  Slot<float>** slots = coordinates.slots();
  float* x = coordinates.x();
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t i = 0; i < e.row.size; ++i) slots[i] = linear_.make(e.row.indices[i], moved);
  }
  std::copy_n(e.row.values, e.row.size, x);
  const auto pair = [&](std::size_t b, Slot<float>** at) {
    HashTable<Slot<float>>& row = pair_.row(e.high[b].rank);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t a = 0; a < b; ++a) {
        at[a] = row.make(e.high[a].rank, e.high[b].rank, moved);
      }
    }
  };
  const auto single = [&](Block block, std::uint32_t rank) {
    return (block == Block::shared ? shared_ : square_).data() + rank;
  };
  walk(e, e.row.size, x, slots, pair, single);
}

// The same without making anything: a coordinate never seen reads as its initial state.
void Model::look_up(const Expansion& e, Coordinates& coordinates) const {
  static const Slot<float> initial;
  const auto found = [](const Slot<float>* slot) {
    return const_cast<Slot<float>*>(slot ? slot : &initial);  // read only, by gather()
  };
  coordinates.resize(e.row.size + e.interactions());
  Slot<float>** slots = coordinates.slots();
  float* x = coordinates.x();
  for (std::size_t i = 0; i < e.row.size; ++i) slots[i] = found(linear_.find(e.row.indices[i]));
  std::copy_n(e.row.values, e.row.size, x);
  const auto pair = [&](std::size_t b, Slot<float>** at) {
    const HashTable<Slot<float>>& row = pair_.row(e.high[b].rank);
    for (std::size_t a = 0; a < b; ++a) at[a] = found(row.find(e.high[a].rank));
  };
  const auto single = [&](Block block, std::uint32_t rank) {
    return found((block == Block::shared ? shared_ : square_).data() + rank);
  };
  walk(e, e.row.size, x, slots, pair, single);
}

void Model::prefetch_features(const Row& row) const {
  for (std::size_t i = 0; i < row.size; ++i) {
    separation_.prefetch(row.indices[i]);
    linear_.prefetch(row.indices[i]);
  }
}

void Model::prefetch_pairs(const Expansion& e) const {
  for (std::size_t b = 1; b < e.high.size(); ++b) {
    const HashTable<Slot<float>>& row = pair_.row(e.high[b].rank);
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
