// A linear model over the expansion of a row: PQR, LR (nothing high) and QR
// (everything high, also what arrives later, plus squares).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "expand.hpp"
#include "frozen.hpp"
#include "kernel.hpp"
#include "loss.hpp"
#include "optim.hpp"
#include "pairs.hpp"
#include "row.hpp"
#include "separation.hpp"
#include "table.hpp"

namespace pqr {

struct Settings {
  Loss loss;
  bool bias;
  ExpandRule expand;
  bool shares_pairs = false;  // as in Auto, a new pair (i, j) has the shared weight of i; read-only
};

// The slots of one block that have left their initial state, in order of key. Keys are features
// (linear), ranks (shared, square), or i of pairs (i, j) in order of (j, i).
struct BlockState {
  std::vector<std::uint32_t> keys;
  std::vector<float> slots;  // z, root_n of each
};

class Model {
 public:
  // QR has a separation of its own, which grows; others share theirs, and never change it.
  Model(const Settings& settings, const Optimizer& optimizer,
        std::shared_ptr<const Separation> separation);

  // Predicts each row, then learns it. Stops before a row that would leave the
  // range of a float or has too many pairs; returns how many rows it has learned.
  std::size_t learn(const Rows& batch, double* margins);
  // Returns how many rows, from the first one on, have a finite margin and not too many pairs.
  std::size_t margin(const Rows& batch, double* margins) const;
  // Plans row r and locates its slots, whose weights, with that of the bias, make up its margin.
  // False if it has too many pairs.
  bool locate_row(const Rows& batch, std::size_t r, Planned& planned) const;

  // How many pairs a row has, in prediction or in learning, and how many it may have.
  std::size_t pairs_in(const Row& row, bool learns) const;
  std::size_t max_pairs() const { return settings_.expand.max_pairs; }
  void set_max_pairs(std::size_t pairs) { settings_.expand.max_pairs = pairs; }

  // About how many weights it takes to predict a batch, and a copy of all weights if predicting so
  // many pays for it.
  std::size_t weights_in(const Rows& batch) const;
  std::shared_ptr<const Frozen> freeze(std::size_t predicted) const;

  BlockState state(Block block) const;             // of all blocks but pairs
  std::vector<std::uint32_t> pair_counts() const;  // of each rank j
  // Of `size` ranks j from `first` on, as many of each as `counts` has.
  BlockState pairs(std::size_t first, std::size_t size, const std::uint32_t* counts) const;
  // False when keys are out of range or do not rise. The block must be untouched.
  bool restore(Block block, const std::uint32_t* keys, const float* slots, std::size_t size);
  // `counts` has one for every rank; they add up to the number of ranks and of slots.
  bool restore_pairs(const std::uint32_t* counts, const std::uint32_t* ranks, const float* slots);
  // The weights of slots in a block, and slots that have these weights after gradients whose
  // squares add up to n.
  std::vector<float> weights(Block block, const float* slots, std::size_t size) const;
  std::vector<double> slots(Block block, const double* weights, const double* n,
                            std::size_t size) const;
  std::size_t nonzeros(Block block) const;

  Slot<double> bias;
  double bias_weight() const;
  Optimizer optimizer;             // with its global scalars
  std::uint64_t next_feature = 0;  // above every index learned: a new name may take it
  std::uint64_t rows = 0;          // learned so far; a row of weight 0 teaches nothing

  const std::shared_ptr<const Separation>& separation() const { return separation_; }

 private:
  using Linear = Table<Slot<float>>;
  using Pairs = PairTable<Slot<float>>;

  // How many rows ahead of its turn a row goes through the first two stages. Measured: learning is
  // fastest if it plans two rows ahead, predicting one (docs/notes/frozen-weights.md).
  static constexpr std::size_t prefetch_ahead = 4;
  static constexpr std::size_t learn_ahead = 2, predict_ahead = 1;
  // Eight rows earlier the row itself is prefetched, one row later packed slots (decision 8).
  static constexpr std::size_t stream_ahead = prefetch_ahead + 8;
  static constexpr std::size_t packed_ahead = prefetch_ahead - 1;

  struct Ahead {
    std::array<Planned, 4> rows;  // a power of two, and more than are planned at a time
    Planned& operator[](std::size_t r) { return rows[r % rows.size()]; }
  };

  Settings settings_;
  bool avx2_ = has_avx2();

  std::shared_ptr<const Separation> separation_;
  std::shared_ptr<Separation> growing_;  // the same one where everything is high, else none
  Pairs pairs_;    // (j, j) is the shared slot of rank j, or that of its square
  Linear linear_;  // its front lies in the array of pairs, before them
  Ahead ahead_;    // while rows are learned, kept for its memory
  std::vector<Weighed> weighed_;

  // The five stages of a row.
  void prefetch(const Rows& batch, std::size_t r) const;
  Upcoming plan(const Rows& batch, std::size_t r, Planned& planned) const;
  template <class Tables>
  static void locate(Tables& tables, Planned& planned);
  template <bool keeps, std::size_t width, class Optimizer>
  double weigh(const Optimizer& chosen, const Planned& planned, Upcoming upcoming,
               Weighed* weighed) const;
  template <std::size_t width, class Optimizer>
  void step(Optimizer& chosen, const Planned& planned, Upcoming upcoming, double slope);

  template <class Visit>
  std::size_t each_row(std::size_t plan_ahead, const Rows& batch, Ahead& ahead, Visit visit) const;
  template <std::size_t width, class Optimizer, class Next>
  bool learn_row(Optimizer& chosen, Planned& planned, double label, float weight, double& margin,
                 Next next);
  template <std::size_t width, class Optimizer>
  double margin_row(const Optimizer& chosen, Planned& planned, Upcoming upcoming) const;

  void list(Planned& planned) const;
  void append_new_features(Planned& planned);
  void rescale(double factor);
  // The block that (j, j) is in.
  Block own() const { return settings_.expand.all_high ? Block::square : Block::shared; }
  bool is_linear() const { return separation_->order() == 0 && !settings_.expand.all_high; }
  template <class Visit>
  void each_slot(Block block, Visit visit) const;
};

}  // namespace pqr
