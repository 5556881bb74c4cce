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
#include "pages.hpp"
#include "pairs.hpp"
#include "row.hpp"
#include "separation.hpp"
#include "table.hpp"

namespace pqr {

struct Settings {
  Loss loss;
  bool bias;
  bool everything_high;     // QR
  float interaction_scale;  // the factor; 0 leaves interactions as they are
  // A pair without a weight counts by the shared weight of its smaller rank, as in Auto. Only for
  // models that do not learn.
  bool shares_pairs = false;
};

// The slots of one block that have left their initial state, in order of key. Keys are features
// (linear) or ranks (shared, square).
struct BlockState {
  std::vector<std::uint32_t> keys;
  std::vector<float> slots;  // z, root_n of each
};

// The same of pairs (i, j), in order of (j, i): their i.
struct PairState {
  Buffer<std::uint32_t> ranks;
  Buffer<float> slots;
};

// The coordinates of many rows, in the order in which margins add them up, with their weights.
struct RowTerms {
  enum Kind : std::uint8_t { linear, own, pair };  // `own` is a shared one, or a square
  std::vector<std::int64_t> indptr{0};             // those of row r are indptr[r] to indptr[r + 1]
  std::vector<std::uint8_t> kinds;
  std::vector<std::uint32_t> features;  // two of each, the same twice unless it is a pair
  std::vector<float> values, weights;
};

class Model {
 public:
  // QR has a separation of its own, which grows; others share theirs, and never change it.
  Model(const Settings& settings, const Optimizer& optimizer,
        std::shared_ptr<const Separation> separation);

  // Predicts each row, then learns it. Stops before a row that would leave the
  // range of a float; returns how many rows it has learned.
  std::size_t learn(const Rows& batch, double* margins);
  // The same with an optimizer that is not the model's own, but leaves the same slots behind.
  template <class Optimizer>
  std::size_t learn_with(Optimizer& optimizer, const Rows& batch, double* margins);
  // Returns how many rows have a finite margin, from the first one on.
  std::size_t margin(const Rows& batch, double* margins) const;
  // What these margins are the sums of, but for the bias.
  RowTerms terms(const Rows& batch) const;

  // About how many weights it takes to predict a batch, and a copy of all weights if predicting so
  // many pays for it.
  std::size_t weights_in(const Rows& batch) const;
  std::shared_ptr<const Frozen> freeze(std::size_t predicted) const;

  BlockState state(Block block) const;             // of all blocks but pairs
  std::vector<std::uint32_t> pair_counts() const;  // of each rank j
  // Of `size` ranks j from `first` on, as many of each as there were when they were counted.
  PairState pairs(std::size_t first, std::size_t size, const std::uint32_t* counts) const;
  // False when keys are out of range or do not rise. The block must be untouched.
  bool restore(Block block, const std::uint32_t* keys, const float* slots, std::size_t size);
  // `counts` has one for every rank, and they sum up to the ranks and slots there are.
  bool restore_pairs(const std::uint32_t* counts, const std::uint32_t* ranks, const float* slots);
  // The weights of slots in a block, and slots that have these weights after gradients whose
  // squares add up to n. The bias is a block of double precision, by itself.
  std::vector<float> weights(Block block, const float* slots, std::size_t size) const;
  std::vector<float> slots(Block block, const float* weights, const float* n,
                           std::size_t size) const;
  Slot<double> bias_slot(double weight, double n) const;

  std::size_t nonzeros(Block block) const;

  Slot<double> bias;
  double bias_weight() const;
  Optimizer optimizer;             // with its global scalars
  std::uint64_t next_feature = 0;  // above every index learned: a new name may take it
  std::uint64_t rows = 0;          // learned so far; a row of weight 0 teaches nothing

  const Settings& settings() const { return settings_; }
  const std::shared_ptr<const Separation>& separation() const { return separation_; }

 private:
  using Linear = Table<Slot<float>>;
  using Pairs = PairTable<Slot<float>>;

  // How many rows ahead of its turn a row goes through the first two stages. Learning prefers to
  // plan two rows ahead, predicting one; with more, less of them stays in L1 (decision 5).
  static constexpr std::size_t prefetch_ahead = 4;
  static constexpr std::size_t learn_ahead = 2, predict_ahead = 1;
  // Before that, memory has the row itself; after it, what says where packed slots are.
  static constexpr std::size_t stream_ahead = prefetch_ahead + 8;
  static constexpr std::size_t packed_ahead = prefetch_ahead - 1;

  struct Ahead {
    std::array<Planned, 4> rows;  // a power of two, and more than are planned at a time
    Planned& operator[](std::size_t r) { return rows[r % rows.size()]; }
  };

  struct Make;  // two ways to get at slots: making those that are missing,
  struct Find;  // or reading them as initial

  Settings settings_;
  ExpandRule rule_;
  bool avx2_ = has_avx2();

  std::shared_ptr<const Separation> separation_;
  std::shared_ptr<Separation> growing_;  // the same one where everything is high, else none
  Pairs pairs_;    // (j, j) is the shared slot of rank j, or that of its square
  Linear linear_;  // its front lies in the array of pairs, before them
  Ahead ahead_;    // while rows are learned, kept for its memory
  std::vector<Weighed> weighed_;
  double largest_product_ = 1;  // of the batch being learned

  // The five stages of a row.
  void prefetch(const Rows& batch, std::size_t r) const;
  Upcoming plan(const Rows& batch, std::size_t r, Planned& planned) const;
  template <class Which>
  void locate(Planned& planned, Which which) const;
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
  bool is_in_array(const Planned& planned) const;
  double largest_product(const Rows& batch) const;
  bool has_small_gradients(const Planned& planned, double slope) const;
  // The block that (j, j) is in.
  Block own() const { return settings_.everything_high ? Block::square : Block::shared; }
  bool is_linear() const { return separation_->order() == 0 && !settings_.everything_high; }
  template <class Visit>
  void each_slot(Block block, Visit visit) const;
  template <class Of>
  std::size_t count(Block block, Of of) const;
};

}  // namespace pqr
