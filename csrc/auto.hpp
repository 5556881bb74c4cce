// The self-tuning learner: eight experts over one expansion, mixed into one prediction. Features
// start low and rise while it learns, so that nothing is counted beforehand and no order is chosen.
// experts.hpp has the step, mixture.hpp the mixture.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "experts.hpp"
#include "mixture.hpp"
#include "pages.hpp"
#include "pairs.hpp"
#include "row.hpp"
#include "table.hpp"

namespace pqr {

// A pair starts with a trace of information, so that a slot that was made is never all zeros.
constexpr float made = 1e-30f;  // lost in rounding when lambda is added
inline bool is_made(const Experts& slot) { return slot.info[0] > 0.0f; }

struct AutoSettings {
  Loss loss;
  std::size_t most_features;  // that have weights of their own
  std::size_t most_pairs;     // that do
};

// Which features are high, in the order of rise, and what rows look like. A low feature that has
// been in `enough` rows rises when the number of rows is next a multiple of `every`, as long as
// fewer than `budget` pairs have slots. So rows can be cut anywhere, and rows planned ahead mostly
// stay valid. At the same moments the mean number of features per row and the mean sum of low ones
// are refreshed, if the number of rows has reached the next power of two.
struct Rise {
  static constexpr std::uint32_t low = 0xFFFFFFFFu;
  static constexpr std::uint32_t enough = 3;    // rows; it and the budget are measured
  static constexpr std::size_t budget = 65536;  // pairs (docs/notes/auto-prototype.md)
  static constexpr std::size_t most = 65535;    // ranks: two of them make a key of 32 bits
  static constexpr std::uint64_t every = 64;    // rows: planning again then costs little

  std::vector<std::uint32_t> high;       // features by rank
  std::vector<std::uint32_t> waiting;    // features that are to rise
  double rows = 0.0, features = 0.0;     // rows learned, and the features of all of them
  double meetings = 0.0, low_sum = 0.0;  // rows where high meet low, and the sums of the low ones
  double refresh_at = 1.0;               // rows
  double mean_features = 1.0, mean_low = 1.0;

  double features_for(std::size_t size) const {  // n
    return rows > 0.0 ? mean_features : std::max(1.0, static_cast<double>(size));
  }

  // Counts a row. Returns whether features may rise now; `sum` is that of its low features, 0 where
  // no high feature meets them.
  bool see(std::size_t size, double sum) {
    mean_features = features_for(size);
    rows += 1.0;
    features += static_cast<double>(size);
    meetings += sum != 0.0;
    low_sum += std::fabs(sum);
    if (static_cast<std::uint64_t>(rows) % every != 0) return false;
    if (rows >= refresh_at) {
      mean_features = std::max(1.0, features / rows);
      mean_low = std::max(1.0, meetings > 0.0 ? low_sum / meetings : 1.0);
      while (refresh_at <= rows) refresh_at *= 2.0;
    }
    return true;
  }

  // The features that rise, by index, given how many pairs there are.
  std::vector<std::uint32_t> next(std::size_t pairs) {
    std::vector<std::uint32_t> rising = std::exchange(waiting, {});
    std::sort(rising.begin(), rising.end());
    rising.erase(std::unique(rising.begin(), rising.end()), rising.end());
    if (pairs >= budget) rising.clear();
    rising.resize(std::min(rising.size(), most - high.size()));
    high.insert(high.end(), rising.begin(), rising.end());
    return rising;
  }
};

// All features that have been learned, in order, and all pairs, in order of (later, earlier).
struct AutoState {
  std::vector<std::uint32_t> features, counts;
  std::vector<std::int8_t> exponents;
  std::vector<FeatureExperts> slots;
  std::vector<Experts> shared;       // by rank
  std::vector<std::uint32_t> pairs;  // ranks: later << 16 | earlier
  std::vector<Experts> pair_slots;
};

class Auto {
 public:
  static constexpr std::uint32_t most_high = 512;  // of a row: 4 MB of pairs; later ones count low
  explicit Auto(const AutoSettings& settings) : mixture(settings.loss), settings_(settings) {}

  // Predicts each row, then learns it. Stops before a row whose label or weight is too large;
  // returns how many rows it has learned.
  std::size_t learn(const Rows& batch, double* margins);
  // Returns how many rows have a finite margin, from the first one on. Also gives the margins of
  // the experts, side by side, if wanted.
  std::size_t margin(const Rows& batch, double* margins, double* of_experts = nullptr) const;

  AutoState state() const;
  // The arrays fit together. Nothing has been learned, but `rise` is restored.
  void restore(const AutoState& state);

  // lambda / M^2 of Kalman experts in a row of this size: of linear weights, and of pairs, to be
  // multiplied by s^2 for shared weights.
  struct Priors {
    Eight linear;
    Quad pair;
    float low_square;
  };
  PQR_ALWAYS_INLINE Priors priors(std::size_t size) const {
    const double n = rise.features_for(size), pairs = std::max(1.0, n * (n - 1.0) / 2.0);
    const auto low = static_cast<float>(rise.mean_low);
    return {kalman8 * (static_cast<float>(n) / linear_tau),
            kalman4 * (static_cast<float>(pairs) / pair_tau), low * low};
  }

