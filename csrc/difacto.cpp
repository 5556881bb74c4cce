#include "difacto.hpp"

#include <algorithm>
#include <cmath>

namespace pqr {

namespace {

constexpr std::uint32_t largest_count = 0xFFFFFFFFu;

// How many rows ahead memory is fetched: first entries, or what says where they are packed, then
// those, then their factors.
constexpr std::size_t factors_ahead = 2;
constexpr std::size_t packed_ahead = 4;
constexpr std::size_t entries_ahead = 6;

}  // namespace

Difacto::Difacto(const DifactoSettings& settings) : settings_(settings) {
  for (const Tier& tier : settings_.tiers) pools_.emplace_back(2 * padded(tier.rank));
}

std::size_t Difacto::learn(const Rows& batch, double* margins) {
  Scratch scratch;
  for (std::size_t r = 0; r < batch.size; ++r) {
    prefetch(batch, r);
    const bool learned =
        learn_row(batch[r], scratch, batch.labels[r], batch.weights[r], margins[r]);
    if (!learned) return r;
  }
  return batch.size;
}

std::size_t Difacto::margin(const Rows& batch, double* margins) const {
  Scratch scratch;
  for (std::size_t r = 0; r < batch.size; ++r) {
    prefetch(batch, r);
    margins[r] = margin_row(batch[r], scratch);
    if (!std::isfinite(margins[r])) return r;
  }
  return batch.size;
}

// False, and nothing is learned, when the row would leave the range of a float.
bool Difacto::learn_row(const Row& row, Scratch& scratch, double label, float weight,
                        double& margin) {
  margin = margin_row(row, scratch);
  if (!std::isfinite(margin)) return false;
  if (weight == 0.0f) return true;
  const double slope = pqr::slope(settings_.loss, margin, label) * weight;
  const double gradient = scratch.products.largest_gradient(row, slope);
  if (!is_learnable(gradient, settings_.factors.eta)) return false;
  step(row, scratch, slope);
  if (row.size > 0) {
    next_feature = std::max(next_feature, std::uint64_t{row.indices[row.size - 1]} + 1);
  }
  ++rows;
  return true;
}

double Difacto::margin_row(const Row& row, Scratch& scratch) const {
  const Coordinates& segment = scratch.linear;
  gather(row, scratch.linear);
  scratch.weighed.resize(segment.padded() / lanes);
  const double linear = vectorised(avx2_, [&, this](auto width) PQR_ALWAYS_INLINE {
    Sum<width> sum;
    weigh_slots<true>(rules_of(settings_.linear, segment), Far{segment.places.data()},
                      segment.x.data(), segment.padded(), scratch.weighed.data(), sum);
    return sum.total();
  });
  scratch.terms.clear();
  for (std::size_t i = 0; i < row.size; ++i) {
    if (scratch.weighed[i / lanes].w[i % lanes] == 0.0f) continue;  // masked, not dropped
    const Entry& entry = *entries_.find(row.indices[i]);
    const std::size_t own = rank(entry.count);
    if (own > 0) scratch.terms.push_back({factors(entry), own, padded(own), row.values[i]});
  }
  const double pairs = scratch.products.sum(avx2_, scratch.terms);
  return bias_weight() + linear + pairs;
}

// A feature never learned has an initial slot, so it weighs nothing.
void Difacto::gather(const Row& row, Coordinates& linear) const {
  static const Entry initial;
  linear.resize(row.size);
  linear.pad_places();
  linear.pad(0);
  for (std::size_t i = 0; i < row.size; ++i) {
    const Entry* entry = entries_.find(row.indices[i]);
    linear.places[i] = const_cast<Slot<float>*>(entry ? &entry->slot : &initial.slot);
    linear.x[i] = row.values[i];
  }
}

void Difacto::step(const Row& row, Scratch& scratch, double slope) {
  const auto common = static_cast<float>(slope);
  const auto descent = settings_.factors.at_row<float>(0.0);
  for (const Term& term : scratch.terms) {
    scratch.products.step(avx2_, descent, true, term, common);
  }
  scratch.entries.resize(row.size);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t i = 0; i < row.size; ++i) {
      scratch.entries[i] = entries_.make(row.indices[i], moved);
      scratch.linear.places[i] = &scratch.entries[i]->slot;
    }
  }
  const Coordinates& linear = scratch.linear;
  vectorised(avx2_, [&, this](auto width) PQR_ALWAYS_INLINE {
    step_slots<width>(rules_of(settings_.linear, linear), Far{linear.places.data()},
                      linear.x.data(), linear.padded(), scratch.weighed.data(), common);
  });
  for (std::size_t i = 0; i < row.size; ++i) count(row.indices[i], *scratch.entries[i]);
  if (!settings_.bias) return;
  const auto always = settings_.linear.at<double>(Block::bias);
  bias = always.step(bias, always.weight(bias), slope);
}

