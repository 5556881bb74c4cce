// A linear model over the expansion of a row: PQR, LR (nothing high) and QR
// (everything high, also what arrives later, plus squares).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
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

enum class Block { linear, pair, shared, square };

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
  Model(const Settings& settings, const Optimizer& optimizer, Separation separation);

  // Predicts each row, then learns it. Stops before a row that would leave the
  // range of a float; returns how many rows it has learned.
  std::size_t learn(const Rows& batch, double* margins);
  // Returns how many rows have a finite margin, from the first one on.
  std::size_t margin(const Rows& batch, double* margins) const;

  // The weights, if so many coordinates are to be predicted that copying them pays.
  std::optional<Frozen> freeze(const Rows& batch) const;

  BlockState state(Block block) const;             // of all blocks but pairs
  std::vector<std::uint32_t> pair_counts() const;  // of each rank j
  // Of `size` ranks j from `first` on, as many of each as there were when they were counted.
  PairState pairs(std::size_t first, std::size_t size, const std::uint32_t* counts) const;
  // False when keys are out of range or do not rise. The block must be untouched.
  bool restore(Block block, const std::uint32_t* keys, const float* slots, std::size_t size);
  // `counts` has one for every rank, and they sum up to the ranks and slots there are.
  bool restore_pairs(const std::uint32_t* counts, const std::uint32_t* ranks, const float* slots);
  std::vector<float> weights(const float* slots, std::size_t size) const;

  std::size_t nonzeros(Block block) const;

  // The bytes that the pairs of many rows soon take, and an arena that was made ready for them.
  // One that comes too late is left alone.
  static std::size_t soon(std::size_t order) { return PairTable<Slot<float>>::soon(order); }
  void use(Arena& ready) { pair_.use(ready); }

  Slot<double> bias;
  double bias_weight() const;
  Optimizer optimizer;             // with its global scalars
  std::uint64_t next_feature = 0;  // above every index learned: a new name may take it
  std::uint64_t rows = 0;          // learned so far; a row of weight 0 teaches nothing

  const Settings& settings() const { return settings_; }
  const Separation& separation() const { return separation_; }

 private:
  using Linear = Table<Slot<float>>;

  // A row long before its turn: its linear coordinates, and their places if all lie in arrays,
  // which never move. Values that were just written in small pieces could not be read as vectors at
  // once.
  struct Fetched {
    Linear::Where where = Linear::Where::other;
    Coordinates coordinates;
  };
  // A row shortly before its turn: its coordinates, and where those are that never move.
  struct Planned {
    Expansion expansion;
    Coordinates coordinates;
    bool linear_open;                     // its linear slots are not all in arrays
    std::vector<std::size_t> open;        // high features whose pairs are not in an array
    std::vector<std::uintptr_t> offsets;  // of high features in arrays by rank

    // Linear slots have been asked for long before.
    Coming coming() const {
      const std::size_t first = expansion.row.size / lanes * lanes;
      return {coordinates.places.data() + first, coordinates.padded() - first};
    }
  };
  // How many rows ahead rows are planned, and ranks and linear slots fetched; those slots that are
  // packed, once their groups are there; pairs when a row is planned, once the ranks are there.
  // Rows themselves are fetched before all that.
  static constexpr std::size_t planned_ahead = 1;
  static constexpr std::size_t features_ahead = 3;
  static constexpr std::size_t packed_ahead = 2;
  static constexpr std::size_t streams_ahead = 8;
  struct Ahead {
    std::array<Planned, planned_ahead + 1> planned;
    std::array<Fetched, features_ahead + 2> fetched;  // also while the first of them is learned
  };

  struct Make;  // two ways to get at slots: making those that are missing,
  struct Find;  // or reading them as initial

  Settings settings_;
  ExpandRule rule_;
  bool avx2_ = has_avx2();

  Separation separation_;
  Linear linear_;
  PairTable<Slot<float>> pair_;
  std::vector<Slot<float>> shared_, square_;  // by rank
  Ahead ahead_;                               // while rows are learned, kept for its memory

  // `machine` says whether there is AVX2, or is the Width of a vector where that is known.
  template <class Machine>
  void plan(Machine machine, const Rows& batch, std::size_t r, const Fetched& fetched,
            Planned& planned) const;
  template <class Machine>
  void fill_places(Machine machine, const Fetched& fetched, Planned& planned) const;
  void fill_all(const Fetched& fetched, Planned& planned) const;
  template <std::size_t rows_ahead, class Machine, class Visit>
  std::size_t each_row(Machine machine, const Rows& batch, Ahead& ahead, Visit visit) const;
  template <class Loss, class Optimizer>
  std::size_t learn_rows(Optimizer& optimizer, const Rows& batch, double* margins);
  template <class Loss, class Machine, class Optimizer>
  std::size_t learn_linear(Machine machine, Optimizer& optimizer, const Rows& batch,
                           double* margins);
  template <class Loss, class Machine, class Optimizer, class Collect, class Meanwhile>
  bool learn_row(Machine machine, Optimizer& optimizer, const Row& row, Coordinates& coordinates,
                 Coming coming, double label, float weight, double& margin, Collect collect,
                 Meanwhile meanwhile);
  template <class Loss, class Optimizer>
  bool learn_newcomers(Optimizer& optimizer, Planned& planned, double label, float weight,
                       double& margin);
  template <class Machine, class Optimizer>
  std::size_t margin_linear(Machine machine, const Optimizer& optimizer, const Rows& batch,
                            double* margins) const;
  template <class Machine, class Optimizer>
  double margin_row(Machine machine, const Optimizer& optimizer, Planned& planned,
                    const Planned& coming) const;
  template <class Slots>
  static void find_linear(const Row& row, Coordinates& coordinates, Slots slots);
  template <class Slots>
  static void collect_linear(const Row& row, Fetched& fetched, Slots slots);
  template <class Slots>
  static void collect(Planned& planned, Slots slots);
  template <bool keeps, class Machine, class Optimizer>
  double weigh(Machine machine, const Optimizer& optimizer, Coordinates& coordinates,
               Coming coming) const;
  template <class Loss, class Machine, class Optimizer, class Meanwhile>
  bool step(Machine machine, Optimizer& optimizer, const Row& row, Coordinates& coordinates,
            Coming coming, double label, float weight, double margin, Meanwhile meanwhile);
  bool is_linear() const { return separation_.order() == 0 && !settings_.everything_high; }
  template <class Visit>
  void each_slot(Block block, Visit visit) const;
  template <class Of>
  std::size_t count(Block block, Of of) const;
  void rescale(double factor);
  void prefetch(const Rows& batch, std::size_t r, std::size_t& done, Ahead& ahead) const;
  void prefetch_packed(const Row& row) const;
};

}  // namespace pqr
