#include "model.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>
#include <variant>

namespace pqr {

namespace {

// Gradients above this could overflow the square of a float after many rows.
constexpr double largest_gradient = 1e15;

Slot<float> nowhere;  // a place to fetch while the real one is not known

}  // namespace

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

Model::Model(const Settings& settings, const Optimizer& optimizer_, Separation separation)
    : optimizer(optimizer_),
      settings_(settings),
      rule_{!settings.everything_high, settings.everything_high, settings.interaction_scale},
      separation_(std::move(separation)) {
  const std::size_t order = separation_.order();
  pair_.resize(order);
  (settings.everything_high ? square_ : shared_).resize(order);
  for (std::uint32_t feature : separation_.features()) {
    next_feature = std::max(next_feature, std::uint64_t{feature} + 1);
  }
}

inline void Model::prefetch_packed(const Row& row) const {
  for (std::size_t i = 0; i < row.size; ++i) linear_.prefetch_packed(row.indices[i]);
}

// Asks for what row r and those after it need; `done` is the first row not asked for yet.
PQR_ALWAYS_INLINE inline void Model::prefetch(const Rows& batch, std::size_t r, std::size_t& done,
                                              Ahead& ahead) const {
  for (; done < batch.size && done <= r + features_ahead; ++done) {
    batch.fetch(done + streams_ahead);
    const Row row = batch[done];
    Fetched& fetched = ahead.fetched[done % ahead.fetched.size()];
    Coordinates& c = fetched.coordinates;
    c.resize(row.size);
    fetched.where = linear_.prefetch(
        row.indices, row.size,
        [places = c.places.data()](std::size_t i, Slot<float>* place) { places[i] = place; });
    copy(row.values, row.size, c.x.data());
    c.pad();
    if (!batch.splits) separation_.prefetch(row);
  }
  if (r + packed_ahead >= batch.size) return;
  const Fetched& fetched = ahead.fetched[(r + packed_ahead) % ahead.fetched.size()];
  if (fetched.where == Linear::Where::packed) prefetch_packed(batch[r + packed_ahead]);
}

std::size_t Model::learn(const Rows& batch, double* margins) {
  return std::visit(
      [&](auto& chosen) {
        return settings_.loss == Loss::squared ? learn_rows<Squared>(chosen, batch, margins)
                                               : learn_rows<Logistic>(chosen, batch, margins);
      },
      optimizer);
}

template <class Loss, class Optimizer>
std::size_t Model::learn_rows(Optimizer& chosen, const Rows& batch, double* margins) {
  return vectorised(avx2_, [&, this](auto machine) PQR_ALWAYS_INLINE {
    if (is_linear()) return learn_linear<Loss>(machine, chosen, batch, margins);
    const auto learn_one = [&](Planned& row, const Planned& coming,
                               std::size_t r) PQR_ALWAYS_INLINE {
      const double label = batch.labels[r];
      const float weight = batch.weights[r];
      if (row.expansion.ignored > 0 && weight != 0.0f) {
        return learn_newcomers<Loss>(chosen, row, label, weight, margins[r]);
      }
      return learn_row<Loss>(
          machine, chosen, row.expansion.row, row.coordinates, coming.coming(), label, weight,
          margins[r], [&](auto slots) { collect(row, slots); }, [] {});
    };
    // In QR a row may bring new ranks, so a later row cannot be split before its turn.
    return settings_.everything_high ? each_row<0>(machine, batch, ahead_, learn_one)
                                     : each_row<planned_ahead>(machine, batch, ahead_, learn_one);
  });
}

std::size_t Model::margin(const Rows& batch, double* margins) const {
  return std::visit(
      [&](const auto& chosen) {
        return vectorised(avx2_, [&, this](auto machine) PQR_ALWAYS_INLINE {
          if (is_linear()) return margin_linear(machine, chosen, batch, margins);
          Ahead ahead;
          return each_row<planned_ahead>(
              machine, batch, ahead,
              [&](Planned& row, const Planned& coming, std::size_t r) PQR_ALWAYS_INLINE {
                margins[r] = margin_row(machine, chosen, row, coming);
                return std::isfinite(margins[r]);
              });
        });
      },
      optimizer);
}

// Without high features there is nothing to plan. Rows ahead are asked for while a row waits for
// its loss.
template <class Loss, class Machine, class Optimizer>
PQR_ALWAYS_INLINE inline std::size_t Model::learn_linear(Machine machine, Optimizer& chosen,
                                                         const Rows& batch, double* margins) {
  std::size_t done = 0;
  prefetch(batch, 0, done, ahead_);
  for (std::size_t r = 0; r < batch.size; ++r) {
    const Row row = batch[r];
    Fetched& fetched = ahead_.fetched[r % ahead_.fetched.size()];
    const auto collect = [&](auto slots) { collect_linear(row, fetched, slots); };
    const auto meanwhile = [&]() PQR_ALWAYS_INLINE { prefetch(batch, r + 1, done, ahead_); };
    if (!learn_row<Loss>(machine, chosen, row, fetched.coordinates, Coming{}, batch.labels[r],
                         batch.weights[r], margins[r], collect, meanwhile)) {
      return r;
    }
  }
  return batch.size;
}

template <class Machine, class Optimizer>
PQR_ALWAYS_INLINE inline std::size_t Model::margin_linear(Machine machine, const Optimizer& chosen,
                                                          const Rows& batch,
                                                          double* margins) const {
  Ahead ahead;
  for (std::size_t r = 0, done = 0; r < batch.size; ++r) {
    prefetch(batch, r, done, ahead);
    Fetched& fetched = ahead.fetched[r % ahead.fetched.size()];
    collect_linear(batch[r], fetched, Find{*this});
    margins[r] = weigh<false>(machine, chosen, fetched.coordinates, Coming{});
    if (!std::isfinite(margins[r])) return r;
  }
  return batch.size;
}

// Visits rows in order, with memory on its way for those ahead, until a visit
// returns false. Returns how many returned true.
template <std::size_t rows_ahead, class Machine, class Visit>
PQR_ALWAYS_INLINE inline std::size_t Model::each_row(Machine machine, const Rows& batch,
                                                     Ahead& ahead, Visit visit) const {
  constexpr std::size_t size = rows_ahead + 1;
  std::size_t fetched = 0, planned = 0;
  for (std::size_t r = 0; r < batch.size; ++r) {
    prefetch(batch, r, fetched, ahead);
    for (; planned < batch.size && planned <= r + rows_ahead; ++planned) {
      plan(machine, batch, planned, ahead.fetched[planned % ahead.fetched.size()],
           ahead.planned[planned % size]);
    }
    if (!visit(ahead.planned[r % size], ahead.planned[(planned - 1) % size], r)) return r;
  }
  return batch.size;
}

// `collect` fills the coordinates. False, and nothing is learned, when the row would leave the
// range of a float.
template <class Loss, class Machine, class Optimizer, class Collect, class Meanwhile>
PQR_ALWAYS_INLINE inline bool Model::learn_row(Machine machine, Optimizer& chosen, const Row& row,
                                               Coordinates& c, Coming coming, double label,
                                               float weight, double& margin, Collect collect,
                                               Meanwhile meanwhile) {
  if (weight == 0.0f) {
    meanwhile();
    collect(Find{*this});
    margin = weigh<false>(machine, chosen, c, coming);
    return std::isfinite(margin);
  }
  collect(Make{*this});
  margin = weigh<true>(machine, chosen, c, coming.first());
  return step<Loss>(machine, chosen, row, c, coming.rest(), label, weight, margin, meanwhile);
}

// QR: a row with features never learned is predicted without them; then they are
// high, and the step is that of the whole row.
template <class Loss, class Optimizer>
bool Model::learn_newcomers(Optimizer& chosen, Planned& planned, double label, float weight,
                            double& margin) {
  margin = margin_row(avx2_, chosen, planned, planned);
  const Row row = planned.expansion.row;
  const std::size_t order = separation_.order();
  for (std::size_t i = 0; i < row.size; ++i) separation_.append(row.indices[i]);
  pair_.resize(std::max(pair_.size(), separation_.order()));
  square_.resize(std::max(square_.size(), separation_.order()));
  planned.expansion.expand(row, separation_, rule_);
  fill_places(avx2_, Fetched{}, planned);
  collect(planned, Make{*this});
  weigh<true>(avx2_, chosen, planned.coordinates, Coming{});
  const bool learned =
      step<Loss>(avx2_, chosen, row, planned.coordinates, {}, label, weight, margin, [] {});
  if (!learned) separation_.cut(order);
  return learned;
}

template <class Machine, class Optimizer>
PQR_ALWAYS_INLINE inline double Model::margin_row(Machine machine, const Optimizer& chosen,
                                                  Planned& row, const Planned& coming) const {
  collect(row, Find{*this});
  return weigh<false>(machine, chosen, row.coordinates, coming.coming());
}

template <class Machine>
PQR_ALWAYS_INLINE inline void Model::plan(Machine machine, const Rows& batch, std::size_t r,
                                          const Fetched& fetched, Planned& planned) const {
  if (batch.splits) {
    planned.expansion.expand(batch[r], batch.splits[r], rule_);
  } else {
    planned.expansion.expand(batch[r], separation_, rule_);
  }
  fill_places(machine, fetched, planned);
}

// The coordinates of a row in their one order: linear, pairs by (j, i), shared, square.
template <class Machine>
PQR_ALWAYS_INLINE inline void Model::fill_places(Machine machine, const Fetched& fetched,
                                                 Planned& planned) const {
  const Expansion& e = planned.expansion;
  Coordinates& c = planned.coordinates;
  c.resize(e.row.size + e.interactions());
  planned.open.clear();
  planned.linear_open = fetched.where != Linear::Where::arrays;
  vectorised(machine, [&](auto) PQR_ALWAYS_INLINE { fill_all(fetched, planned); });
  c.pad();
}

PQR_ALWAYS_INLINE inline void Model::fill_all(const Fetched& fetched, Planned& planned) const {
  const Expansion& e = planned.expansion;
  const Row row = e.row;
  Slot<float>** place = planned.coordinates.places.data();
  float* x = planned.coordinates.x.data();
  if (!planned.linear_open) {
    const Coordinates& linear = fetched.coordinates;
    fill(place, row.size, [from = linear.places.data()](std::size_t i) { return from[i]; });
    fill(x, row.size, [from = linear.x.data()](std::size_t i) { return from[i]; });
  } else {
    std::copy_n(row.values, row.size, x);
  }
  place += row.size;
  x += row.size;
  const std::size_t high = e.high;
  const std::uint32_t* ranks = e.ranks;
  const float *values = e.values, scale = e.scale;
  if (planned.offsets.size() < with_room(high)) planned.offsets.resize(with_room(high));
  std::uintptr_t* offsets = planned.offsets.data();
  fill(offsets, high, [=](std::size_t a) { return ranks[a] * sizeof(Slot<float>); });
  const auto of_array = [&](const Slot<float>* array, std::size_t size, float factor)
                            PQR_ALWAYS_INLINE {
                              fill_array(array, offsets, values, factor, size, place, x);
                              place += size;
                              x += size;
                            };
  for (std::size_t b = 1; b < high; ++b) {
    const float factor = values[b] * scale;
    if (const Slot<float>* array = pair_.array(ranks[b])) {
      of_array(array, b, factor);
      continue;
    }
    for (std::size_t a = 0; a < b; ++a) {
      pair_.prefetch(ranks[a], ranks[b]);
      place[a] = &nowhere;
      x[a] = values[a] * factor;
    }
    planned.open.push_back(std::size_t{b});  // a copy: `b` itself stays in a register
    place += b;
    x += b;
  }
  if (e.shared) of_array(shared_.data(), high, e.low_sum * scale);
  if (e.squares) {
    fill_array(square_.data(), offsets, values, scale, high, place, x);
    for (std::size_t a = 0; a < high; ++a) x[a] = values[a] * (values[a] * scale);
  }
}

// The places of a row's own features. Where the table has moved, the row is walked again.
template <class Slots>
void Model::find_linear(const Row& row, Coordinates& c, Slots slots) {
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t i = 0; i < row.size; ++i) {
      c.places[i] = slots.linear(row.indices[i], moved);
    }
  }
}

