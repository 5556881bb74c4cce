#include "model.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace pqr {

// A table that grows voids the pointers it gave: `moved` says so.
struct Model::Make {
  Model& model;

  Slot<float>* linear(std::uint32_t feature, bool& moved) const {
    return model.linear_.make(feature, moved);
  }
  Slot<float>* pair(std::uint32_t i, std::uint32_t j, bool& moved) const {
    return model.pairs_.make(i, j, moved);
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
    const Slot<float>* const slot = model.pairs_.find(i, j);
    const bool by_shared = model.settings_.shares_pairs && (!slot || is_initial(*slot));
    return found(by_shared ? model.pairs_.find(i, i) : slot);
  }
};

Model::Model(const Settings& settings, const Optimizer& optimizer_,
             std::shared_ptr<const Separation> separation)
    : optimizer(optimizer_),
      settings_(settings),
      rule_{settings.everything_high, settings.interaction_scale},
      separation_(std::move(separation)),
      pairs_(settings.everything_high ? Pairs::most : separation_->order(),
             Linear::front_keys + lanes, frequent_ranks),
      linear_(pairs_.array()) {
  if (settings.everything_high) {
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

// Whether all slots of a row lie in the array, so that they never move.
PQR_ALWAYS_INLINE inline bool Model::is_in_array(const Planned& planned) const {
  const bool pairs = planned.high == 0 || pairs_.has_all(planned.ranks[planned.high - 1]);
  return pairs && linear_.front(planned.row.indices, planned.row.size);
}

PQR_ALWAYS_INLINE inline void Model::list(Planned& planned) const {
  planned.list(rule_, Linear::front_keys, pairs_.first());
  const bool in_array = is_in_array(planned) && !settings_.shares_pairs;
  planned.coordinates.array = in_array ? pairs_.array() : nullptr;
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
    planned.split(batch[r], *separation_, settings_.everything_high);
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

// Stage 3: finds the slots that do not lie in the array, or makes them. Where a table has moved,
// its slots are looked up again.
template <class Which>
PQR_ALWAYS_INLINE inline void Model::locate(Planned& planned, Which which) const {
  Coordinates& c = planned.coordinates;
  if (c.array) return;
  c.pad_slots();
  for (bool moved = true; moved;) {
    moved = false;
    Slot<float>** slot = c.slots.data();
    for (std::size_t i = 0; i < planned.row.size; ++i) {
      *slot++ = which.linear(planned.row.indices[i], moved);
    }
    for (std::size_t b = 0; b < planned.high; ++b) {
      const std::uint32_t j = planned.ranks[b];
      *slot++ = which.pair(j, j, moved);
      for (std::size_t a = 0; a < b; ++a) *slot++ = which.pair(planned.ranks[a], j, moved);
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

// A bound for coordinates of a batch: the product of two values, divided by the features of a row.
PQR_ALWAYS_INLINE inline double Model::largest_product(const Rows& batch) const {
  const std::int64_t first = batch.indptr[0], last = batch.indptr[batch.size];
  const double value = largest_of(batch.values + first, static_cast<std::size_t>(last - first));
  const double scale = settings_.interaction_scale > 0.0f ? settings_.interaction_scale : 1.0;
  return std::max(1.0, value) * std::max(1.0, value * scale);
}

// Whether no gradient is NaN, or could overflow the square of a float after many rows. A bound for
// all rows of the batch nearly always says so.
PQR_ALWAYS_INLINE inline bool Model::has_small_gradients(const Planned& planned,
                                                         double slope) const {
  constexpr double largest_gradient = 1e15;
  const double size = std::fabs(slope);
  const auto features = static_cast<double>(planned.row.size + 1);  // and the bias
  if (std::max(size, 1.0) * features * largest_product_ <= largest_gradient) return true;
  const Coordinates& c = planned.coordinates;
  return size * std::max(1.0f, largest_of(c.x.data(), c.size())) <= largest_gradient;
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

// Multiplies every slot, at rows that the optimizer's own state determines.
void Model::rescale(double factor) {
  const auto multiply = [=](Slot<float>* slots, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) slots[i].z = static_cast<float>(slots[i].z * factor);
  };
  bias.z *= factor;
  linear_.each_run(
      [&](std::uint32_t, Slot<float>* slots, std::size_t size) { multiply(slots, size); });
  pairs_.each_run(multiply);
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
      const Upcoming planned = plan(batch, r + plan_ahead, ahead[r + plan_ahead]);
      return plan_ahead > 0 ? planned : Upcoming{};  // row r itself is too late
    };
    if (!visit(ahead[r], r, next)) return r;
  }
  return batch.size;
}

template <std::size_t width, class Optimizer>
PQR_ALWAYS_INLINE inline double Model::margin_row(const Optimizer& chosen, Planned& planned,
                                                  Upcoming upcoming) const {
  locate(planned, Find{*this});
  return weigh<false, width>(chosen, planned, upcoming, nullptr);
}

// QR: features that a row is the first to bring are high from then on.
void Model::append_new_features(Planned& planned) {
  const Row row = planned.row;
  for (std::size_t i = 0; i < row.size; ++i) growing_->append(row.indices[i]);
  pairs_.resize(std::max(pairs_.order(), growing_->order()));
  planned.split(row, *growing_, true);
  list(planned);
}

// False, and nothing is learned, when the row would leave the range of a float.
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
  locate(planned, Make{*this});
  const Coordinates& c = planned.coordinates;
  if (weighed_.size() < c.padded() / lanes) weighed_.resize(c.padded() / lanes);
  const double found = weigh<true, width>(chosen, planned, upcoming.first(), weighed_.data());
  if (!has_new_features) margin = found;
  const double slope = pqr::slope(settings_.loss, margin, label) * weight;
  if (plans_late) next();
  const bool learns = has_small_gradients(planned, slope);
  if (learns) {
    step<width>(chosen, planned, upcoming.rest(), slope);
  } else if (has_new_features) {
    growing_->cut(order);
  }
  return learns;
}

template <class Optimizer>
std::size_t Model::learn_with(Optimizer& chosen, const Rows& batch, double* margins) {
  return vectorised(avx2_, [&, this](auto width) PQR_ALWAYS_INLINE {
    largest_product_ = largest_product(batch);
    // In QR a row may bring new ranks, so a later row cannot be split before its turn.
    const std::size_t plan_ahead = settings_.everything_high ? 0 : learn_ahead;
    return each_row(
        plan_ahead, batch, ahead_, [&](Planned& row, std::size_t r, auto next) PQR_ALWAYS_INLINE {
          return learn_row<width>(chosen, row, batch.labels[r], batch.weights[r], margins[r], next);
        });
  });
}

std::size_t Model::learn(const Rows& batch, double* margins) {
  linear_.enlarge_front(rows);
  return with_optimizer(optimizer,
                        [&](auto& chosen) { return learn_with(chosen, batch, margins); });
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

RowTerms Model::terms(const Rows& batch) const {
  RowTerms found;
  Planned planned;
  const auto add = [&](RowTerms::Kind kind, std::uint32_t first, std::uint32_t second) {
    found.kinds.push_back(kind);
    found.features.insert(found.features.end(), {first, second});
  };
  for (std::size_t r = 0; r < batch.size; ++r) {
    plan(batch, r, planned);
    locate(planned, Find{*this});
    const Row row = planned.row;
    for (std::size_t i = 0; i < row.size; ++i) {
      add(RowTerms::linear, row.indices[i], row.indices[i]);
    }
    for (std::size_t b = 0; b < planned.high; ++b) {
      const std::uint32_t feature = separation_->features()[planned.ranks[b]];
      add(RowTerms::own, feature, feature);
      for (std::size_t a = 0; a < b; ++a) {
        add(RowTerms::pair, separation_->features()[planned.ranks[a]], feature);
      }
    }
    const Coordinates& c = planned.coordinates;
    found.values.insert(found.values.end(), c.x.data(), c.x.data() + c.size());
    with_optimizer(optimizer, [&](const auto& chosen) {
      const auto rule = chosen.template at<float>(Block::linear);
      c.with_slots([&](auto at) {
        for (std::size_t i = 0; i < c.size(); ++i) found.weights.push_back(rule.weight(*at(i)));
      });
    });
    found.indptr.push_back(static_cast<std::int64_t>(found.kinds.size()));
  }
  return found;
}

double Model::bias_weight() const {
  if (!settings_.bias) return 0.0;
  return with_optimizer(optimizer, [&](const auto& chosen) {
    return chosen.template at<double>(Block::bias).weight(bias);
  });
}

}  // namespace pqr
