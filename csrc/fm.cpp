#include "fm.hpp"

#include <algorithm>
#include <cmath>

namespace pqr {

namespace {

// How many rows ahead memory is fetched: first entries, or what says where they are packed, then
// those, then their factors.
constexpr std::size_t factors_ahead = 2;
constexpr std::size_t packed_ahead = 4;
constexpr std::size_t entries_ahead = 6;

}  // namespace

Fm::Fm(const FmSettings& settings)
    : settings_(settings),
      size_(padded(settings.rank)),
      pool_(settings.factors.adaptive ? 2 * size_ : size_) {}

std::size_t Fm::learn(const Rows& batch, double* margins) {
  Scratch scratch;
  for (std::size_t r = 0; r < batch.size; ++r) {
    prefetch(batch, r);
    const bool learned =
        learn_row(batch[r], scratch, batch.labels[r], batch.weights[r], margins[r]);
    if (!learned) return r;
  }
  return batch.size;
}

std::size_t Fm::margin(const Rows& batch, double* margins) const {
  Scratch scratch;
  for (std::size_t r = 0; r < batch.size; ++r) {
    prefetch(batch, r);
    margins[r] = margin_row(batch[r], scratch);
    if (!std::isfinite(margins[r])) return r;
  }
  return batch.size;
}

// False, and nothing is learned, when the row would leave the range of a float.
bool Fm::learn_row(const Row& row, Scratch& scratch, double label, float weight, double& margin) {
  margin = margin_row(row, scratch);
  if (!std::isfinite(margin)) return false;
  if (weight == 0.0f) return true;
  const double slope = pqr::slope(settings_.loss, margin, label) * weight;
  if (!fits(row, scratch, slope)) return false;
  make(row, scratch);
  step(row, scratch, slope);
  if (row.size > 0) {
    next_feature = std::max(next_feature, std::uint64_t{row.indices[row.size - 1]} + 1);
  }
  ++rows;
  return true;
}

double Fm::margin_row(const Row& row, Scratch& scratch) const {
  gather(row, scratch);
  const double linear =
      sum_of_products(scratch.w.data(), scratch.x.data(), padded(scratch.terms.size()));
  const double pairs = scratch.products.sum(avx2_, scratch.terms);
  return settings_.bias ? bias + linear + pairs : linear + pairs;
}

// Finds weights and factors; those of a feature never learned come from the hash.
void Fm::gather(const Row& row, Scratch& scratch) const {
  scratch.terms.resize(row.size);
  scratch.w.assign(padded(row.size), 0.0f);
  scratch.x.assign(padded(row.size), 0.0f);
  std::size_t missing = 0;
  for (std::size_t i = 0; i < row.size; ++i) {
    const Entry* entry = entries_.find(row.indices[i]);
    const bool known = entry != nullptr && entry->place != 0;
    missing += !known;
    if (known) scratch.w[i] = entry->weight;
    scratch.x[i] = row.values[i];
    scratch.terms[i] = {known ? pool_.at(entry->place) : nullptr, settings_.rank, size_,
                        row.values[i]};
  }
  if (missing == 0) return;
  scratch.initial.assign(missing * size_, 0.0f);
  float* next = scratch.initial.data();
  for (std::size_t i = 0; i < row.size; ++i) {
    if (scratch.terms[i].v != nullptr) continue;
    settings_.start.fill(row.indices[i], 0, settings_.rank, next);
    scratch.terms[i].v = next;
    next += size_;
  }
}

bool Fm::fits(const Row& row, const Scratch& scratch, double slope) const {
  const double gradient = scratch.products.largest_gradient(row, slope);
  const double eta = std::max(settings_.linear.eta, settings_.factors.eta);
  return is_learnable(gradient, settings_.linear.adaptive ? eta : eta * gradient);
}

// Gives every feature of the row a place for its factors.
void Fm::make(const Row& row, Scratch& scratch) {
  for (std::size_t i = 0; i < row.size; ++i) {
    bool moved = false;
    Entry& entry = *entries_.make(row.indices[i], moved);
    if (entry.place != 0) continue;
    entry.place = pool_.add();
    float* record = pool_.at(entry.place);
    std::copy_n(scratch.terms[i].v, size_, record);
    std::fill(record + size_, record + pool_.width(), 0.0f);
    scratch.terms[i].v = record;
  }
}

void Fm::step(const Row& row, Scratch& scratch, double slope) {
  const auto now = static_cast<double>(rows);
  const DescentRule& rule = settings_.linear;
  const auto each = rule.at_row<float>(now);
  const auto factors = settings_.factors.at_row<float>(now);
  const auto common = static_cast<float>(slope);
  for (std::size_t i = 0; i < row.size; ++i) {
    bool moved = false;
    Entry& entry = *entries_.make(row.indices[i], moved);
    const float gradient = common * row.values[i];
    entry.weight = rule.adaptive ? each.adaptive(entry.weight, entry.sum, gradient)
                                 : each.plain(entry.weight, gradient);
    scratch.products.step(avx2_, factors, rule.adaptive, scratch.terms[i], common);
  }
  if (!settings_.bias) return;
  const auto always = rule.bias(now);
  bias = rule.adaptive ? always.adaptive(bias, bias_sum, slope) : always.plain(bias, slope);
}

void Fm::prefetch(const Rows& batch, std::size_t r) const {
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
    if (entry != nullptr && entry->place != 0) fetch(pool_.at(entry->place));
  }
}

FmState Fm::state() const {
  FmState state;
  entries_.each_sorted([&](std::uint32_t feature, const Entry& entry) {
    if (entry.place == 0) return;
    const float* v = pool_.at(entry.place);
    state.features.push_back(feature);
    state.linear.insert(state.linear.end(), {entry.weight, entry.sum});
    state.factors.insert(state.factors.end(), v, v + settings_.rank);
    if (settings_.factors.adaptive) {
      state.sums.insert(state.sums.end(), v + size_, v + size_ + settings_.rank);
    }
  });
  return state;
}

bool Fm::restore(const std::uint32_t* features, const float* linear, const float* factors,
                 const float* sums, std::size_t size) {
  const std::size_t rank = settings_.rank;
  bool moved = false;
  for (std::size_t n = 0; n < size; ++n) {
    if (n > 0 && features[n] <= features[n - 1]) return false;
    Entry& entry = *entries_.make(features[n], moved);
    entry = {linear[2 * n], linear[2 * n + 1], pool_.add()};
    float* record = pool_.at(entry.place);
    std::fill_n(record, pool_.width(), 0.0f);
    std::copy_n(factors + n * rank, rank, record);
    if (settings_.factors.adaptive) std::copy_n(sums + n * rank, rank, record + size_);
  }
  return true;
}

}  // namespace pqr
