// The counter and the model as Python sees them: with names.
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
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "../model.hpp"
#include "../names.hpp"
#include "../separation.hpp"
#include "../shared.hpp"
#include "arrays.hpp"
#include "dicts.hpp"
#include "forks.hpp"
#include "rows.hpp"
#include "terms.hpp"

namespace pqr::bind {

struct NamedCounter {
  Counter counter;
  Names names;
  DictRow dict;

  void add(const In<std::int64_t>& indptr, const In<std::uint32_t>& indices,
           const In<float>& values) {
    const Rows rows = view(indptr, indices, values);
    nb::gil_scoped_release release;
    for (std::size_t r = 0; r < rows.size; ++r) counter.add(rows[r]);
  }

  void add_dict(nb::handle x) {
    const Rows rows = dict.read(x, names, counter.next_feature());
    dict.keep(names);
    counter.add(rows[0]);
  }

  std::pair<Out<std::uint32_t>, Out<std::uint64_t>> top(std::uint64_t order,
                                                        std::uint64_t min_count) const {
    std::vector<std::uint32_t> features;
    std::vector<std::uint64_t> counts;
    for (const Count& count : counter.top(order, min_count)) {
      features.push_back(count.feature);
      counts.push_back(count.rows);
    }
    return {give(std::move(features)), give(std::move(counts))};
  }
};

// Waits without the GIL, so that whoever holds the model can go on in Python.
inline constexpr auto without_gil = [](auto wait) {
  nb::gil_scoped_release release;
  wait();
};

// Any native learner with the names of its features. `Core` has learn() and
// margin() over Rows, and the counts `rows` and `next_feature`.
template <class Core>
class Named {
 public:
  template <class... Parts>
  explicit Named(Loss loss, Parts&&... parts)
      : loss_(loss), model_(std::in_place, std::forward<Parts>(parts)...) {}

  // The margins of the rows learned: all of them, or those before one that is refused.
  Out<double> learn(const In<std::int64_t>& indptr, const In<std::uint32_t>& indices,
                    const In<float>& values, const In<double>& labels, const In<float>& weights) {
    return learn_rows(view(indptr, indices, values, labels, weights));
  }

  // The margins of all rows, or of those before one whose margin is not finite.
  Out<double> margin(const In<std::int64_t>& indptr, const In<std::uint32_t>& indices,
                     const In<float>& values) const {
    return margins(view(indptr, indices, values), [](double*, std::size_t) {});
  }

  // Their predictions.
  Out<double> predict(const In<std::int64_t>& indptr, const In<std::uint32_t>& indices,
                      const In<float>& values) const {
    return margins(view(indptr, indices, values),
                   [this](double* margins, std::size_t size) { link_all(loss_, margins, size); });
  }

  // Dicts are read under the GIL, which also guards the names and the scratch row. A value's own
  // __float__ may come back here: it then finds an empty one.
  double learn_dict(nb::handle x, double label, double weight) {
    check_label(0, loss_, label);
    check_weight(0, weight);
    const auto turn = model_.turn(without_gil);  // now, as what is read must not age
    DictRow dict = std::move(scratch_);
    dict.read(x, *names_, next_feature());
    double margin = 0.0;
    const Rows row = dict.labelled(label, static_cast<float>(weight));
    if (model_.learn(row, &margin, without_gil) == 0) refuse(too_large);
    if (static_cast<float>(weight) > 0.0f) dict.keep(*names_);
    scratch_ = std::move(dict);
    return link(loss_, margin);
  }

  double margin_dict(nb::handle x) {
    double margin = 0.0;
    DictRow dict = std::move(scratch_);
    if (model_.margin(dict.read(x, *names_, next_feature()), &margin) == 0) refuse(too_large);
    scratch_ = std::move(dict);
    return margin;
  }

  // Between them nothing is learned. It begins under the GIL, so not while a dict is being learned.
  void hold() { model_.hold(without_gil); }
  void release() { model_.release(); }

