// The self-tuning learner as Python sees it.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
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

  // Features, counts, mean squares, exponents, slots; shared slots; pairs and their slots.
  nb::tuple state() const {
    AutoState state;
    {
      nb::gil_scoped_release release;
      state = model_.read([](const Auto& m) { return m.state(); });
    }
    return nb::make_tuple(give(std::move(state.features)), give(std::move(state.counts)),
                          give(std::move(state.squares)), give(std::move(state.exponents)),
                          give(std::move(state.slots), 2 * (experts - 1)),
                          give(std::move(state.shared), 2 * paired), give(std::move(state.pairs)),
                          give(std::move(state.pair_slots), 2 * paired));
  }

  void restore(const In<std::uint32_t>& features, const In<std::uint32_t>& counts,
               const In<float>& squares, const In<std::uint8_t>& exponents, const In2<float>& slots,
               const In2<float>& shared, const In<std::uint32_t>& pairs,
               const In2<float>& pair_slots) {
    check_state("linear", slots);
    check_state("shared", shared);
    check_state("pair", pair_slots);
    for (std::size_t n = 0; n < squares.size(); ++n) {
      if (!(squares.data()[n] > 0.0f && squares.data()[n] <= 1e14f)) {
        refuse("linear: invalid state");
      }
    }
    const AutoState state{copied(features), copied(counts), copied(squares), copied(exponents),
                          copied(slots),    copied(shared), copied(pairs),   copied(pair_slots)};
    if (!model_.change([&](Auto& m) { return m.restore(state); })) {
      refuse("features, pairs and slots do not fit together");
    }
  }

  // High features in the order of rise, and those that wait for the next one.
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
    const bool good = model_.change([&](Auto& m) {
      std::size_t at = 0;
      each_scalar(m, [&](double& scalar) {
        if (at < given.size()) scalar = given[at];
        ++at;
      });
      m.mixture.refresh();
      const Mixture& mixture = m.mixture;
      const bool small = std::all_of(given.begin(), given.end(), [](double scalar) {
        return std::fabs(scalar) <= 1e60 || std::isinf(scalar);  // no label yet: the range is empty
      });
      return small && counts_are_valid(m) && at == given.size() && mixture.largest >= 1.0 &&
             mixture.total >= 0.0 && m.rise.rows >= 0.0 && m.rise.mean_features >= 1.0 &&
             m.rise.mean_low >= 1.0;
    });
    if (!good) refuse("scalars: invalid state");
  }

  std::vector<double> posterior() const {
    const auto shares = model_.read([](const Auto& m) { return m.mixture.posterior(); });
    return {shares.begin(), shares.end()};
  }
  // How much of the answer is stacked.
  double stacked() const {
    return model_.read([](const Auto& m) { return m.mixture.stacked_share(); });
  }
  std::vector<double> losses() const {
    return model_.read([](const Auto& m) {
      return std::vector<double>(m.mixture.all.lost.begin(), m.mixture.all.lost.end());
    });
  }
  std::vector<double> expert_margins(nb::handle x) {
    DictRow dict;
    const Rows row = dict.read(x, *names(), next_feature());
    const auto margins = model_.read([&](const Auto& m) { return m.expert_margins(row[0]); });
    return {margins.begin(), margins.end()};
  }
  double regret() const {
    return model_.read([](const Auto& m) { return m.mixture.regret(); });
  }
  double bound() const {
    return model_.read([](const Auto& m) { return m.mixture.bound(); });
  }
  double bias_weight() const {
    return model_.read([](const Auto& m) { return m.bias_weight(); });
  }
  // Of the features, ranks or pairs of the state, in its order.
  Out<float> weights(const std::string& part) const {
    const auto wanted = part == "linear" ? Auto::Part::linear
                        : part == "pair" ? Auto::Part::pair
                                         : Auto::Part::shared;
    return give(model_.read([&](const Auto& m) { return m.weights(wanted, m.state()); }));
  }
  std::pair<std::size_t, std::size_t> sizes() const {
    return model_.read([](const Auto& m) { return std::make_pair(m.features(), m.pairs()); });
  }

 private:
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
    Stacker::each(mixture.stacker, visit);
    visit(mixture.largest), visit(mixture.total), visit(mixture.low), visit(mixture.high);
    auto& rise = m.rise;
    visit(rise.rows), visit(rise.features), visit(rise.meetings), visit(rise.low_sum);
    visit(rise.refresh_at), visit(rise.mean_features), visit(rise.mean_low);
  }

  // Information is not negative, clicks are no more than rows, and only the range may be infinite.
  static bool counts_are_valid(const Auto& m) {
    bool good = m.settings().loss == Loss::squared || m.bias.z[0] <= m.bias.info[0];
    for (const double info : m.bias.info) good = good && info >= 0.0;
    std::size_t infinite = 0;
    each_scalar(m, [&](const double& scalar) { infinite += std::isinf(scalar); });
    const Mixture& mixture = m.mixture;
    const bool none = mixture.total == 0.0;
    return good && (none ? infinite <= 2 : infinite == 0 && mixture.low <= mixture.high) &&
           (m.settings().loss == Loss::squared || m.bias.z[0] >= 0.0);
  }

  // Half of a slot is z, half is information.
  static void check_state(const std::string& name, const In2<float>& slots) {
    const std::size_t columns = slots.shape(1);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const float value = slots.data()[i];
      if (!(std::fabs(value) <= 1e30f) || (i % columns >= columns / 2 && value < 0.0f)) {
        refuse(name + ": invalid state");
      }
    }
  }
};

}  // namespace pqr::bind
