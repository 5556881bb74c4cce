// PQR, LR and QR as Python sees them.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "../model.hpp"
#include "../separation.hpp"
#include "arrays.hpp"
#include "messages.hpp"
#include "named.hpp"
#include "rows.hpp"
#include "terms.hpp"

namespace pqr::bind {

using Rates = std::map<std::string, double>;

// The rates that an optimizer declares, in its order.
template <class Chosen>
Chosen with_rates(const Rates& given) {
  std::array<double, Chosen::rates.size()> rates{};
  for (std::size_t n = 0; n < rates.size(); ++n) {
    const auto found = given.find(Chosen::rates[n]);
    if (found == given.end() || given.size() != rates.size()) {
      refuse(std::string(Chosen::name) + ": the rates given are not those that it has");
    }
    rates[n] = found->second;
  }
  return Chosen(rates);
}

template <class... Known>
std::variant<Known...> optimizer_named(std::variant<Known...>*, const std::string& name,
                                       const Rates& rates) {
  std::optional<std::variant<Known...>> found;
  ((name == Known::name ? void(found = with_rates<Known>(rates)) : void()), ...);
  if (!found) refuse("no optimizer is called " + name);
  return *found;
}

// Which features are high: made once, never changed, shared by models and by rows split in advance.
struct SharedSeparation {
  std::shared_ptr<const Separation> of;

  explicit SharedSeparation(const In<std::uint32_t>& high) {
    auto separation = std::make_shared<Separation>();
    for (std::size_t i = 0; i < high.size(); ++i) {
      if (!separation->append(high.data()[i]))
        refuse("feature " + std::to_string(high.data()[i]) + " is high twice");
    }
    of = std::move(separation);
  }

  // Of rows to be learned later.
  Splits split(const In<std::int64_t>& indptr, const In<std::uint32_t>& indices,
               const In<float>& values) const {
    const Rows rows = view(indptr, indices, values);
    nb::gil_scoped_release release;
    return Splits(rows, of);
  }
};

// PQR, LR and QR.
class NamedModel : public Named<Model> {
 public:
  NamedModel(const SharedSeparation& separation, const std::string& loss, bool bias, bool all_high,
             float interaction_scale, std::size_t max_pairs, const std::string& optimizer,
             const Rates& rates, bool shares_pairs, std::size_t most_high)
      : Named(loss_named(loss),
              Settings{loss_named(loss),
                       bias,
                       {all_high, interaction_scale, max_pairs, most_high},
                       shares_pairs},
              optimizer_named(static_cast<Optimizer*>(nullptr), optimizer, rates), separation.of) {}

  // Rows that were split in advance, by the separation of this model, from split `first` on.
  Out<double> learn_split(const In<std::int64_t>& indptr, const In<std::uint32_t>& indices,
                          const In<float>& values, const In<double>& labels,
                          const In<float>& weights, const Splits& splits, std::size_t first) {
    Rows rows = view(indptr, indices, values, labels, weights);
    rows.splits = splits.of(model_.while_it_changes().separation().get(), first, rows.size);
    if (!rows.splits) refuse("the splits belong to other rows, or to another separation");
    return learn_rows(rows);
  }

  // Where each row's terms start, their kinds, features, values and weights.
  nb::tuple terms(const In<std::int64_t>& indptr, const In<std::uint32_t>& indices,
                  const In<float>& values) const {
    const Rows rows = view(indptr, indices, values);
    RowTerms terms;
    {
      nb::gil_scoped_release release;
      terms = model_.read([&](const Model& m) { return terms_of(m, rows); });
    }
    return nb::make_tuple(give(std::move(terms.indptr)), give(std::move(terms.kinds)),
                          give(std::move(terms.features), 2), give(std::move(terms.values)),
                          give(std::move(terms.weights)));
  }

  nb::tuple state(const std::string& block) const {
    const Block wanted = block_named(block);
    if (wanted == Block::pair) refuse("pair: read by pairs() and restored by restore_pairs()");
    BlockState state;
    {
      nb::gil_scoped_release release;
      state = model_.read([&](const Model& m) { return m.state(wanted); });
    }
    return nb::make_tuple(give(std::move(state.keys)), give(std::move(state.slots), 2));
  }

  Out<std::uint32_t> pair_counts() const {
    std::vector<std::uint32_t> counts;
    {
      nb::gil_scoped_release release;
      counts = model_.read([](const Model& m) { return m.pair_counts(); });
    }
    return give(std::move(counts));
  }

  // Of as many ranks j from `first` on as there are counts.
  nb::tuple pairs(std::size_t first, const In<std::uint32_t>& counts) const {
    BlockState state;
    {
      nb::gil_scoped_release release;
      state = model_.read([&](const Model& m) {
        const std::size_t order = m.separation()->order(), size = counts.size();
        if (first > order || size > order - first) refuse("pair: more counts than ranks");
        for (std::size_t n = 0; n < size; ++n) {
          if (counts.data()[n] > first + n)
            refuse("pair: a count exceeds the number of smaller ranks");
        }
        return m.pairs(first, size, counts.data());
      });
    }
    return nb::make_tuple(give(std::move(state.keys)), give(std::move(state.slots), 2));
  }

