// A linear model over the expansion of a row: PQR, LR (nothing high) and QR
// (everything high, also what arrives later, plus squares).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "expand.hpp"
#include "kernel.hpp"
#include "loss.hpp"
#include "optim.hpp"
#include "row.hpp"
#include "separation.hpp"
#include "table.hpp"

namespace pqr {

struct Settings {
  Loss loss;
  bool bias;
  bool everything_high;     // QR
  float interaction_scale;  // the factor; 0 leaves interactions as they are
  double alpha, beta, l1, l2;
};

enum class Block { linear, pair, shared, square };

// The slots of one block that have left their initial state, in order of key.
// Keys are features (linear), ranks (shared, square), or i, j with i < j (pair).
struct BlockState {
  std::vector<std::uint32_t> keys;
  std::vector<float> slots;  // z, root_n of each
};

// One row's coordinates: where each slot is, and its arithmetic side by side.
class Coordinates {
 public:
  void resize(std::size_t size);  // rounded up to whole lanes; the rest is padding
  std::size_t size() const { return size_; }
  std::size_t padded() const { return padded_; }

  Slot<float>** slots() { return slots_.data(); }
  float* x() { return x_.data(); }
  float* w() { return w_.data(); }
  float* z() { return z_.data(); }
  float* root_n() { return root_n_.data(); }
  void gather();
  void scatter();

 private:
  std::size_t size_ = 0, padded_ = 0;
  std::vector<Slot<float>*> slots_;
  std::vector<float> x_, w_, z_, root_n_;
};

class Model {
 public:
  Model(const Settings& settings, Separation separation);

  // Predicts each row, then learns it. Stops before a row that would leave the
  // range of a float; returns how many rows it has learned.
  std::size_t learn(const Rows& batch, double* margins);
  // Returns how many rows have a finite margin, from the first one on.
  std::size_t margin(const Rows& batch, double* margins) const;

  BlockState state(Block block) const;
  // False when keys are out of range or do not rise. The block must be untouched.
  bool restore(Block block, const std::uint32_t* keys, const float* slots, std::size_t size);
  std::vector<float> weights(const float* slots, std::size_t size) const;

  Slot<double> bias;
  double bias_weight() const { return settings_.bias ? bias_optimizer_.weight(bias) : 0.0; }
  std::uint64_t next_feature = 0;  // above every index learned: a new name may take it
  std::uint64_t rows = 0;          // learned so far; a row of weight 0 teaches nothing

  const Settings& settings() const { return settings_; }
  const Separation& separation() const { return separation_; }

 private:
  Settings settings_;
  ExpandRule rule_;
  Ftrl<float> optimizer_;
  Ftrl<double> bias_optimizer_;
  bool avx2_ = has_avx2();

  Separation separation_;
  Table<Slot<float>> linear_;
  PairTable<Slot<float>> pair_;
  std::vector<Slot<float>> shared_, square_;  // by rank

  template <class Loss>
  std::size_t learn_rows(const Rows& batch, double* margins);
  template <class Loss>
  bool learn_row(const Expansion& expansion, Coordinates& coordinates, double label, float weight,
                 double& margin);
  template <class Loss>
  bool learn_newcomers(Expansion& expansion, Coordinates& coordinates, double label, float weight,
                       double& margin);
  template <class Loss>
  bool step(const Expansion& expansion, Coordinates& coordinates, double label, float weight,
            double margin);
  double margin_row(const Expansion& expansion, Coordinates& coordinates) const;
  double weigh(Coordinates& coordinates) const;
  void collect(const Expansion& expansion, Coordinates& coordinates);
  void look_up(const Expansion& expansion, Coordinates& coordinates) const;
  void prefetch_features(const Row& row) const;
  void prefetch_pairs(const Expansion& expansion) const;
};

}  // namespace pqr