template <class Slots>
void Model::collect_linear(const Row& row, Fetched& fetched, Slots slots) {
  if (fetched.where != Linear::Where::arrays) find_linear(row, fetched.coordinates, slots);
}

// Finds what was left open. Where pairs have moved, they are walked again.
template <class Slots>
void Model::collect(Planned& planned, Slots slots) {
  const Expansion& e = planned.expansion;
  if (planned.linear_open) find_linear(e.row, planned.coordinates, slots);
  Slot<float>** pairs = planned.coordinates.places.data() + e.row.size;
  for (bool moved = !planned.open.empty(); moved;) {
    moved = false;
    for (const std::size_t b : planned.open) {
      Slot<float>** place = pairs + b * (b - 1) / 2;
      for (std::size_t a = 0; a < b; ++a) place[a] = slots.pair(e.ranks[a], e.ranks[b], moved);
    }
  }
}

template <bool keeps, class Machine, class Optimizer>
PQR_ALWAYS_INLINE inline double Model::weigh(Machine machine, const Optimizer& chosen,
                                             Coordinates& c, Coming coming) const {
  const double sum = weigh_slots<keeps>(machine, chosen.each(), c, coming);
  return settings_.bias ? chosen.bias().weight(bias) + sum : sum;
}

// Learns the row whose slots and weights are in `c`.
template <class Loss, class Machine, class Optimizer, class Meanwhile>
PQR_ALWAYS_INLINE inline bool Model::step(Machine machine, Optimizer& chosen, const Row& row,
                                          Coordinates& c, Coming coming, double label, float weight,
                                          double margin, Meanwhile meanwhile) {
  const double slope = Loss::slope(margin, label) * weight;
  const double gradient = std::fabs(slope) * std::max(1.0, double{c.largest});
  if (!(gradient <= largest_gradient)) return false;
  double change = 0.0;  // of the squared norm
  if constexpr (Optimizer::has_norm) change -= sum_of_squares(c) + bias.z * bias.z;
  meanwhile();
  step_slots(machine, chosen.each(), c, static_cast<float>(slope), coming);
  if (settings_.bias) {
    const auto always = chosen.bias();
    bias = always.step(bias, always.weight(bias), slope);
  }
  if constexpr (Optimizer::has_norm) change += sum_of_squares(c) + bias.z * bias.z;
  chosen.end_row(change);
  if constexpr (std::is_same_v<Optimizer, Ogd>) {
    if (chosen.wants_rescaling()) rescale(chosen.take_scale());
  }
  if (row.size > 0) {
    const std::uint64_t last = row.indices[row.size - 1];
    next_feature = std::max(next_feature, last + 1);
  }
  ++rows;
  return true;
}

// Multiplies every slot, at rows that the optimizer's own state determines.
void Model::rescale(double factor) {
  const auto multiply = [&](Slot<float>& slot) { slot.z = static_cast<float>(slot.z * factor); };
  bias.z *= factor;
  linear_.each(multiply);
  pair_.each(multiply);
  for (auto* slots : {&shared_, &square_}) std::for_each(slots->begin(), slots->end(), multiply);
}

double Model::bias_weight() const {
  if (!settings_.bias) return 0.0;
  return std::visit([&](const auto& chosen) { return chosen.bias().weight(bias); }, optimizer);
}

}  // namespace pqr