  double predict_dict(nb::handle x) { return link(loss_, margin_dict(x)); }

  std::uint64_t next_feature() const {
    return model_.read([](const Core& m) { return m.next_feature; });
  }
  void set_next_feature(std::uint64_t next) {
    model_.change([&](Core& m) { m.next_feature = next; });
  }
  std::uint64_t rows() const {
    return model_.read([](const Core& m) { return m.rows; });
  }
  void set_rows(std::uint64_t rows) {
    model_.change([&](Core& m) { m.rows = rows; });
  }
  // Shared with whoever gives or takes them.
  std::shared_ptr<Names> names() const { return names_; }
  void set_names(std::shared_ptr<Names> names) { names_ = std::move(names); }

 protected:
  Loss loss_;
  Shared<Core> model_;

  template <class Then>
  Out<double> margins(const Rows& rows, Then then) const {
    std::vector<double> margins(rows.size);
    {
      nb::gil_scoped_release release;
      margins.resize(model_.margin(rows, margins.data(), then));
    }
    return give(std::move(margins));
  }

  Out<double> learn_rows(const Rows& rows) {
    check_each_target(loss_, rows.labels, rows.weights, rows.size);
    std::vector<double> margins(rows.size);
    {
      nb::gil_scoped_release release;
      margins.resize(model_.learn(rows, margins.data()));
    }
    return give(std::move(margins));
  }

 private:
  std::shared_ptr<Names> names_ = std::make_shared<Names>();
  DictRow scratch_;
  ForkGuard guard_{[this] { model_.before_fork(); },
                   [this](bool in_child) { model_.after_fork(in_child); }};
};

using Rates = std::map<std::string, double>;

// The rates that an optimizer declares, in its order.
template <class Chosen>
Chosen with_rates(const Rates& given) {
  std::array<double, Chosen::rates.size()> rates{};
  for (std::size_t n = 0; n < rates.size(); ++n) {
    const auto found = given.find(Chosen::rates[n]);
    if (found == given.end() || given.size() != rates.size()) {
      refuse(std::string(Chosen::name) + ": its rates are not those that it declares");
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
      if (!separation->append(high.data()[i])) refuse("a feature is high twice");
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
             float interaction_scale, const std::string& optimizer, const Rates& rates,
             bool shares_pairs)
      : Named(loss_named(loss),
              Settings{loss_named(loss), bias, {all_high, interaction_scale}, shares_pairs},
              optimizer_named(static_cast<Optimizer*>(nullptr), optimizer, rates), separation.of) {}

  // Rows that were split in advance, by the separation of this model, from split `first` on.
  Out<double> learn_split(const In<std::int64_t>& indptr, const In<std::uint32_t>& indices,
                          const In<float>& values, const In<double>& labels,
                          const In<float>& weights, const Splits& splits, std::size_t first) {
    Rows rows = view(indptr, indices, values, labels, weights);
    rows.splits = splits.of(model_.while_it_changes().separation().get(), first, rows.size);
    if (!rows.splits) refuse("the splits are of other rows, or by another separation");
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
    if (wanted == Block::pair) refuse("pairs have a state of their own");
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
        if (first > order || size > order - first) refuse("counts of ranks that are not there");
        for (std::size_t n = 0; n < size; ++n) {
          if (counts.data()[n] > first + n) refuse("a rank has fewer pairs than were counted");
        }
        return m.pairs(first, size, counts.data());
      });
    }
    return nb::make_tuple(give(std::move(state.keys)), give(std::move(state.slots), 2));
  }

  void restore(const std::string& block, const In<std::uint32_t>& keys, const In2<float>& slots) {
    const Block wanted = block_named(block);
    check_slots(block, keys, slots);
    if (wanted == Block::pair) refuse("pairs have a state of their own");
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
    if (!good) refuse("the optimizer's scalars: invalid optimizer state");
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
