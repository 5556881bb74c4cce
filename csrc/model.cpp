#include "model.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>
#include <variant>

namespace pqr {

// A table that grows voids the pointers it gave: `moved` says so.
struct Model::Make {
  Model& model;

  Slot<float>* linear(std::uint32_t feature, bool& moved) const {
    return model.linear_.make(feature, moved);
  }
  Slot<float>* pair(std::uint32_t i, std::uint32_t j, bool& moved) const {
    return model.pair_.make(i, j, moved);
  }
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
  Slot<float>* pair(std::uint32_t i, std::uint32_t j, bool&) const {
    return found(model.pair_.find(i, j));
  }
};

Model::Model(const Settings& settings, const Optimizer& optimizer_,
             std::shared_ptr<const Separation> separation)
    : optimizer(optimizer_),
      settings_(settings),
      rule_{!settings.everything_high, settings.everything_high, settings.interaction_scale},
      separation_(std::move(separation)),
      pair_(settings.everything_high ? Pairs::most : separation_->order(),
            Linear::front_keys + lanes, frequent_ranks) {
  if (settings.everything_high) {
    growing_ = std::make_shared<Separation>();
    for (const std::uint32_t feature : separation_->features()) growing_->append(feature);
    separation_ = growing_;
  }
  linear_.lie_in(pair_.array());
  pair_.resize(separation_->order());
  for (const std::uint32_t feature : separation_->features()) {
    next_feature = std::max(next_feature, std::uint64_t{feature} + 1);
  }
}

// Asks for what row r needs, and for the slots of a row before it that are packed.
PQR_ALWAYS_INLINE inline void Model::prefetch(const Rows& batch, std::size_t r,
                                              Ahead& ahead) const {
  using Where = Linear::Where;
  const auto where = [&](std::size_t row) -> auto& {
    return ahead.where[row % ahead.where.size()];
  };
  where(r) = Where::arrays;
  if (r < batch.size) {
    batch.fetch(r + streams_ahead);
    const Row row = batch[r];
    where(r) = linear_.prefetch(row.indices, row.size);
    if (!batch.splits) separation_->prefetch(row);
  }
  if (r < packed_later || where(r - packed_later) != Where::packed) return;
  const Row row = batch[r - packed_later];
  for (std::size_t i = 0; i < row.size; ++i) linear_.prefetch_packed(row.indices[i]);
}

// The coordinates of a row in their one order: linear ones, whose numbers are features, then
// interactions.
PQR_ALWAYS_INLINE inline void Model::fill(Planned& planned) const {
  Expansion& e = planned.expansion;
  Coordinates& c = planned.coordinates;
  const Row row = e.row;
  c.resize(row.size + e.size());
  copy(row.indices, row.size, c.numbers.data());
  copy(row.values, row.size, c.x.data());
  if (e.high > 0) e.fill(pair_.first(), c.numbers.data() + row.size, c.x.data() + row.size);
  c.pad(Linear::front_keys);
  const bool near = has_all_pairs(e);
  c.array = near && linear_.front(row.indices, row.size) ? pair_.array() : nullptr;
  if (near) return;
  for (std::size_t b = 0; b < e.high; ++b) {
    for (std::size_t a = 0; a <= b; ++a) pair_.prefetch(e.ranks[a], e.ranks[b]);
  }
}

PQR_ALWAYS_INLINE inline void Model::plan(const Rows& batch, std::size_t r,
                                          Planned& planned) const {
  if (is_linear()) {
    planned.expansion.row = batch[r];
  } else if (batch.splits) {
    planned.expansion.expand(batch[r], batch.splits[r], rule_);
  } else {
    planned.expansion.expand(batch[r], *separation_, rule_);
  }
  fill(planned);
}

// What the first rows have done for them before the turn of the first one,
[[gnu::noinline]] void Model::begin(std::size_t rows_ahead, const Rows& batch, Ahead& ahead) const {
  vectorised(avx2_, [&, this](auto) PQR_ALWAYS_INLINE {
    for (std::size_t r = 0; r < features_ahead; ++r) prefetch(batch, r, ahead);
    const std::size_t planned = std::min(rows_ahead, batch.size);
    for (std::size_t r = 0; r < planned; ++r) plan(batch, r, ahead.row(r));
  });
}

// and what all others have in the turn of row r. Returns what is to be asked for then.
PQR_ALWAYS_INLINE inline Coming Model::prepare(std::size_t rows_ahead, const Rows& batch,
                                               std::size_t r, Ahead& ahead) const {
  prefetch(batch, r + features_ahead, ahead);
  if (r + rows_ahead >= batch.size) return {};
  Planned& planned = ahead.row(r + rows_ahead);
  plan(batch, r + rows_ahead, planned);
  return rows_ahead > 0 ? planned.coming() : Coming{};
}

// Visits rows in order, with memory on its way for those ahead, until a visit
// returns false. Returns how many returned true.
template <class Visit>
PQR_ALWAYS_INLINE inline std::size_t Model::each_row(std::size_t rows_ahead, const Rows& batch,
                                                     Ahead& ahead, Visit visit) const {
  begin(rows_ahead, batch, ahead);
  for (std::size_t r = 0; r < batch.size; ++r) {
    const Coming coming = prepare(rows_ahead, batch, r, ahead);
    if (!visit(ahead.row(r), coming, r)) return r;
  }
  return batch.size;
}

// Finds what does not lie in the array, or may still move there. Where a table has moved, its slots
// are looked for again.
template <class Which>
PQR_ALWAYS_INLINE inline void Model::collect(Planned& planned, Which slots) const {
  Coordinates& c = planned.coordinates;
  if (c.array) return;
  const Expansion& e = planned.expansion;
  const Row row = e.row;
  c.pad_places();
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t i = 0; i < row.size; ++i) {
      c.places[i] = slots.linear(row.indices[i], moved);
    }
  }
  if (has_all_pairs(e)) {
    const Near at{pair_.array(), c.numbers.data()};
    for (std::size_t i = row.size; i < c.size(); ++i) c.places[i] = at(i);
    return;
  }
  for (bool moved = true; moved;) {
    moved = false;
    Slot<float>** place = c.places.data() + row.size;
    for (std::size_t b = 0; b < e.high; ++b) {
      *place++ = slots.pair(e.ranks[b], e.ranks[b], moved);
      for (std::size_t a = 0; a < b; ++a) *place++ = slots.pair(e.ranks[a], e.ranks[b], moved);
    }
  }
}

