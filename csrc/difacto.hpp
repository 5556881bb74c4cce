// DiFacto (Li et al.): a factorization machine whose memory follows frequency.
//   margin = b + sum of w_i x_i + sum over i < j of <v_i, v_j> x_i x_j
// Linear weights learn by FTRL-Proximal, factors by AdaGrad. The rank of a feature
// grows with the number of rows it was learned in; a product of two ranks ends with
// the smaller one; and factors take part only while w_i is not zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "coordinates.hpp"
#include "descent.hpp"
#include "factors.hpp"
#include "kernel.hpp"
#include "loss.hpp"
#include "optim.hpp"
#include "row.hpp"
#include "table.hpp"

namespace pqr {

// Features learned in `count` rows or more have `rank` factors.
struct Tier {
  std::uint32_t count;
  std::size_t rank;
};

struct DifactoSettings {
  Loss loss;
  bool bias;
  std::vector<Tier> tiers;  // counts and ranks both rise
  Start start;
  Ftrl linear;  // also of the bias
  DescentRule factors;
};

// All features that have been learned, in order. How many factors each of them has
// follows from its count.
struct DifactoState {
  std::vector<std::uint32_t> features;
  std::vector<std::uint32_t> counts;
  std::vector<float> slots;    // z, root_n of each
  std::vector<float> factors;  // of all features, one after the other
  std::vector<float> sums;     // of their squared gradients
};

class Difacto {
 public:
  explicit Difacto(const DifactoSettings& settings);

  // Predicts each row, then learns it. Stops before a row that would leave the
  // range of a float; returns how many rows it has learned.
  std::size_t learn(const Rows& batch, double* margins);
  // Returns how many rows have a finite margin, from the first one on.
  std::size_t margin(const Rows& batch, double* margins) const;

  DifactoState state() const;
  // False when features do not rise, a count is 0, or the counts ask for another
  // number of factors than `total`. The model must be untouched.
  bool restore(const DifactoState& state);
  std::vector<float> weights(const float* slots, std::size_t size) const;
  std::size_t rank(std::uint32_t count) const;

  Slot<double> bias;
  double bias_weight() const;
  std::uint64_t next_feature = 0;  // above every index learned: a new name may take it
  std::uint64_t rows = 0;          // learned so far; a row of weight 0 teaches nothing

 private:
  struct Entry {
    Slot<float> slot;
    std::uint32_t count = 0;  // of rows learned
    std::uint32_t place = 0;  // of its factors, in the pool of its tier
  };
  // What one row needs, kept from row to row for its memory.
  struct Scratch {
    Coordinates linear;
    std::vector<Weighed> weighed;
    std::vector<Entry*> entries;
    std::vector<Term> terms;  // of the features whose factors take part
    Products products;
  };

  DifactoSettings settings_;
  bool avx2_ = has_avx2();
  Table<Entry> entries_;
  std::vector<Pool> pools_;  // one for each tier

  bool learn_row(const Row& row, Scratch& scratch, double label, float weight, double& margin);
  double margin_row(const Row& row, Scratch& scratch) const;
  void gather(const Row& row, Coordinates& linear) const;
  void step(const Row& row, Scratch& scratch, double slope);
  void count(std::uint32_t feature, Entry& entry);
  // How many tiers a count has reached; the last of them gives the rank.
  std::size_t reached(std::uint32_t count) const;
  float* factors(const Entry& entry) const;
  void prefetch(const Rows& batch, std::size_t row) const;
};

}  // namespace pqr
