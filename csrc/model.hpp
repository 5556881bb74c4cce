// A linear model over the expansion of a row: PQR, LR (nothing high) and QR
// (everything high, also what arrives later, plus squares).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "coordinates.hpp"
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
};

enum class Block { linear, pair, shared, square };

// The slots of one block that have left their initial state, in order of key.
// Keys are features (linear), ranks (shared, square), or i, j with i < j (pair).
struct BlockState {
  std::vector<std::uint32_t> keys;
  std::vector<float> slots;  // z, root_n of each
};

class Model {
 public:
  Model(const Settings& settings, const Optimizer& optimizer, Separation separation);

  // Predicts each row, then learns it. Stops before a row that would leave the
  // range of a float; returns how many rows it has learned.
  std::size_t learn(const Rows& batch, double* margins);
  // Returns how many rows have a finite margin, from the first one on.
  std::size_t margin(const Rows& batch, double* margins) const;

  BlockState state(Block block) const;
  // False when keys are out of range or do not rise. The block must be untouched.
  bool restore(Block block, const std::uint32_t* keys, const float* slots, std::size_t size);
  std::vector<float> weights(const float* slots, std::size_t size) const;

  std::size_t nonzeros(Block block) const;

  Slot<double> bias;
  double bias_weight() const;
  Optimizer optimizer;             // with its global scalars
  std::uint64_t next_feature = 0;  // above every index learned: a new name may take it
  std::uint64_t rows = 0;          // learned so far; a row of weight 0 teaches nothing

  const Settings& settings() const { return settings_; }
  const Separation& separation() const { return separation_; }

 private:
  // A row before its turn: its coordinates, and where those are that never move.
  struct Planned {
    Expansion expansion;
    Coordinates coordinates;
    std::vector<std::size_t> open;  // high features whose pairs are not in an array
  };
  static constexpr std::size_t planned_ahead = 2;
  using Ring = std::array<Planned, planned_ahead + 1>;

  struct Make;  // two ways to get at slots: making those that are missing,
  struct Find;  // or reading them as initial

  Settings settings_;
  ExpandRule rule_;
  bool avx2_ = has_avx2();

  Separation separation_;
  Table<Slot<float>> linear_;
  PairTable<Slot<float>> pair_;
  std::vector<Slot<float>> shared_, square_;  // by rank
  Ring ring_;                                 // of the rows being learned, kept for its memory

  void plan(const Row& row, Planned& planned) const;
  template <std::size_t ahead, class Visit>
  std::size_t each_row(const Rows& batch, Ring& ring, Visit visit) const;
  template <class Loss, class Optimizer>
  std::size_t learn_rows(Optimizer& optimizer, const Rows& batch, double* margins);
  template <class Loss, class Optimizer>
  bool learn_row(Optimizer& optimizer, Planned& planned, const Planned& coming, double label,
                 float weight, double& margin);
  template <class Loss, class Optimizer>
  bool learn_newcomers(Optimizer& optimizer, Planned& planned, double label, float weight,
                       double& margin);
  template <class Optimizer>
  std::size_t margin_linear(const Optimizer& optimizer, const Rows& batch, double* margins) const;
  template <class Optimizer>
  double margin_row(const Optimizer& optimizer, Planned& planned, const Planned& coming) const;
  template <class Slots>
  static void collect(Planned& planned, const Planned& coming, Slots slots);
  template <class Optimizer>
  double weigh(const Optimizer& optimizer, Coordinates& coordinates) const;
  template <class Loss, class Optimizer>
  bool step(Optimizer& optimizer, const Expansion& expansion, Coordinates& coordinates,
            double label, float weight, double margin);
  template <class Visit>
  void each_slot(Block block, Visit visit) const;
  template <class Which>
  std::size_t count(Block block, Which which) const;
  void rescale(double factor);
  void prefetch(const Rows& batch, std::size_t r, std::uint32_t& packed) const;
  bool prefetch_features(const Row& row) const;
  void prefetch_packed(const Row& row) const;
};

}  // namespace pqr