// Says which block each coordinate is in, for an optimizer that wants to know.
template <class Optimizer>
PQR_ALWAYS_INLINE inline void Model::name_blocks(Planned& planned) const {
  if constexpr (Optimizer::by_block) {
    Coordinates& c = planned.coordinates;
    const std::size_t linear = planned.expansion.row.size, high = planned.expansion.high;
    c.blocks.assign(with_room(c.size()), static_cast<std::uint32_t>(Block::linear));
    std::fill(c.blocks.data() + linear, c.blocks.data() + c.size(),
              static_cast<std::uint32_t>(Block::pair));
    for (std::size_t b = 0; b < high; ++b) {
      c.blocks[linear + b * (b + 1) / 2] = static_cast<std::uint32_t>(own());
    }
  }
}

// The margin. Slots and weights go into `weighed` if it `keeps` them.
template <bool keeps, class Machine, class Optimizer>
PQR_ALWAYS_INLINE inline double Model::weigh(Machine machine, const Optimizer& chosen,
                                             const Coordinates& c, Coming coming,
                                             Weighed* weighed) const {
  const double sum = vectorised(machine, [&](auto at_a_time) PQR_ALWAYS_INLINE {
    Sum<at_a_time> found;
    c.with_places([&](auto at) PQR_ALWAYS_INLINE {
      weigh_slots<keeps>(rules_of(chosen, c), at, c.x.data(), c.padded(), weighed, found, coming);
    });
    return found.total();
  });
  return settings_.bias ? chosen.template at<double>(Block::bias).weight(bias) + sum : sum;
}

