#include "factor_model.hpp"

#include <algorithm>
#include <cmath>

namespace pqr {

namespace {

// How many rows ahead memory is prefetched: entries, or the bitmaps of packed ones, then packed
// ones, then factors. A row takes half a microsecond, memory a fifth of that.
constexpr std::size_t entries_ahead = 6;
constexpr std::size_t packed_ahead = 4;
constexpr std::size_t factors_ahead = 2;

}  // namespace

template <class Rule>
std::size_t FactorModel<Rule>::learn(const Rows& batch, double* margins) {
  Scratch scratch;
  for (std::size_t r = 0; r < batch.size; ++r) {
    prefetch(batch, r);
    if (!learn_row(batch[r], scratch, batch.labels[r], batch.weights[r], margins[r])) return r;
  }
  return batch.size;
}

template <class Rule>
std::size_t FactorModel<Rule>::margin(const Rows& batch, double* margins) const {
  Scratch scratch;
  for (std::size_t r = 0; r < batch.size; ++r) {
    prefetch(batch, r);
    margins[r] = margin_row(batch[r], scratch);
    if (!std::isfinite(margins[r])) return r;
  }
  return batch.size;
}

template <class Rule>
void FactorModel<Rule>::prefetch(const Rows& batch, std::size_t r) const {
  if (r + entries_ahead < batch.size) {
    const Row row = batch[r + entries_ahead];
    entries_.prefetch(row.indices, row.size);
  }
  if (r + packed_ahead < batch.size) {
    const Row row = batch[r + packed_ahead];
    entries_.prefetch_packed(row.indices, row.size);
  }
  if (r + factors_ahead >= batch.size) return;
  const Row row = batch[r + factors_ahead];
  for (std::size_t i = 0; i < row.size; ++i) {
    const Entry* entry = entries_.find(row.indices[i]);
    if (entry && entry->factors) fetch(entry->factors);
  }
}

// False, and nothing is learned, when the row would leave the range of a float.
template <class Rule>
bool FactorModel<Rule>::learn_row(const Row& row, Scratch& scratch, double label, float weight,
                                  double& margin) {
  margin = margin_row(row, scratch);
  if (!std::isfinite(margin)) return false;
  if (weight == 0.0f) return true;
  const double slope = pqr::slope(settings_.loss, margin, label) * weight;
  const double gradient = scratch.products.largest_gradient(row, slope);
  const double eta = std::max(rule_.eta(), settings_.factors.eta);
  if (!is_learnable(gradient, settings_.factors.adaptive ? eta : eta * gradient)) return false;
  step(row, scratch, slope);
  if (row.size > 0) {
    next_feature = std::max(next_feature, std::uint64_t{row.indices[row.size - 1]} + 1);
  }
  ++rows;
  return true;
}

template <class Rule>
double FactorModel<Rule>::margin_row(const Row& row, Scratch& scratch) const {
  const auto rule = rule_.template at<float>(Block::linear, static_cast<double>(rows));
  scratch.w.assign(padded(row.size), 0.0f);
  scratch.x.assign(padded(row.size), 0.0f);
  scratch.features.clear();
  bool is_known = true;
  for (std::size_t i = 0; i < row.size; ++i) {
    const Entry* entry = entries_.find(row.indices[i]);
    const std::size_t tiers = entry ? reached(entry->count) : 0;
    if (entry) scratch.w[i] = rule.weight(entry->slot);
    scratch.x[i] = row.values[i];
    if (tiers > 0 && (Rule::factors_at_once || scratch.w[i] != 0.0f)) {  // masked, not dropped
      scratch.features.push_back({entry->factors, dimension(tiers), row.values[i]});
    } else if (Rule::factors_at_once) {
      scratch.features.push_back({nullptr, dimension(1), row.values[i]});
      is_known = false;
    }
  }
  if (!is_known) fill_initial(row, scratch);
  const double linear = sum_of_products(scratch.w.data(), scratch.x.data(), padded(row.size));
  return bias_weight() + linear + scratch.products.sum(avx2_, scratch.features);
}

// The factors of features never learned, where a model has them at once.
template <class Rule>
void FactorModel<Rule>::fill_initial(const Row& row, Scratch& scratch) const {
  const std::size_t size = dimension(1);
  scratch.initial.assign(row.size * padded(size), 0.0f);
  for (std::size_t i = 0; i < row.size; ++i) {
    if (scratch.features[i].v) continue;
    float* const v = scratch.initial.data() + i * padded(size);
    settings_.start.fill(row.indices[i], 0, size, v);
    scratch.features[i].v = v;
  }
}

template <class Rule>
void FactorModel<Rule>::step(const Row& row, Scratch& scratch, double slope) {
  const auto now = static_cast<double>(rows);
  const auto common = static_cast<float>(slope);
  for (std::size_t i = 0; Rule::factors_at_once && i < row.size; ++i) {
    Entry& entry = *entries_.make(row.indices[i]);
    if (entry.factors) continue;
    entry.factors = add_factors(1);
    std::copy_n(scratch.features[i].v, dimension(1), entry.factors);
    scratch.features[i].v = entry.factors;
  }
  const auto descent = settings_.factors.at_row<float>(now);
  for (const Factored& feature : scratch.features) {
    scratch.products.step(avx2_, descent, settings_.factors.adaptive, feature, common);
  }
  const auto rule = rule_.template at<float>(Block::linear, now);
  for (std::size_t i = 0; i < row.size; ++i) {
    Entry& entry = *entries_.make(row.indices[i]);
    entry.slot = rule.step(entry.slot, scratch.w[i], common * row.values[i]);
    count(row.indices[i], entry);
  }
  if (!settings_.bias) return;
  const auto of_bias = rule_.template at<double>(Block::bias, now);
  bias = of_bias.step(bias, of_bias.weight(bias), slope);
}

// One row more.
template <class Rule>
void FactorModel<Rule>::count(std::uint32_t feature, Entry& entry) {
  if (entry.count == 0xFFFFFFFFu) return;  // never overflows
  const std::size_t before = reached(entry.count), after = reached(++entry.count);
  if (!Rule::factors_at_once && before != after) lengthen(feature, entry, before, after);
}

// A feature that reaches a tier keeps the factors that it has, and gets initial ones for the rest.
template <class Rule>
void FactorModel<Rule>::lengthen(std::uint32_t feature, Entry& entry, std::size_t from,
                                 std::size_t to) {
  const std::size_t kept = dimension(from);
  float* const longer = add_factors(to);
  if (from > 0) {
    std::copy_n(entry.factors, kept, longer);
    std::copy_n(entry.factors + padded(kept), kept, longer + padded(dimension(to)));
  }
  settings_.start.fill(feature, kept, dimension(to), longer);
  entry.factors = longer;
}

template <class Rule>
double FactorModel<Rule>::bias_weight() const {
  if (!settings_.bias) return 0.0;
  return rule_.template at<double>(Block::bias, static_cast<double>(rows)).weight(bias);
}

template <class Rule>
FactorState FactorModel<Rule>::state() const {
  FactorState state;
  entries_.each_sorted([&](std::uint32_t feature, const Entry& entry) {
    if (entry.count == 0) return;
    state.features.push_back(feature);
    state.counts.push_back(entry.count);
    state.slots.insert(state.slots.end(), {entry.slot.z, entry.slot.root_n});
    const std::size_t tiers = reached(entry.count), size = dimension(tiers);
    if (tiers == 0) return;
    const float* const v = entry.factors;
    state.factors.insert(state.factors.end(), v, v + size);
    if (!settings_.factors.adaptive) return;
    state.sums.insert(state.sums.end(), v + padded(size), v + padded(size) + size);
  });
  return state;
}

template <class Rule>
bool FactorModel<Rule>::restore(const FactorState& state) {
  std::size_t total = 0;
  for (std::size_t n = 0; n < state.features.size(); ++n) {
    if (n > 0 && state.features[n] <= state.features[n - 1]) return false;
    if (state.counts[n] == 0) return false;
    total += dimension(reached(state.counts[n]));
  }
  const bool adaptive = settings_.factors.adaptive;
  if (total != state.factors.size() || (adaptive ? total : 0) != state.sums.size()) return false;
  std::size_t done = 0;
  for (std::size_t n = 0; n < state.features.size(); ++n) {
    Entry& entry = *entries_.make(state.features[n]);
    entry = {{state.slots[2 * n], state.slots[2 * n + 1]}, nullptr, state.counts[n]};
    const std::size_t tiers = reached(entry.count), size = dimension(tiers);
    if (tiers == 0) continue;
    float* const v = entry.factors = add_factors(tiers);
    std::copy_n(state.factors.data() + done, size, v);
    if (adaptive) std::copy_n(state.sums.data() + done, size, v + padded(size));
    done += size;
  }
  return true;
}

template <class Rule>
std::vector<float> FactorModel<Rule>::weights(const float* slots, std::size_t size) const {
  const auto rule = rule_.template at<float>(Block::linear, static_cast<double>(rows));
  std::vector<float> weights(size);
  for (std::size_t n = 0; n < size; ++n) {
    weights[n] = rule.weight(Slot<float>{slots[2 * n], slots[2 * n + 1]});
  }
  return weights;
}

template class FactorModel<FmRule>;
template class FactorModel<DifactoRule>;

}  // namespace pqr
