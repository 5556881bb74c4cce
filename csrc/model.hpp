// A linear model over the expansion of a row: PQR, LR (nothing high) and QR
// (everything high, also what arrives later, plus squares).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "coordinates.hpp"
#include "expand.hpp"
#include "frozen.hpp"
#include "kernel.hpp"
#include "loss.hpp"
#include "memory.hpp"
#include "optim.hpp"
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

  // About how many weights it takes to predict a batch, and a copy of all weights, if so many are
  // asked for that making it pays.
  std::size_t weights_asked(const Rows& batch) const;
  std::shared_ptr<const Frozen> freeze(std::size_t asked) const;

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

  // An array for the slots of a model of that order, whose memory is made ready from now on, and
  // the bytes that it soon takes. After the first row, one that comes is left alone.
  using Slots = Stretch<Slot<float>>;
  static Slots ready(std::size_t order) { return Pairs::ready(order, Linear::front_keys + lanes); }
  static std::size_t soon(std::size_t order) { return Pairs::soon(order); }
  void use(Slots& ready) {
    if (linear_.is_new() && pair_.use(ready)) linear_.lie_in(pair_.array());
  }

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

  // A row shortly before its turn: its coordinates, and where those are that never move.
  struct Planned {
    Expansion expansion;
    Coordinates coordinates;

    // Linear slots are asked for long before, slots outside of the array when the row is planned.
    Coming coming() const {
      const Coordinates& c = coordinates;
      const std::size_t first = expansion.row.size / lanes * lanes;
      if (!c.array) return {};
      return {{c.array, c.numbers.data() + first}, c.padded() - first};
    }
  };
  // How many rows ahead rows are planned, to learn or to predict them, and ranks and linear slots
  // fetched; those slots that are packed a little later, once their groups are there; pairs when a
  // row is planned, once the ranks are there. Rows themselves are fetched before all that.
  static constexpr std::size_t planned_ahead = 2, predicted_ahead = 1;
  static constexpr std::size_t features_ahead = 4;
  static constexpr std::size_t packed_later = 1;
  static constexpr std::size_t streams_ahead = 8;
  struct Ahead {
    std::array<Planned, 4> planned;  // by row, as many as are needed and a power of two
    std::array<Linear::Where, 8> where{};
    std::vector<Weighed> weighed;
    double largest = 1;  // that a coordinate of the rows can be, for each feature that a row has

    Planned& row(std::size_t r) { return planned[r % planned.size()]; }
    Weighed* room(const Coordinates& c) {
      const std::size_t size = c.padded() / lanes;
      if (weighed.size() < size) weighed.resize(size);
      return weighed.data();
    }
  };

  struct Make;  // two ways to get at slots: making those that are missing,
  struct Find;  // or reading them as initial

  Settings settings_;
  ExpandRule rule_;
  bool avx2_ = has_avx2();

  std::shared_ptr<const Separation> separation_;
  std::shared_ptr<Separation> growing_;  // the same one in QR, else none
  Pairs pair_;     // (j, j) is the shared slot of rank j, or that of its square
  Linear linear_;  // in the array of pairs, before them, as far as its first features go
  Ahead ahead_;    // while rows are learned, kept for its memory

  // `machine` says whether there is AVX2, or is the Width of a vector where that is known.
  void plan(const Rows& batch, std::size_t r, Planned& planned) const;
  void fill(Planned& planned) const;
  template <class Visit>
  std::size_t each_row(std::size_t rows_ahead, const Rows& batch, Ahead& ahead, Visit visit) const;
  void begin(std::size_t rows_ahead, const Rows& batch, Ahead& ahead) const;
  Coming prepare(std::size_t rows_ahead, const Rows& batch, std::size_t r, Ahead& ahead) const;
  template <class Machine, class Optimizer>
  std::size_t learn_linear(Machine machine, Optimizer& optimizer, const Rows& batch,
                           double* margins);
  template <class Machine, class Optimizer, class Meanwhile>
  bool learn_row(Machine machine, Optimizer& optimizer, Planned& planned, Coming coming,
                 double label, float weight, double& margin, Meanwhile meanwhile);
  template <class Optimizer>
  bool learn_newcomers(Optimizer& optimizer, Planned& planned, double label, float weight,
                       double& margin);
  template <class Machine, class Optimizer>
  double margin_row(Machine machine, const Optimizer& optimizer, Planned& planned,
                    Coming coming) const;
  bool has_all_pairs(const Expansion& e) const {
    return e.high == 0 || pair_.has_all(e.ranks[e.high - 1]);
  }
  template <class Which>
  void collect(Planned& planned, Which slots) const;
  template <class Optimizer>
  void name_blocks(Planned& planned) const;
  template <bool keeps, class Machine, class Optimizer>
  double weigh(Machine machine, const Optimizer& optimizer, const Coordinates& coordinates,
               Coming coming, Weighed* weighed) const;
  template <class Machine, class Optimizer, class Meanwhile>
  bool step(Machine machine, Optimizer& optimizer, const Planned& planned, Coming coming,
            double label, float weight, double margin, Meanwhile meanwhile);
  // Which block the slots of one rank are.
  Block own() const { return settings_.everything_high ? Block::square : Block::shared; }
  bool is_linear() const { return separation_->order() == 0 && !settings_.everything_high; }
  template <class Visit>
  void each_slot(Block block, Visit visit) const;
  template <class Of>
  std::size_t count(Block block, Of of) const;
  void rescale(double factor);
  void prefetch(const Rows& batch, std::size_t r, Ahead& ahead) const;
  double largest_coordinate(const Rows& batch) const;
  bool has_gradient(const Planned& planned, double slope) const;
};

}  // namespace pqr