  void restore(const std::string& block, const In<std::uint32_t>& keys, const In2<float>& slots) {
    const Block wanted = block_named(block);
    check_slots(block, keys, slots);
    if (wanted == Block::pair) refuse("pair: read by pairs() and restored by restore_pairs()");
    if (!model_.change(
            [&](Model& m) { return m.restore(wanted, keys.data(), slots.data(), keys.size()); })) {
      refuse(block + ": keys are out of range or out of order");
    }
  }

  void restore_pairs(const In<std::uint32_t>& counts, const In<std::uint32_t>& ranks,
                     const In2<float>& slots) {
    check_slots("pair", ranks, slots);
    std::uint64_t sum = 0;
    for (std::size_t j = 0; j < counts.size(); ++j) sum += counts.data()[j];
    const std::size_t order = model_.read([](const Model& m) { return m.separation()->order(); });
    if (counts.size() != order || sum != ranks.size()) {
      refuse("pair: counts and ranks do not fit together");
    }
    if (!model_.change(
            [&](Model& m) { return m.restore_pairs(counts.data(), ranks.data(), slots.data()); })) {
      refuse("pair: ranks are out of range or out of order");
    }
  }

  Out<float> weights(const std::string& block, const In2<float>& slots) const {
    if (slots.shape(1) != 2) refuse("slots must have two columns");
    const Block wanted = block_named(block);
    return give(model_.read(
        [&](const Model& m) { return m.weights(wanted, slots.data(), slots.shape(0)); }));
  }

  // Slots that have these weights after gradients whose squares add up to n.
  Out2<double> slots(const std::string& block, const In<double>& weights,
                     const In<double>& n) const {
    if (weights.size() != n.size()) refuse("weights and n differ in length");
    const Block wanted = block == "bias" ? Block::bias : block_named(block);
    return give(model_.read([&](const Model& m) {
      return m.slots(wanted, weights.data(), n.data(), weights.size());
    }),
                2);
  }

  std::size_t nonzeros(const std::string& block) const {
    const Block wanted = block_named(block);
    nb::gil_scoped_release release;
    return model_.read([&](const Model& m) { return m.nonzeros(wanted); });
  }

  std::pair<double, double> bias() const {
    return model_.read([](const Model& m) { return std::make_pair(m.bias.z, m.bias.root_n); });
  }
  void set_bias(std::pair<double, double> slot) {
    model_.change([&](Model& m) { m.bias = {slot.first, slot.second}; });
  }
  std::size_t max_pairs() const {
    return model_.read([](const Model& m) { return m.max_pairs(); });
  }
  void set_max_pairs(std::size_t pairs) {
    model_.change([&](Model& m) { m.set_max_pairs(pairs); });
  }
  double bias_weight() const {
    return model_.read([](const Model& m) { return m.bias_weight(); });
  }
  Out<std::uint32_t> high() const {
    return give(model_.read([](const Model& m) { return m.separation()->features(); }));
  }

  // The optimizer's global scalars, in the order in which it declares them.
  std::vector<double> scalars() const {
    return model_.read([](const Model& m) {
      return std::visit(
          [](const auto& chosen) {
            const auto scalars = chosen.get();
            return std::vector<double>(scalars.begin(), scalars.end());
          },
          m.optimizer);
    });
  }
  void set_scalars(const std::vector<double>& given) {
    const bool finite = std::all_of(given.begin(), given.end(),
                                    [](double scalar) { return std::isfinite(scalar); });
    const bool good = finite && model_.change([&](Model& m) {
      return std::visit(
          [&](auto& chosen) {
            auto scalars = chosen.get();
            if (given.size() != scalars.size()) return false;
            std::copy(given.begin(), given.end(), scalars.begin());
            return chosen.set(scalars);
          },
          m.optimizer);
    });
    if (!good) refuse("scalars: invalid optimizer state");
  }

 private:
  void check_slots(const std::string& block, const In<std::uint32_t>& keys,
                   const In2<float>& slots) const {
    if (slots.shape(1) != 2 || slots.shape(0) != keys.size()) {
      refuse(block + ": keys and slots do not fit together");
    }
    const bool good = model_.read([&](const Model& m) {
      return with_optimizer(m.optimizer, [&](const auto& chosen) {
        for (std::size_t n = 0; n < keys.size(); ++n) {
          if (!chosen.is_valid(slots.data()[2 * n], slots.data()[2 * n + 1])) return false;
        }
        return true;
      });
    });
    if (!good) refuse(block + ": invalid optimizer state");
  }

  static Block block_named(const std::string& name) {
    if (name == "linear") return Block::linear;
    if (name == "pair") return Block::pair;
    if (name == "shared") return Block::shared;
    if (name == "square") return Block::square;
    refuse("no block is called " + name);
  }
};

}  // namespace pqr::bind
