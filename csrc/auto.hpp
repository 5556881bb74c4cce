// The self-tuning learner: eight experts over one expansion, mixed into one prediction. Features
// start low and rise while it learns, so that nothing is counted beforehand and no order is chosen.
// experts.hpp has the step, mixture.hpp the mixture, rise.hpp which features are high.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "experts.hpp"
#include "mixture.hpp"
#include "pairs.hpp"
#include "rise.hpp"
#include "row.hpp"
#include "table.hpp"

namespace pqr {

struct AutoSettings {
  Loss loss;
  std::size_t most_features;  // that have weights of their own
  std::size_t most_pairs;     // that do
};

// All features that have been learned, in order, and all pairs, in order of (later, earlier).
struct AutoState {
  std::vector<std::uint32_t> features;
  std::vector<std::uint32_t> counts;
  std::vector<float> squares;           // mean, of values in units of 2^exponent
  std::vector<std::uint8_t> exponents;  // plus 128
  std::vector<float> slots;             // z of the seven experts with features, then I
  std::vector<float> shared;            // z of four experts, then I, of each
  std::vector<std::uint32_t> pairs;     // ranks: later << 16 | earlier
  std::vector<float> pair_slots;
};

class Auto {
 public:
  explicit Auto(const AutoSettings& settings);

  // Predicts each row, then learns it. Stops before a row whose label or weight is too large;
  // returns how many rows it has learned.
  std::size_t learn(const Rows& batch, double* margins);
  // Returns how many rows have a finite margin, from the first one on.
  std::size_t margin(const Rows& batch, double* margins) const;

  AutoState state() const;
  // False when the parts do not fit together. Nothing has been learned, but `rise` is restored.
  bool restore(const AutoState& state);
  // One weight for each feature, rank or pair of ranks of the state, as if the experts were one
  // linear model: an approximation.
  enum class Part { linear, shared, pair };
  std::vector<float> weights(Part part, const AutoState& state) const;
  double bias_weight() const;
  std::array<double, experts> expert_margins(const Row& row) const;

  struct BiasSlot {
    double z = 0.0, info = 0.0;
  };
  std::array<BiasSlot, experts> bias{};
  Mixture mixture;
  Rise rise;
  std::uint64_t next_feature = 0;  // above every index learned: a new name may take it
  std::uint64_t rows = 0;          // learned so far; a row of weight 0 teaches nothing

  const AutoSettings& settings() const { return settings_; }
  std::size_t pairs() const { return pair_count_; }
  std::size_t features() const { return features_; }

 private:
  // What is known of a feature beside its slot.
  struct Seen {
    std::uint32_t count = 0;
    std::uint16_t above = 0;   // its rank plus 1, or 0 if it is low
    std::int8_t exponent = 0;  // its values are taken in units of 2^exponent
  };
  // One feature of a row.
  struct Feature {
    const LinearSlot* slot;  // or one that is initial, where it starts anew
    const Seen* seen;
    std::int8_t exponent;
    bool anew, is_new;        // starts from an initial slot; is not in the tables
    float x, scaled, square;  // its value, the same over M, and M^2
    float v[experts];
  };
  // The high features of a row in the order of rise, found ahead of its turn.
  struct Plan {
    std::size_t size;                          // how many of its features are high,
    std::uint32_t last;                        // up to this rank
    std::vector<std::uint32_t> ranks, places;  // which are high, and where in the row
    std::vector<std::uint32_t> found, at, order;
  };
  struct High {
    std::uint32_t rank;
    float x, square, inverse;    // 1 / M
    float sum;                   // of what its shared weight multiplies
    float q[paired], v[paired];  // that weight
  };
  // Of a pair: x_i x_j, the same over M_i M_j, and M_i^2 M_j^2.
  struct Values {
    float x, scaled, square;
  };
  static constexpr std::size_t planned = 4;  // rows whose plans are kept
  // What one row needs, kept from row to row for its memory.
  struct Work {
    Plan plans[planned];
    std::vector<Feature> features;
    std::vector<High> high;
    std::size_t size;                  // how many pairs there are; arrays have one more, of nothing
    std::vector<PairSlot*> slots;      // of pairs, or of `fresh`
    std::vector<std::uint32_t> keys;   // ranks: later << 16 | earlier
    std::vector<Values> values;        // unless all are 1
    std::vector<float> v;              // `paired` each
    std::vector<PairSlot> fresh;       // of pairs that have no slot yet
    std::vector<std::size_t> missing;  // which these are
    PairSlot nothing;
    bool ones;  // every x and M is 1
    bool anew;  // some feature starts anew
    double low_sum;
    float shrink;  // of interactions for FTRL: 1 / sqrt(how many)
    double margins[experts], variances[experts];
  };
  // Prior precisions, refreshed with the means of rise.hpp.
  struct Priors {
    float linear[experts], pair[paired], shared;
  };

  AutoSettings settings_;
  bool avx2_ = has_avx2();
  Table<LinearSlot> linear_;
  Table<Seen> seen_;
  PairTable<PairSlot> pairs_{Rise::most, 0, DenseRanks{0, 0}};
  std::size_t pair_count_ = 0;
  std::vector<PairSlot> shared_;  // by rank
  std::size_t features_ = 0;

  Priors priors(std::size_t size) const;
  template <class W>
  PQR_ALWAYS_INLINE inline void plan(W width, const Row& row, Plan& plan) const;
  void gather(const Row& row, const Plan& plan, const Priors& priors, Work& work) const;
  template <bool ones>
  PQR_ALWAYS_INLINE inline void pair_up(const Plan& plan, const Priors& priors, Work& work) const;
  void weigh(const Priors& priors, Work& work) const;
  template <bool ones>
  PQR_ALWAYS_INLINE inline void weigh_coordinates(const Priors& priors, Work& work) const;
  bool learn_row(const Row& row, const Plan& plan, Work& work, double label, double weight,
                 double& margin);
  double bias_ridge(std::size_t expert) const;
  static void step_bias(BiasSlot& slot, double ridge, bool ftrl, double slope, double curvature,
                        double variance);
  void make(const Row& row, Work& work);
  void step(const Priors& priors, Work& work, const double* links, double label, double weight);
  template <bool ones>
  PQR_ALWAYS_INLINE inline void step_coordinates(const Priors& priors, Work& work,
                                                 const Slopes<Linear8>& slopes);
  void see(const Row& row, const Work& work);
  template <class W>
  PQR_ALWAYS_INLINE inline void replan(W width, const Rows& batch, std::size_t r, Work& work) const;
  template <class W>
  PQR_ALWAYS_INLINE inline void look_ahead(W width, const Rows& batch, std::size_t r,
                                           Work& work) const;
  double bias_margin(std::size_t expert) const;
};

}  // namespace pqr