// One row more. A feature that reaches a tier keeps the factors that it has, and
// gets new ones, where they start, for the rest of its new rank.
void Difacto::count(std::uint32_t feature, Entry& entry) {
  if (entry.count == largest_count) return;
  const std::size_t before = reached(entry.count), after = reached(++entry.count);
  if (before == after) return;
  Pool& pool = pools_[after - 1];
  const std::size_t rank = settings_.tiers[after - 1].rank;
  const std::uint32_t place = pool.add();
  float* record = pool.at(place);
  std::fill_n(record, pool.width(), 0.0f);
  std::size_t kept = 0;
  if (before > 0) {
    kept = settings_.tiers[before - 1].rank;
    Pool& left = pools_[before - 1];
    const float* old = left.at(entry.place);
    std::copy_n(old, kept, record);
    std::copy_n(old + left.width() / 2, kept, record + pool.width() / 2);
    left.release(entry.place);
  }
  settings_.start.fill(feature, kept, rank, record);
  entry.place = place;
}

std::size_t Difacto::reached(std::uint32_t count) const {
  std::size_t tiers = 0;
  while (tiers < settings_.tiers.size() && count >= settings_.tiers[tiers].count) ++tiers;
  return tiers;
}

std::size_t Difacto::rank(std::uint32_t count) const {
  const std::size_t tiers = reached(count);
  return tiers == 0 ? 0 : settings_.tiers[tiers - 1].rank;
}

float* Difacto::factors(const Entry& entry) const {
  return pools_[reached(entry.count) - 1].at(entry.place);
}

double Difacto::bias_weight() const {
  return settings_.bias ? settings_.linear.at<double>(Block::bias).weight(bias) : 0.0;
}

void Difacto::prefetch(const Rows& batch, std::size_t r) const {
  if (r + entries_ahead < batch.size) {
    const Row row = batch[r + entries_ahead];
    entries_.prefetch(row.indices, row.size);
  }
  if (r + packed_ahead < batch.size) {
    const Row row = batch[r + packed_ahead];
    for (std::size_t i = 0; i < row.size; ++i) entries_.prefetch_packed(row.indices[i]);
  }
  if (r + factors_ahead >= batch.size) return;
  const Row row = batch[r + factors_ahead];
  for (std::size_t i = 0; i < row.size; ++i) {
    const Entry* entry = entries_.find(row.indices[i]);
    if (entry != nullptr && entry->place != 0) fetch(factors(*entry));
  }
}

DifactoState Difacto::state() const {
  DifactoState state;
  entries_.each_sorted([&](std::uint32_t feature, const Entry& entry) {
    if (entry.count == 0) return;
    state.features.push_back(feature);
    state.counts.push_back(entry.count);
    state.slots.insert(state.slots.end(), {entry.slot.z, entry.slot.root_n});
    const std::size_t own = rank(entry.count);
    if (own == 0) return;
    const float* v = factors(entry);
    const float* sums = v + padded(own);
    state.factors.insert(state.factors.end(), v, v + own);
    state.sums.insert(state.sums.end(), sums, sums + own);
  });
  return state;
}

bool Difacto::restore(const DifactoState& state) {
  std::size_t total = 0;
  for (std::size_t n = 0; n < state.features.size(); ++n) {
    if (n > 0 && state.features[n] <= state.features[n - 1]) return false;
    if (state.counts[n] == 0) return false;
    total += rank(state.counts[n]);
  }
  if (total != state.factors.size() || total != state.sums.size()) return false;
  const float* v = state.factors.data();
  const float* sums = state.sums.data();
  bool moved = false;
  for (std::size_t n = 0; n < state.features.size(); ++n) {
    Entry& entry = *entries_.make(state.features[n], moved);
    entry = {{state.slots[2 * n], state.slots[2 * n + 1]}, state.counts[n], 0};
    const std::size_t own = rank(entry.count);
    if (own == 0) continue;
    Pool& pool = pools_[reached(entry.count) - 1];
    entry.place = pool.add();
    float* record = pool.at(entry.place);
    std::fill_n(record, pool.width(), 0.0f);
    std::copy_n(v, own, record);
    std::copy_n(sums, own, record + padded(own));
    v += own;
    sums += own;
  }
  return true;
}

std::vector<float> Difacto::weights(const float* slots, std::size_t size) const {
  const auto each = settings_.linear.at<float>(Block::linear);
  std::vector<float> weights(size);
  for (std::size_t n = 0; n < size; ++n)
    weights[n] = each.weight(Slot<float>{slots[2 * n], slots[2 * n + 1]});
  return weights;
}

}  // namespace pqr
