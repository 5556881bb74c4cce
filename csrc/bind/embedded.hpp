// The models with factors as Python sees them.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "../descent.hpp"
#include "../factor_model.hpp"
#include "../factors.hpp"
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
      refuse(name + ": invalid optimizer state");
    }
  }
}

// What both share: the state of the bias, and checks of a state that is restored.
template <class Core>
class NamedFactors : public Named<Core> {
 public:
  using Named<Core>::Named;

  // z and root_n; of FM, the weight and its sum of squared gradients.
  std::pair<double, double> bias() const {
    return this->model_.read([](const Core& m) { return std::make_pair(m.bias.z, m.bias.root_n); });
  }
  void set_bias(std::pair<double, double> slot) {
    this->model_.change([&](Core& m) { m.bias = {slot.first, slot.second}; });
  }
  double bias_weight() const {
    return this->model_.read([](const Core& m) { return m.bias_weight(); });
  }

 protected:
  FactorState take() const {
    return this->model_.read([](const Core& m) { return m.state(); });
  }
  void put(const FactorState& state) {
    check_finite("linear", state.slots, false);
    check_finite("factor", state.factors, false);
    check_finite("factor", state.sums, true);
    for (std::size_t n = 0; n < state.features.size(); ++n) {
      if (state.slots[2 * n + 1] < 0.0f) refuse("linear: invalid optimizer state");
    }
    if (!this->model_.change([&](Core& m) { return m.restore(state); })) {
      refuse("features are out of order, or counts and factors do not fit together");
    }
  }
};

class NamedFm : public NamedFactors<Fm> {
 public:
  // rates: eta, beta, l1 and l2 of the linear weights, then of the factors
  NamedFm(const std::string& loss, bool bias, std::size_t dimension, std::uint64_t seed, float init,
          bool adaptive, bool decays, const std::vector<double>& rates)
      : NamedFactors(loss_named(loss),
                     FactorSettings{loss_named(loss),
                                    bias,
                                    {{1, dimension}},
                                    {seed, init},
                                    descent(adaptive, decays, rates, 4)},
                     FmRule{descent(adaptive, decays, rates, 0)}),
        dimension_(dimension) {}

  // Features; weight and sum of each; factors of each; their sums.
  nb::tuple state() const {
    FactorState state = take();
    return nb::make_tuple(give(std::move(state.features)), give(std::move(state.slots), 2),
                          give(std::move(state.factors), dimension_),
                          give(std::move(state.sums), dimension_));
  }

  void restore(const In<std::uint32_t>& features, const In2<float>& linear,
               const In2<float>& factors, const In2<float>& sums) {
    const std::size_t size = features.size();
    if (linear.shape(0) != size || linear.shape(1) != 2 || factors.shape(1) != dimension_ ||
        sums.shape(1) != dimension_) {
      refuse("features and factors do not fit together");
    }
    put({copied(features), std::vector<std::uint32_t>(size, 1), copied(linear), copied(factors),
         copied(sums)});
  }

 private:
  std::size_t dimension_;

  static DescentRule descent(bool adaptive, bool decays, const std::vector<double>& rates,
                             std::size_t at) {
    if (rates.size() != 8)
      refuse("FM has eight rates: eta, beta, l1 and l2 of linear weights, then of factors");
    return {adaptive, decays, rates[at], rates[at + 1], rates[at + 2], rates[at + 3]};
  }
};

class NamedDifacto : public NamedFactors<Difacto> {
 public:
  // ftrl: alpha, beta, l1, l2; adagrad: eta, beta, l2
  NamedDifacto(const std::string& loss, bool bias,
               const std::vector<std::pair<std::uint32_t, std::size_t>>& tiers, std::uint64_t seed,
               float init, const std::vector<double>& ftrl, const std::vector<double>& adagrad)
      : NamedFactors(
            loss_named(loss),
            FactorSettings{
                loss_named(loss), bias, tiers_of(tiers), {seed, init}, adagrad_of(adagrad)},
            DifactoRule{ftrl_of(ftrl)}) {}

  // Features; counts; slots; all factors one after the other; their sums.
  nb::tuple state() const {
    FactorState state = take();
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
    put({copied(features), copied(counts), copied(slots), copied(factors), copied(sums)});
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
    for (const auto& [count, dimension] : pairs) {
      const bool rises =
          tiers.empty() || (count > tiers.back().count && dimension > tiers.back().dimension);
      if (count == 0 || dimension == 0 || !rises)
        refuse("tiers: counts and dimensions must be above 0 and rise");
      tiers.push_back({count, dimension});
    }
    return tiers;
  }
  static Ftrl ftrl_of(const std::vector<double>& rates) {
    if (rates.size() != 4) refuse("ftrl has four rates: alpha, beta, l1 and l2");
    return Ftrl({rates[0], rates[1], rates[2], rates[3]});
  }
  static DescentRule adagrad_of(const std::vector<double>& rates) {
    if (rates.size() != 3) refuse("adagrad has three rates: eta, beta and l2");
    return {true, false, rates[0], rates[1], 0.0, rates[2]};
  }
};

}  // namespace pqr::bind
