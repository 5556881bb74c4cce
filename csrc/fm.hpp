// The factorization machine (Rendle):
//   margin = b + sum of w_i x_i + sum over i < j of <v_i, v_j> x_i x_j
// learned by gradient descent, every coordinate of a row with a step of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "descent.hpp"
#include "factors.hpp"
#include "lanes.hpp"
#include "loss.hpp"
#include "row.hpp"
#include "table.hpp"

namespace pqr {

struct FmSettings {
  Loss loss;
  bool bias;
  std::size_t rank;
  Start start;
  DescentRule linear;   // also of the bias
  DescentRule factors;  // adaptive and decaying as the other
};

// All features that have been learned, in order; sums are empty without AdaGrad.
struct FmState {
  std::vector<std::uint32_t> features;
  std::vector<float> linear;   // weight and sum of squared gradients of each
  std::vector<float> factors;  // rank of each
  std::vector<float> sums;     // of the factors
};

class Fm {
 public:
  explicit Fm(const FmSettings& settings);

  // Predicts each row, then learns it. Stops before a row that would leave the
  // range of a float; returns how many rows it has learned.
  std::size_t learn(const Rows& batch, double* margins);
  // Returns how many rows have a finite margin, from the first one on. A feature
  // never learned has its initial factors and no linear weight.
  std::size_t margin(const Rows& batch, double* margins) const;

  FmState state() const;
  // False when features do not rise. The model must be untouched.
  bool restore(const std::uint32_t* features, const float* linear, const float* factors,
               const float* sums, std::size_t size);

  double bias = 0.0;
  double bias_sum = 0.0;           // of squared gradients
  std::uint64_t next_feature = 0;  // above every index learned: a new name may take it
  std::uint64_t rows = 0;          // learned so far; a row of weight 0 teaches nothing

  const FmSettings& settings() const { return settings_; }

 private:
  struct Entry {
    float weight = 0.0f;
    float sum = 0.0f;
    std::uint32_t place = 0;  // of its factors; 0 before it is learned
  };
  // What one row needs, kept from row to row for its memory.
  struct Scratch {
    std::vector<Term> terms;
    std::vector<float> w, x;
    std::vector<float> initial;  // factors of features that are not learned yet
    Products products;
  };

  FmSettings settings_;
  bool avx2_ = has_avx2();
  std::size_t size_;  // the rank, padded
  Table<Entry> entries_;
  Pool pool_;

  bool learn_row(const Row& row, Scratch& scratch, double label, float weight, double& margin);
  double margin_row(const Row& row, Scratch& scratch) const;
  void gather(const Row& row, Scratch& scratch) const;
  bool fits(const Row& row, const Scratch& scratch, double slope) const;
  void make(const Row& row, Scratch& scratch);
  void step(const Row& row, Scratch& scratch, double slope);
  void prefetch(const Rows& batch, std::size_t row) const;
};

}  // namespace pqr