// What no coordinate of a row exceeds, for each feature that it has.
PQR_ALWAYS_INLINE inline double Model::largest_coordinate(const Rows& batch) const {
  const std::int64_t first = batch.indptr[0], last = batch.indptr[batch.size];
  const double value = largest_of(batch.values + first, static_cast<std::size_t>(last - first));
  const double scale = settings_.interaction_scale > 0.0f ? settings_.interaction_scale : 1.0;
  return std::max(1.0, value) * std::max(1.0, value * scale);
}

// Whether no gradient could overflow the square of a float after many rows. Where values are small,
// as they are as a rule, no product of two and the sum of all others is large.
PQR_ALWAYS_INLINE inline bool Model::has_gradient(const Planned& planned, double slope) const {
  constexpr float largest_gradient = 1e15f;
  const double size = std::fabs(slope);
  const auto features = static_cast<double>(planned.expansion.row.size + 1);  // and the bias
  if (std::max(size, 1.0) * features * ahead_.largest <= largest_gradient) return true;
  const Coordinates& c = planned.coordinates;
  return size * std::max(1.0f, largest_of(c.x.data(), c.size())) <= largest_gradient;
}

// Multiplies every slot, at rows that the optimizer's own state determines.
void Model::rescale(double factor) {
  const auto multiply = [&](Slot<float>& slot) { slot.z = static_cast<float>(slot.z * factor); };
  bias.z *= factor;
  linear_.each(multiply);
  pair_.each(multiply);
}

// Learns the row whose slots and weights have been weighed.
template <class Machine, class Optimizer, class Meanwhile>
PQR_ALWAYS_INLINE inline bool Model::step(Machine machine, Optimizer& chosen,
                                          const Planned& planned, Coming coming, double label,
                                          float weight, double margin, Meanwhile meanwhile) {
  const double slope = pqr::slope(settings_.loss, margin, label) * weight;
  if (!has_gradient(planned, slope)) return false;
  const Coordinates& c = planned.coordinates;
  const auto sum = [&]() PQR_ALWAYS_INLINE {
    if constexpr (Optimizer::has_sum) return sum_of_terms<Optimizer>(c) + Optimizer::term(bias.z);
    return 0.0;
  };
  double change = -sum();
  meanwhile();
  vectorised(machine, [&, this](auto at_a_time) PQR_ALWAYS_INLINE {
    c.with_places([&](auto at) PQR_ALWAYS_INLINE {
      step_slots<at_a_time>(rules_of(chosen, c), at, c.x.data(), c.padded(), ahead_.weighed.data(),
                            static_cast<float>(slope), coming);
    });
  });
  if (settings_.bias) {
    const auto always = chosen.template at<double>(Block::bias);
    bias = always.step(bias, always.weight(bias), slope);
  }
  change += sum();
  const double factor = chosen.end_row(change);
  if (factor != 1.0) rescale(factor);
  const Row& row = planned.expansion.row;
  if (row.size > 0) {
    const std::uint64_t last = row.indices[row.size - 1];
    next_feature = std::max(next_feature, last + 1);
  }
  ++rows;
  return true;
}

template <class Machine, class Optimizer>
PQR_ALWAYS_INLINE inline double Model::margin_row(Machine machine, const Optimizer& chosen,
                                                  Planned& planned, Coming coming) const {
  collect(planned, Find{*this});
  name_blocks<Optimizer>(planned);
  return weigh<false>(machine, chosen, planned.coordinates, coming, nullptr);
}

// False, and nothing is learned, when the row would leave the range of a float.
template <class Machine, class Optimizer, class Meanwhile>
PQR_ALWAYS_INLINE inline bool Model::learn_row(Machine machine, Optimizer& chosen, Planned& planned,
                                               Coming coming, double label, float weight,
                                               double& margin, Meanwhile meanwhile) {
  if (weight == 0.0f) {
    meanwhile();
    margin = margin_row(machine, chosen, planned, coming);
    return std::isfinite(margin);
  }
  collect(planned, Make{*this});
  name_blocks<Optimizer>(planned);
  const Coordinates& c = planned.coordinates;
  margin = weigh<true>(machine, chosen, c, coming.first(), ahead_.room(c));
  return step(machine, chosen, planned, coming.rest(), label, weight, margin, meanwhile);
}

