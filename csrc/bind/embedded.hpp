// The models with factors as Python sees them.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "../descent.hpp"
#include "../difacto.hpp"
#include "../factors.hpp"
#include "../fm.hpp"
#include "../optim.hpp"
#include "arrays.hpp"
#include "named.hpp"
#include "rows.hpp"

namespace pqr::bind {

template <class Array>
void check_finite(const std::string& name, const Array& array, bool sums) {
  for (std::size_t i = 0; i < array.size(); ++i) {
    const float value = array.data()[i];
    if (!std::isfinite(value) || (sums && value < 0.0f)) {
      refuse(name + ": not a state that learning can reach");
    }
  }
}

class NamedFm : public Named<Fm> {
 public:
  // rates: eta, beta, l1 and l2 of the linear weights, then of the factors
  NamedFm(const std::string& loss, bool bias, std::size_t rank, std::uint64_t seed, float init,
          bool adaptive, bool decays, const std::vector<double>& rates)
      : Named<Fm>(loss_named(loss), FmSettings{loss_named(loss),
                                               bias,
                                               rank,
                                               {seed, init},
                                               descent(adaptive, decays, rates, 0),
                                               descent(adaptive, decays, rates, 4)}),
        rank_(rank),
        adaptive_(adaptive) {}

  // Its weight and its sum of squared gradients.
  std::pair<double, double> bias() const {
    return model_.read([](const Fm& m) { return std::make_pair(m.bias, m.bias_sum); });
  }
  void set_bias(std::pair<double, double> bias) {
    model_.change([&](Fm& m) { std::tie(m.bias, m.bias_sum) = bias; });
  }

  // Features; weight and sum of each; factors of each; their sums.
  nb::tuple state() const {
    FmState state = model_.read([](const Fm& m) { return m.state(); });
    return nb::make_tuple(give(std::move(state.features)), give(std::move(state.linear), 2),
                          give(std::move(state.factors), rank_),
                          give(std::move(state.sums), rank_));
  }

  void restore(const In<std::uint32_t>& features, const In2<float>& linear,
               const In2<float>& factors, const In2<float>& sums) {
    const std::size_t size = features.size();
    const bool fits = linear.shape(0) == size && linear.shape(1) == 2 && factors.shape(0) == size &&
                      factors.shape(1) == rank_ && sums.shape(0) == (adaptive_ ? size : 0) &&
                      sums.shape(1) == rank_;
    if (!fits) refuse("features and factors do not fit together");
    check_finite("linear", linear, false);
    check_finite("factor", factors, false);
    check_finite("factor", sums, true);
    for (std::size_t n = 0; n < size; ++n) {
      if (linear.data()[2 * n + 1] < 0.0f) refuse("linear: not a state that learning can reach");
    }
    if (!model_.change([&](Fm& m) {
          return m.restore(features.data(), linear.data(), factors.data(), sums.data(), size);
        })) {
      refuse("features are out of order");
    }
  }

 private:
  std::size_t rank_;
  bool adaptive_;

  static DescentRule descent(bool adaptive, bool decays, const std::vector<double>& rates,
                             std::size_t at) {
    if (rates.size() != 8) refuse("a descent has eight rates");
    return {adaptive, decays, rates[at], rates[at + 1], rates[at + 2], rates[at + 3]};
  }
};

class NamedDifacto : public Named<Difacto> {
 public:
  // ftrl: alpha, beta, l1, l2; adagrad: eta, beta, l2
  NamedDifacto(const std::string& loss, bool bias,
               const std::vector<std::pair<std::uint32_t, std::size_t>>& tiers, std::uint64_t seed,
               float init, const std::vector<double>& ftrl, const std::vector<double>& adagrad)
      : Named<Difacto>(loss_named(loss), DifactoSettings{loss_named(loss),
                                                         bias,
                                                         tiers_of(tiers),
                                                         {seed, init},
                                                         ftrl_of(ftrl),
                                                         adagrad_of(adagrad)}) {}

  // z and root_n.
  std::pair<double, double> bias() const {
    return model_.read([](const Difacto& m) { return std::make_pair(m.bias.z, m.bias.root_n); });
  }
  void set_bias(std::pair<double, double> slot) {
    model_.change([&](Difacto& m) { m.bias = {slot.first, slot.second}; });
  }
  double bias_weight() const {
    return model_.read([](const Difacto& m) { return m.bias_weight(); });
  }

  // Features; counts; slots; all factors one after the other; their sums.
  nb::tuple state() const {
    DifactoState state = model_.read([](const Difacto& m) { return m.state(); });
    return nb::make_tuple(give(std::move(state.features)), give(std::move(state.counts)),
                          give(std::move(state.slots), 2), give(std::move(state.factors)),
                          give(std::move(state.sums)));
  }

  void restore(const In<std::uint32_t>& features, const In<std::uint32_t>& counts,
               const In2<float>& slots, const In<float>& factors, const In<float>& sums) {
    const std::size_t size = features.size();
    if (counts.size() != size || slots.shape(0) != size || slots.shape(1) != 2) {
      refuse("features, counts and slots do not fit together");
    }
    check_finite("linear", slots, false);
    check_finite("factor", factors, false);
    check_finite("factor", sums, true);
    for (std::size_t n = 0; n < size; ++n) {
      if (slots.data()[2 * n + 1] < 0.0f) refuse("linear: not a state that learning can reach");
    }
    const DifactoState state{copied(features), copied(counts), copied(slots), copied(factors),
                             copied(sums)};
    if (!model_.change([&](Difacto& m) { return m.restore(state); })) {
      refuse("features are out of order, or counts and factors do not fit together");
    }
  }

  Out<float> weights(const In2<float>& slots) const {
    if (slots.shape(1) != 2) refuse("slots must have two columns");
    return give(
        model_.read([&](const Difacto& m) { return m.weights(slots.data(), slots.shape(0)); }));
  }

 private:
  static std::vector<Tier> tiers_of(
      const std::vector<std::pair<std::uint32_t, std::size_t>>& pairs) {
    std::vector<Tier> tiers;
    for (const auto& [count, rank] : pairs) {
      const bool rises = tiers.empty() || (count > tiers.back().count && rank > tiers.back().rank);
      if (count == 0 || rank == 0 || !rises) refuse("tiers must rise");
      tiers.push_back({count, rank});
    }
    return tiers;
  }
  static Ftrl ftrl_of(const std::vector<double>& rates) {
    if (rates.size() != 4) refuse("ftrl has four rates");
    return Ftrl({rates[0], rates[1], rates[2], rates[3]});
  }
  static DescentRule adagrad_of(const std::vector<double>& rates) {
    if (rates.size() != 3) refuse("adagrad has three rates here");
    return {true, false, rates[0], rates[1], 0.0, rates[2]};
  }
};

}  // namespace pqr::bind
