// The self-tuning learner as Python sees it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "../auto.hpp"
#include "arrays.hpp"
#include "named.hpp"
#include "rows.hpp"

namespace pqr::bind {

class NamedAuto : public Named<Auto> {
 public:
  NamedAuto(const std::string& loss, std::uint64_t most_features, std::uint64_t most_pairs)
      : Named<Auto>(loss_named(loss), AutoSettings{loss_named(loss), most_features, most_pairs}) {}

  // Features, counts, exponents, slots; shared slots; pairs and their slots. A slot is z of four
  // experts, then I; a feature has two.
  nb::tuple state() const {
    AutoState state;
    {
      nb::gil_scoped_release release;
      state = model_.read([](const Auto& m) { return m.state(); });
    }
    return nb::make_tuple(give(std::move(state.features)), give(std::move(state.counts)),
                          give(std::move(state.exponents)), floats(state.slots),
                          floats(state.shared), give(std::move(state.pairs)),
                          floats(state.pair_slots));
  }

  // After `set_high`. pqrlearn/learners/auto_state.py has checked that the arrays fit together.
  void restore(const In<std::uint32_t>& features, const In<std::uint32_t>& counts,
               const In<std::int8_t>& exponents, const In2<float>& slots, const In2<float>& shared,
               const In<std::uint32_t>& pairs, const In2<float>& pair_slots) {
    const AutoState state{copied(features),
                          copied(counts),
                          copied(exponents),
                          slots_of<FeatureExperts>(slots),
                          slots_of<Experts>(shared),
                          copied(pairs),
                          slots_of<Experts>(pair_slots)};
    model_.change([&](Auto& m) { m.restore(state); });
  }

  // High features in the order of rise, and those that are to rise next.
  nb::tuple high() const {
    auto [high, waiting] =
        model_.read([](const Auto& m) { return std::make_pair(m.rise.high, m.rise.waiting); });
    return nb::make_tuple(give(std::move(high)), give(std::move(waiting)));
  }
  void set_high(const In<std::uint32_t>& high, const In<std::uint32_t>& waiting) {
    model_.change([&](Auto& m) { m.rise.high = copied(high), m.rise.waiting = copied(waiting); });
  }

  // All numbers that are kept in double, one after the other.
  std::vector<double> scalars() const {
    return model_.read([](const Auto& m) {
      std::vector<double> found;
      each_scalar(m, [&](const double& scalar) { found.push_back(scalar); });
      return found;
    });
  }
  void set_scalars(const std::vector<double>& given) {
    model_.change([&](Auto& m) {
      std::size_t at = 0;
      each_scalar(m, [&](double& scalar) { scalar = given.at(at++); });
      m.mixture.refresh();
    });
  }

  std::vector<double> expert_margins(nb::handle x) {
    DictRow dict;
    const Rows row = dict.read(x, *names(), next_feature());
    std::vector<double> margins(experts);
    double margin = 0.0;
    model_.read([&](const Auto& m) { return m.margin(row, &margin, margins.data()); });
    return margins;
  }
  // lambda / M^2 of each expert in a mean row: of linear weights, of pairs and of shared weights.
  std::vector<std::vector<double>> priors() const {
    const Auto::Priors found = model_.read([](const Auto& m) { return m.priors(0); });
    std::vector<std::vector<double>> priors(3);
    for (std::size_t k = 0; k < experts; ++k) priors[0].push_back(double{found.linear[k]});
    for (std::size_t k = 0; k < paired; ++k) {
      priors[1].push_back(double{found.pair[k]});
      priors[2].push_back(double{found.pair[k]} * double{found.low_square});
    }
    return priors;
  }
  std::pair<std::size_t, std::size_t> sizes() const {
    return model_.read([](const Auto& m) { return std::make_pair(m.features(), m.pairs()); });
  }

 private:
  template <class Slots>
  static Out2<float> floats(const std::vector<Slots>& slots) {
    std::vector<float> found(slots.size() * sizeof(Slots) / sizeof(float));
    if (!slots.empty()) std::memcpy(found.data(), slots.data(), slots.size() * sizeof(Slots));
    return give(std::move(found), sizeof(Slots) / sizeof(float));
  }
  template <class Slots>
  static std::vector<Slots> slots_of(const In2<float>& floats) {
    std::vector<Slots> found(floats.size() * sizeof(float) / sizeof(Slots));
    if (!found.empty()) std::memcpy(found.data(), floats.data(), found.size() * sizeof(Slots));
    return found;
  }

  template <class Model, class Visit>
  static void each_scalar(Model& m, Visit visit) {
    const auto many = [&](auto& numbers) {
      for (auto& number : numbers) visit(number);
    };
    for (std::size_t k = 0; k < experts; ++k) visit(m.bias.z[k]), visit(m.bias.info[k]);
    const auto bayes = [&](auto& of) {
      many(of.counted), many(of.lost), visit(of.own), visit(of.excess);
    };
    auto& mixture = m.mixture;
    bayes(mixture.all), bayes(mixture.two);
    for (std::size_t i = 0; i < Stacker::inputs; ++i) visit(mixture.stacker.a[i]);
    for (std::size_t n = 0; n < Stacker::inputs * Stacker::size; ++n) {
      if (n % Stacker::size < Stacker::inputs) visit(mixture.stacker.P[n]);  // the rest is padding
    }
    visit(mixture.largest), visit(mixture.total), visit(mixture.low), visit(mixture.high);
    auto& rise = m.rise;
    visit(rise.rows), visit(rise.features), visit(rise.meetings), visit(rise.low_sum);
    visit(rise.refresh_at), visit(rise.mean_features), visit(rise.mean_low);
  }
};

}  // namespace pqr::bind