// QR: a row with features never learned is predicted without them; then they are
// high, and the step is that of the whole row.
template <class Optimizer>
bool Model::learn_newcomers(Optimizer& chosen, Planned& planned, double label, float weight,
                            double& margin) {
  margin = margin_row(avx2_, chosen, planned, Coming{});
  const Row row = planned.expansion.row;
  const std::size_t order = growing_->order();
  for (std::size_t i = 0; i < row.size; ++i) growing_->append(row.indices[i]);
  pair_.resize(std::max(pair_.size(), growing_->order()));
  planned.expansion.expand(row, *growing_, rule_);
  fill(planned);
  collect(planned, Make{*this});
  name_blocks<Optimizer>(planned);
  const Coordinates& c = planned.coordinates;
  weigh<true>(avx2_, chosen, c, Coming{}, ahead_.room(c));
  const bool learned = step(avx2_, chosen, planned, {}, label, weight, margin, [] {});
  if (!learned) growing_->cut(order);
  return learned;
}

// A row is short, and waits for its loss: what can be done for rows ahead is done meanwhile.
template <class Machine, class Optimizer>
PQR_ALWAYS_INLINE inline std::size_t Model::learn_linear(Machine machine, Optimizer& chosen,
                                                         const Rows& batch, double* margins) {
  begin(planned_ahead, batch, ahead_);
  for (std::size_t r = 0; r < batch.size; ++r) {
    const auto meanwhile = [&]() PQR_ALWAYS_INLINE { prepare(planned_ahead, batch, r, ahead_); };
    if (!learn_row(machine, chosen, ahead_.row(r), Coming{}, batch.labels[r], batch.weights[r],
                   margins[r], meanwhile)) {
      return r;
    }
  }
  return batch.size;
}

template <class Optimizer>
std::size_t Model::learn_with(Optimizer& chosen, const Rows& batch, double* margins) {
  return vectorised(avx2_, [&, this](auto machine) PQR_ALWAYS_INLINE {
    ahead_.largest = largest_coordinate(batch);
    if (is_linear()) return learn_linear(machine, chosen, batch, margins);
    const auto learn_one = [&](Planned& row, Coming coming, std::size_t r) PQR_ALWAYS_INLINE {
      const double label = batch.labels[r];
      const float weight = batch.weights[r];
      if (row.expansion.ignored > 0 && weight != 0.0f) {
        return learn_newcomers(chosen, row, label, weight, margins[r]);
      }
      return learn_row(machine, chosen, row, coming, label, weight, margins[r], [] {});
    };
    // In QR a row may bring new ranks, so a later row cannot be split before its turn.
    const std::size_t rows_ahead = settings_.everything_high ? 0 : planned_ahead;
    return each_row(rows_ahead, batch, ahead_, learn_one);
  });
}

std::size_t Model::learn(const Rows& batch, double* margins) {
  return with_optimizer(optimizer,
                        [&](auto& chosen) { return learn_with(chosen, batch, margins); });
}

std::size_t Model::margin(const Rows& batch, double* margins) const {
  return with_optimizer(optimizer, [&](const auto& chosen) {
    return vectorised(avx2_, [&, this](auto machine) PQR_ALWAYS_INLINE {
      Ahead ahead;
      return each_row(predicted_ahead, batch, ahead,
                      [&](Planned& row, Coming coming, std::size_t r) PQR_ALWAYS_INLINE {
                        margins[r] = margin_row(machine, chosen, row, coming);
                        return std::isfinite(margins[r]);
                      });
    });
  });
}

double Model::bias_weight() const {
  if (!settings_.bias) return 0.0;
  return with_optimizer(optimizer, [&](const auto& chosen) {
    return chosen.template at<double>(Block::bias).weight(bias);
  });
}

}  // namespace pqr
