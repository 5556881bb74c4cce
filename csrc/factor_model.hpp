// What FM and DiFacto share: a model with factors, and the loop that learns it. A Rule says how
// linear weights learn, as at<Real>(block, rows) with weight() and step() over a slot; whether a
// feature has its factors_at_once, or by its count and while its weight is not zero; and eta(), the
// largest step of a linear weight for a gradient of 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "descent.hpp"
#include "factors.hpp"
#include "lanes.hpp"
#include "loss.hpp"
#include "optim.hpp"
#include "row.hpp"
#include "table.hpp"

namespace pqr {

// Features learned in `count` rows or more have `dimension` factors.
struct Tier {
  std::uint32_t count;
  std::size_t dimension;
};

struct FactorSettings {
  Loss loss;
  bool bias;
  std::vector<Tier> tiers;  // counts and dimensions both rise
  Start start;
  DescentRule factors;
};

// All features that have been learned, in order. How many factors each of them has follows from its
// count.
struct FactorState {
  std::vector<std::uint32_t> features;
  std::vector<std::uint32_t> counts;
  std::vector<float> slots;    // z, root_n of each
  std::vector<float> factors;  // of all features, one after the other
  std::vector<float> sums;     // of their squared gradients, with AdaGrad
};

template <class Rule>
class FactorModel {
 public:
  FactorModel(FactorSettings settings, const Rule& rule)
      : settings_(std::move(settings)), rule_(rule) {}

  // Predicts each row, then learns it. Stops before a row that would leave the
  // range of a float; returns how many rows it has learned.
  std::size_t learn(const Rows& batch, double* margins);
  // Returns how many rows have a finite margin, from the first one on.
  std::size_t margin(const Rows& batch, double* margins) const;

  FactorState state() const;
  // False when features do not rise, a count is 0, or counts and factors do not fit together. The
  // model must be untouched.
  bool restore(const FactorState& state);
  std::vector<float> weights(const float* slots, std::size_t size) const;

  Slot<double> bias;
  double bias_weight() const;
  std::uint64_t next_feature = 0;  // above every index learned: a new name may take it
  std::uint64_t rows = 0;          // learned so far; a row of weight 0 teaches nothing

 private:
  struct Entry {
    Slot<float> slot;
    float* factors = nullptr;  // with AdaGrad their sums behind them; null below the first tier
    std::uint32_t count = 0;   // of rows learned
  };
  // What one row needs, kept from row to row for its memory.
  struct Scratch {
    std::vector<float> w, x;
    std::vector<Factored> features;  // whose factors take part
    std::vector<float> initial;      // factors of features that are not learned yet
    Products products;
  };

  FactorSettings settings_;
  Rule rule_;
  bool avx2_ = has_avx2();
  Table<Entry> entries_;
  Arena factors_;

  void prefetch(const Rows& batch, std::size_t r) const;
  bool learn_row(const Row& row, Scratch& scratch, double label, float weight, double& margin);
  double margin_row(const Row& row, Scratch& scratch) const;
  void fill_initial(const Row& row, Scratch& scratch) const;
  void step(const Row& row, Scratch& scratch, double slope);
  void count(std::uint32_t feature, Entry& entry);
  void lengthen(std::uint32_t feature, Entry& entry, std::size_t from, std::size_t to);
  // How many tiers a count has reached; the last of them gives the dimension.
  std::size_t reached(std::uint32_t count) const {
    if (Rule::factors_at_once) return count > 0;
    std::size_t tiers = 0;
    while (tiers < settings_.tiers.size() && count >= settings_.tiers[tiers].count) ++tiers;
    return tiers;
  }
  std::size_t dimension(std::size_t reached) const {
    return reached == 0 ? 0 : settings_.tiers[reached - 1].dimension;
  }
  // Zeroed, for the factors of a tier.
  float* add_factors(std::size_t tiers) {
    return factors_.add(padded(dimension(tiers)) * (settings_.factors.adaptive ? 2 : 1));
  }
};

// The factorization machine (Rendle):
//   margin = b + sum of w_i x_i + sum over i < j of <v_i, v_j> x_i x_j
// learned by gradient descent, every coordinate of a row with a step of its own. A feature never
// learned has its initial factors and no linear weight.
struct FmRule {
  static constexpr bool factors_at_once = true;
  DescentRule linear;  // also of the bias

  // Of a slot z is the weight, and root_n the sum of squared gradients.
  template <class Real>
  struct OfSlot {
    Descent<Real> descent;
    bool adaptive;

    Real weight(Slot<Real> slot) const { return slot.z; }
    Slot<Real> step(Slot<Real> slot, Real weight, Real gradient) const {
      Real sum = slot.root_n;
      const Real z = adaptive ? descent.adaptive(weight, sum, gradient)  // adds to the sum
                              : descent.plain(weight, gradient);
      return {z, sum};
    }
  };

  template <class Real>
  OfSlot<Real> at(Block block, double rows) const {
    Descent<Real> descent = linear.at_row<Real>(rows);
    if (block == Block::bias) descent.l1 = 0;  // l1 never applies to it
    return {descent, linear.adaptive};
  }
  double eta() const { return linear.eta; }
};

using Fm = FactorModel<FmRule>;

// DiFacto (Li et al.): a factorization machine whose memory follows frequency.
//   margin = b + sum of w_i x_i + sum over i < j of <v_i, v_j> x_i x_j
// Linear weights learn by FTRL-Proximal, factors by AdaGrad. How many factors a feature has grows
// with the number of rows it was learned in; a product ends with the shorter vector; and factors
// take part only while w_i is not zero. A feature never learned weighs nothing.
struct DifactoRule {
  static constexpr bool factors_at_once = false;
  Ftrl linear;  // also of the bias

  template <class Real>
  Proximal<Real> at(Block block, double) const {
    return linear.at<Real>(block);
  }
  double eta() const { return 0.0; }  // its steps are bounded
};

using Difacto = FactorModel<DifactoRule>;

}  // namespace pqr
