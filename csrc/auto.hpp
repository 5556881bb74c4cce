// The self-tuning learner: eight experts over one expansion, mixed into one prediction. Features
// start low and rise while it learns, so that nothing is counted beforehand and no order is chosen.
// experts.hpp has the step, mixture.hpp the mixture, rise.hpp which features are high.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "experts.hpp"
#include "mixture.hpp"
#include "pages.hpp"
#include "pairs.hpp"
#include "rise.hpp"
#include "row.hpp"
#include "table.hpp"

namespace pqr {

// A pair starts with a trace of information, so that a slot that was made is never all zeros.
constexpr float made = 1e-30f;
inline bool is_made(const Experts& slot) { return slot.info[0] > 0.0f; }

struct AutoSettings {
  Loss loss;
  std::size_t most_features;  // that have weights of their own
  std::size_t most_pairs;     // that do
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
  explicit Auto(const AutoSettings& settings);

  // Predicts each row, then learns it. Stops before a row whose label or weight is too large;
  // returns how many rows it has learned.
  std::size_t learn(const Rows& batch, double* margins);
  // Returns how many rows have a finite margin, from the first one on. Also gives the margins of
  // the experts, side by side, if wanted.
  std::size_t margin(const Rows& batch, double* margins, double* of_experts = nullptr) const;

  AutoState state() const;
  // The parts fit together. Nothing has been learned, but `rise` is restored.
  void restore(const AutoState& state);

  // lambda / M^2 of Kalman experts in a row of this size: linear, and of pairs, which is to be
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
    bool scaled = false;       // some value was not 1
  };
  struct Known {
    FeatureExperts* slot;
    Seen* seen;
  };
  // What is found of a row ahead of its turn: its features, then which are high, in the order of
  // rise, and the slots of their pairs.
  struct Plan {
    std::vector<Known> known;                  // of number 0 for features that are new, or were
    std::size_t size;                          // how many of its features are high,
    std::uint32_t end;                         // and from which rank on they count as low
    std::vector<std::uint32_t> ranks, places;  // which are high, and where in the row
    std::vector<Experts*> pairs;               // (0, 1), (0, 2), (1, 2), ...
    std::vector<std::uint32_t> found, at;      // the same before they are sorted
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
  static constexpr std::size_t planned = 8;  // rows whose plans are kept
  // What one row needs, kept from row to row for its memory.
  struct Work {
    Plan plans[planned];
    std::vector<Seen*> seen;
    std::vector<NewFeature> new_features;
    std::vector<NewPair> new_pairs;
    Terms linear{kalman8}, pairs{twice(kalman4)}, shared{twice(kalman4)};
    Priors priors;
    std::vector<float> sums;  // what the shared weight of each high feature multiplies
    double low_sum;
    double variances[experts], bias_variances[experts], slopes[experts];
    Mixture::Mixed mixed;

    const Value& value(std::size_t i) const { return linear.values[2 * i]; }
    PQR_ALWAYS_INLINE void take(std::size_t i, const Known& known) {
      linear.slots[2 * i] = &known.slot->linear;
      linear.slots[2 * i + 1] = &known.slot->with_pairs;
      seen[i] = known.seen;
    }
  };
  enum class Next { row, plan_again, stop };  // what was planned may not hold any more

  AutoSettings settings_;
  bool avx2_ = has_avx2();
  Table<std::uint32_t> numbers_;  // of features, by index: in the order in which they came, from 1
  // By number, and they never move. Number 0 is initial, and stands for features that are new. The
  // expert without features has no part in a slot: z is the mean square of the feature's values.
  struct Chunk {
    static constexpr std::size_t size = 65536;  // of which only pages in use have memory
    Stretch<FeatureExperts> slots{size, 0};     // the system must grant them
    Stretch<Seen> seen{size, 0};
    Chunk() {
      if (!slots.data() || !seen.data()) throw std::bad_alloc();
    }
  };
  std::vector<Chunk> chunks_ = std::vector<Chunk>(1);  // the first not in large pages: it may do
  std::size_t known_count_ = 1;
  PairTable<Experts> pairs_{Rise::most, 0, DenseRanks{512, 512}};  // 4 MB at once
  std::size_t pair_count_ = 0;
  std::vector<Experts> shared_;  // by rank

  Known known(std::size_t number) const {
    const Chunk& chunk = chunks_[number / Chunk::size];
    return {chunk.slots.data() + number % Chunk::size, chunk.seen.data() + number % Chunk::size};
  }
  Known find(std::uint32_t feature) const;
  Known add(std::uint32_t feature);
  template <class W>
  inline void look_ahead(W width, const Rows& batch, std::ptrdiff_t first, std::ptrdiff_t r,
                         Work& work) const;
  template <class W>
  inline void plan(W width, const Row& row, Plan& plan) const;
  inline void predict(const Row& row, Plan& plan, Work& work) const;
  inline void gather(const Row& row, const Plan& plan, Work& work) const;
  Known start(std::uint32_t feature, const Seen& seen, Work& work) const;
  void scale(const Row& row, const Plan& plan, Work& work) const;
  inline void gather_pairs(Plan& plan, Work& work) const;
  Experts* find_or_start(const Plan& plan, std::size_t a, std::size_t b, Work& work) const;
  inline void weigh(Work& work) const;
  template <class W, class After>
  inline std::size_t each_row(W width, const Rows& batch, double* margins, After after) const;
  inline void step(Work& work, double label, double weight);
  inline void step_bias(const Work& work, const double* curvatures, double label, double weight);
  inline void count(const Row& row, const Work& work);
  void keep(const Work& work);
  bool let_rise();
};

}  // namespace pqr
