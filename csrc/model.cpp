#include "model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

namespace pqr {

Model::Model(const Settings& settings, const Optimizer& optimizer_,
             std::shared_ptr<const Separation> separation)
    : optimizer(optimizer_),
      settings_(settings),
      separation_(std::move(separation)),
      pairs_(settings.expand.all_high ? Pairs::most : separation_->order(),
             Linear::front_keys + lanes, frequent_ranks),
      linear_(pairs_.array()) {
  if (settings.expand.all_high) {
    growing_ = std::make_shared<Separation>();
    for (const std::uint32_t feature : separation_->features()) growing_->append(feature);
    separation_ = growing_;
  }
  pairs_.resize(separation_->order());
  for (const std::uint32_t feature : separation_->features()) {
    next_feature = std::max(next_feature, std::uint64_t{feature} + 1);
  }
}

// Stage 1: prefetches ranks and linear slots of row r. No slot is read or made before its turn.
PQR_ALWAYS_INLINE inline void Model::prefetch(const Rows& batch, std::size_t r) const {
  batch.prefetch(r + stream_ahead - prefetch_ahead);
  if (r < batch.size) {
    const Row row = batch[r];
    linear_.prefetch(row.indices, row.size);
    if (!batch.splits) separation_->prefetch(row);
  }
  const std::size_t before = r - (prefetch_ahead - packed_ahead);
  if (before < batch.size) {  // not so before the first row, where it wraps around
    const Row row = batch[before];
    linear_.prefetch_packed(row.indices, row.size);
  }
}

// Slots have numbers if all of a row's lie in the array, where they never move.
PQR_ALWAYS_INLINE inline void Model::list(Planned& planned) const {
  planned.list(settings_.expand, Linear::front_keys, pairs_.first());
  const bool pairs = planned.high == 0 || pairs_.has_all(planned.ranks[planned.high - 1]);
  const bool all = pairs && linear_.front(planned.row.indices, planned.row.size);
  planned.coordinates.array = all && !settings_.shares_pairs ? pairs_.array() : nullptr;
}

// Stage 2: splits row r and lists its coordinates. Returns those whose slots are not yet
// prefetched.
PQR_ALWAYS_INLINE inline Upcoming Model::plan(const Rows& batch, std::size_t r,
                                              Planned& planned) const {
  if (r >= batch.size) return {};
  if (is_linear()) {
    planned.take(batch[r], {});
  } else if (batch.splits) {
    planned.take(batch[r], batch.splits[r]);
  } else {
    planned.split(batch[r], *separation_, settings_.expand.all_high);
  }
  list(planned);
  const Coordinates& c = planned.coordinates;
  if (c.array) {
    const std::size_t first = planned.row.size / lanes * lanes;
    return {{c.array, c.numbers.data() + first}, c.padded() - first};
  }
  for (std::size_t b = 0; b < planned.high; ++b) {
    for (std::size_t a = 0; a <= b; ++a) pairs_.prefetch(planned.ranks[a], planned.ranks[b]);
  }
  return {};
}

// The slot of a key. Learning makes those that are missing; predicting has constant tables, and
// reads a missing slot as one in its initial state.
template <class Table, class... Key>
PQR_ALWAYS_INLINE inline Slot<float>* slot_of(Table& table, bool& moved, Key... key) {
  if constexpr (std::is_const_v<Table>) {
    static const Slot<float> initial;
    const Slot<float>* const found = table.find(key...);
    return const_cast<Slot<float>*>(found ? found : &initial);
  } else {
    return table.make(key..., moved);
  }
}

// Stage 3: locates the slots that do not lie in the array. A table that grows voids the pointers it
// gave: all slots are then looked up again. `Tables` is Model or const Model.
template <class Tables>
PQR_ALWAYS_INLINE inline void Model::locate(Tables& tables, Planned& planned) {
  Coordinates& c = planned.coordinates;
  if (c.array) return;
  c.pad_slots();
  for (bool moved = true; moved;) {
    moved = false;
    Slot<float>** slot = c.slots.data();
    for (std::size_t i = 0; i < planned.row.size; ++i) {
      *slot++ = slot_of(tables.linear_, moved, planned.row.indices[i]);
    }
    for (std::size_t b = 0; b < planned.high; ++b) {
      const std::uint32_t j = planned.ranks[b];
      *slot++ = slot_of(tables.pairs_, moved, j, j);
      for (std::size_t a = 0; a < b; ++a, ++slot) {
        *slot = slot_of(tables.pairs_, moved, planned.ranks[a], j);
        const bool shares = std::is_const_v<Tables> && tables.settings_.shares_pairs;
        if (shares && is_initial(**slot)) *slot = c.slots[planned.row.size + a * (a + 1) / 2];
      }
    }
  }
}

// Stage 4: the margin. Slots and weights go into `weighed` if it `keeps` them.
template <bool keeps, std::size_t width, class Optimizer>
PQR_ALWAYS_INLINE inline double Model::weigh(const Optimizer& chosen, const Planned& planned,
                                             Upcoming upcoming, Weighed* weighed) const {
  const Coordinates& c = planned.coordinates;
  const auto rule = chosen.template at<float>(Block::linear);
  double sum = 0.0;
  c.with_slots([&](auto at) PQR_ALWAYS_INLINE {
    sum = weigh_slots<keeps, width>(rule, at, c.x.data(), c.padded(), weighed, upcoming);
  });
  return settings_.bias ? chosen.template at<double>(Block::bias).weight(bias) + sum : sum;
}

// Whether no gradient is NaN, or could overflow the square of a float after many rows.
PQR_ALWAYS_INLINE inline bool has_small_gradients(const Coordinates& c, double slope) {
  // A square of 1e30, a hundred million times; and a limit of 1e35 at most, which is a float.
  constexpr double largest_gradient = 1e15, least_slope = 1e-20;
  const double size = std::fabs(slope), limit = largest_gradient / std::max(size, least_slope);
  return size <= largest_gradient && all_within(static_cast<float>(limit), c.x.data(), c.padded());
}

// Stage 5: steps every slot that stage 4 has kept.
template <std::size_t width, class Optimizer>
PQR_ALWAYS_INLINE inline void Model::step(Optimizer& chosen, const Planned& planned,
                                          Upcoming upcoming, double slope) {
  const Coordinates& c = planned.coordinates;
  const auto sum = [&]() PQR_ALWAYS_INLINE {
    if constexpr (Optimizer::has_sum) return sum_of_terms<Optimizer>(c) + Optimizer::term(bias.z);
    return 0.0;
  };
  const double before = sum();
  const auto rule = chosen.template at<float>(Block::linear);
  c.with_slots([&](auto at) PQR_ALWAYS_INLINE {
    step_slots<width>(rule, at, c.x.data(), c.padded(), weighed_.data(), static_cast<float>(slope),
                      upcoming);
  });
  if (settings_.bias) {
    const auto of_bias = chosen.template at<double>(Block::bias);
    bias = of_bias.step(bias, of_bias.weight(bias), slope);
  }
  const double factor = chosen.end_row(sum() - before);
  if (factor != 1.0) rescale(factor);
  if (planned.row.size > 0) {
    const std::uint64_t last = planned.row.indices[planned.row.size - 1];
    next_feature = std::max(next_feature, last + 1);
  }
  ++rows;
}

// Multiplies every slot, when the optimizer's own state says so: at the same rows in every run.
void Model::rescale(double factor) {
  const auto multiply = [=](Slot<float>& slot) { slot.z = static_cast<float>(slot.z * factor); };
  bias.z *= factor;
  linear_.each_sorted([&](std::uint32_t, Slot<float>& slot) { multiply(slot); });
  pairs_.each_run(
      [&](Slot<float>* slots, std::size_t size) { std::for_each(slots, slots + size, multiply); });
}

// Visits rows in order until a visit returns false; returns how many returned true. A visit is
// given next(), to be called once: it takes rows ahead through their first two stages, and returns
// the slots of one of them that are to be prefetched.
template <class Visit>
PQR_ALWAYS_INLINE inline std::size_t Model::each_row(std::size_t plan_ahead, const Rows& batch,
                                                     Ahead& ahead, Visit visit) const {
  for (std::size_t r = 0; r < prefetch_ahead; ++r) prefetch(batch, r);
  for (std::size_t r = 0; r < plan_ahead; ++r) plan(batch, r, ahead[r]);
  for (std::size_t r = 0; r < batch.size; ++r) {
    const auto next = [&]() PQR_ALWAYS_INLINE {
      prefetch(batch, r + prefetch_ahead);
      const Upcoming upcoming = plan(batch, r + plan_ahead, ahead[r + plan_ahead]);
      return plan_ahead > 0 ? upcoming : Upcoming{};  // of row r itself it would be too late
    };
    if (!visit(ahead[r], r, next)) return r;
  }
  return batch.size;
}

template <std::size_t width, class Optimizer>
PQR_ALWAYS_INLINE inline double Model::margin_row(const Optimizer& chosen, Planned& planned,
                                                  Upcoming upcoming) const {
  if (planned.refused) return std::numeric_limits<double>::quiet_NaN();
  locate(*this, planned);
  return weigh<false, width>(chosen, planned, upcoming, nullptr);
}

// QR: features that occur for the first time are high from now on.
void Model::append_new_features(Planned& planned) {
  const Row row = planned.row;
  for (std::size_t i = 0; i < row.size; ++i) growing_->append(row.indices[i]);
  pairs_.resize(std::max(pairs_.order(), growing_->order()));
  planned.split(row, *growing_, true);
  list(planned);
}

// False, and nothing is learned, when the row would leave the range of a float or has too many
// pairs.
template <std::size_t width, class Optimizer, class Next>
PQR_ALWAYS_INLINE inline bool Model::learn_row(Optimizer& chosen, Planned& planned, double label,
                                               float weight, double& margin, Next next) {
  // A row of a linear model is short, and waits for its slope: rows ahead are planned meanwhile.
  const bool plans_late = is_linear();
  const Upcoming upcoming = plans_late ? Upcoming{} : next();
  if (weight == 0.0f) {
    if (plans_late) next();
    margin = margin_row<width>(chosen, planned, upcoming);
    return std::isfinite(margin);
  }
  // QR predicts a row without its new features, then learns all of it.
  const std::size_t order = separation_->order();
  const bool has_new_features = planned.left_out > 0;
  if (has_new_features) {
    margin = margin_row<width>(chosen, planned, {});
    append_new_features(planned);
  }
  locate(*this, planned);
  const Coordinates& c = planned.coordinates;
  if (weighed_.size() < c.padded() / lanes) weighed_.resize(c.padded() / lanes);
  const double whole = weigh<true, width>(chosen, planned, upcoming.first(), weighed_.data());
  if (!has_new_features) margin = whole;
  const double slope = pqr::slope(settings_.loss, margin, label) * weight;
  if (plans_late) next();
  const bool learns = !planned.refused && has_small_gradients(planned.coordinates, slope);
  if (learns) {
    step<width>(chosen, planned, upcoming.rest(), slope);
  } else if (has_new_features) {
    growing_->cut(order);
  }
  return learns;
}

std::size_t Model::learn(const Rows& batch, double* margins) {
  // In QR a row may bring new ranks, so a later row cannot be split before its turn.
  const std::size_t plan_ahead = settings_.expand.all_high ? 0 : learn_ahead;
  return with_optimizer(optimizer, [&](auto& chosen) {
    return vectorised(avx2_, [&, this](auto width) PQR_ALWAYS_INLINE {
      return each_row(plan_ahead, batch, ahead_,
                      [&](Planned& row, std::size_t r, auto next) PQR_ALWAYS_INLINE {
                        return learn_row<width>(chosen, row, batch.labels[r], batch.weights[r],
                                                margins[r], next);
                      });
    });
  });
}

std::size_t Model::margin(const Rows& batch, double* margins) const {
  return with_optimizer(optimizer, [&](const auto& chosen) {
    return vectorised(avx2_, [&, this](auto width) PQR_ALWAYS_INLINE {
      Ahead ahead;
      return each_row(predict_ahead, batch, ahead,
                      [&](Planned& row, std::size_t r, auto next) PQR_ALWAYS_INLINE {
                        const Upcoming upcoming = next();
                        margins[r] = margin_row<width>(chosen, row, upcoming);
                        return std::isfinite(margins[r]);
                      });
    });
  });
}

bool Model::locate_row(const Rows& batch, std::size_t r, Planned& planned) const {
  plan(batch, r, planned);
  locate(*this, planned);
  return !planned.refused;
}

std::size_t Model::pairs_in(const Row& row, bool learns) const {
  std::size_t high = 0;
  for (std::size_t i = 0; i < row.size; ++i) {
    const bool rises = learns && settings_.expand.all_high;
    high += rises || separation_->rank(row.indices[i]) != Separation::low;
  }
  high = std::min(high, settings_.expand.most_high);
  return high * (high - 1) / 2;
}

double Model::bias_weight() const {
  if (!settings_.bias) return 0.0;
  return with_optimizer(optimizer, [&](const auto& chosen) {
    return chosen.template at<double>(Block::bias).weight(bias);
  });
}

}  // namespace pqr