  // The bias of each expert. The first counts clicks (z) and rows (info) for the log loss.
  struct {
    std::array<double, experts> z{}, info{};
  } bias;
  Mixture mixture;
  Rise rise;
  std::uint64_t next_feature = 0;  // above every index learned: a new name may take it
  std::uint64_t rows = 0;          // learned so far; a row of weight 0 teaches nothing

  std::size_t pairs() const { return pair_count_; }
  std::size_t features() const { return known_count_ - 1; }

 private:
  // What is known of a feature beside its slot.
  struct Seen {
    std::uint32_t count = 0;
    std::uint16_t above = 0;   // its rank plus 1, or 0 if it is low
    std::int8_t exponent = 0;  // its values are taken in units of 2^exponent
  };
  struct Known {
    FeatureExperts* slot;
    Seen* seen;
  };
  // What is known of a row ahead of its turn: its features, then which are high, in the order of
  // rise, and the slots of their pairs.
  struct Plan {
    std::vector<Known> known;                  // number 0 for features that were new then
    std::size_t size;                          // how many of its features are high,
    std::uint32_t end;                         // and from which rank on they count as low
    std::vector<std::uint32_t> ranks, places;  // of the high ones, and their places in the row
    std::vector<Experts*> pairs;               // (0, 1), (0, 2), (1, 2), ...
    std::vector<std::uint32_t> found, at;      // ranks and places before they are sorted
  };
  // What is new in a row.
  struct NewFeature {
    std::uint32_t feature;
    Seen seen;
    FeatureExperts slot;
  };
  struct NewPair {
    std::uint32_t earlier, later;  // ranks
    Experts slot;
  };
  static constexpr std::size_t plans_kept = 8;  // rows: a power of two, more than are under way
  // What one row needs, kept from row to row for its memory.
  struct Work {
    Plan plans[plans_kept];
    std::vector<NewFeature> new_features;
    std::vector<NewPair> new_pairs;
    RowBlock linear{kalman8}, pairs{twice(kalman4)}, shared{twice(kalman4)};
    Priors priors;
    std::vector<float> sums;  // what the shared weight of each high feature multiplies
    double low_sum;
    double variances[experts], bias_variances[experts], slopes[experts];
    Mixture::Mixed mixed;

    const Value& value(std::size_t i) const { return linear.values[2 * i]; }
    PQR_ALWAYS_INLINE void take(std::size_t i, const Known& known) {
      linear.slots[2 * i] = &known.slot->linear;
      linear.slots[2 * i + 1] = &known.slot->with_pairs;
    }
  };
  AutoSettings settings_;
  bool avx2_ = has_avx2();
  Table<std::uint32_t> numbers_;  // of features, by index: in the order in which they came, from 1
  // By number, and they never move. Number 0 is initial, and stands for features that are new. The
  // expert without features needs no z: in its place is the mean square of the feature's values.
  struct Chunk {
    static constexpr std::size_t size = 65536;  // 4 MB of slots; only pages in use have memory
    Stretch<FeatureExperts> slots{size, 0};
    Stretch<Seen> seen{size, 0};
  };
  std::vector<Chunk> chunks_ = std::vector<Chunk>(1);  // the first in small pages: it may suffice
  std::size_t known_count_ = 1;
  PairTable<Experts> pairs_{Rise::most, 0, DenseRanks{most_high, most_high}};  // 4 MB at once
  std::size_t pair_count_ = 0;
  std::vector<Experts> shared_;  // by rank

  Known known(std::size_t number) const {
    const Chunk& chunk = chunks_[number / Chunk::size];
    return {chunk.slots.data() + number % Chunk::size, chunk.seen.data() + number % Chunk::size};
  }
  Known find(std::uint32_t feature) const;
  Known add(std::uint32_t feature);
  inline void look_ahead(const Rows& batch, std::ptrdiff_t first, std::ptrdiff_t r,
                         Work& work) const;
  inline void plan(const Row& row, Plan& plan) const;
  inline void predict(const Row& row, Plan& plan, Work& work) const;
  inline void gather(const Row& row, Plan& plan, Work& work) const;
  Known start(std::uint32_t feature, const Seen& seen, Work& work) const;
  void scale(const Row& row, Plan& plan, Work& work) const;
  inline void gather_pairs(Plan& plan, Work& work) const;
  Experts* find_or_start(const Plan& plan, std::size_t a, std::size_t b, Work& work) const;
  inline void weigh(Work& work) const;
  template <class After>
  inline std::size_t each_row(const Rows& batch, double* margins, After after) const;
  inline void step(Work& work, double label, double weight);
  inline void step_bias(const Work& work, const double* curvatures, double label, double weight);
  inline void count(const Row& row, const Plan& plan, const Work& work);
  void keep(const Work& work);
  void let_rise();
};

}  // namespace pqr
