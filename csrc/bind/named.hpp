// The counter and the model as Python sees them: with names.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "../memory.hpp"
#include "../model.hpp"
#include "../names.hpp"
#include "../separation.hpp"
#include "../shared.hpp"
#include "arrays.hpp"
#include "dicts.hpp"
#include "rows.hpp"

namespace pqr::bind {

struct NamedCounter {
  Counter counter;
  Names names;
  DictRow dict;

  ~NamedCounter() {
    const bool much = counter.distinct() > 100'000;
    counter = Counter();
    if (much) release_freed();  // the model that was made of the counts may live long
  }

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

// Waits while others, who hold a model, go on in Python.
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
    dict.read(x, names_, next_feature());
    double margin = 0.0;
    const Rows row = dict.labelled(label, static_cast<float>(weight));
    if (model_.learn(row, &margin, without_gil) == 0) refuse(too_large);
    if (static_cast<float>(weight) > 0.0f) dict.keep(names_);
    scratch_ = std::move(dict);
    return link(loss_, margin);
  }

  double margin_dict(nb::handle x) {
    double margin = 0.0;
    DictRow dict = std::move(scratch_);
    if (model_.margin(dict.read(x, names_, next_feature()), &margin) == 0) refuse(too_large);
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
  const Names& names() const { return names_; }
  void set_names(const Names& names) {
    names_ = Names{};
    names.each_sorted([&](std::uint32_t index, std::string_view name) { names_.add(index, name); });
  }

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
  Names names_;
  DictRow scratch_;
};

// Memory for the slots of a model that is not there yet.
struct Room {
  Model::Slots slots;

  explicit Room(std::uint64_t order) : slots(Model::ready(order)) {}
  static std::size_t bytes(std::uint64_t order) { return Model::soon(order); }
};

// PQR, LR and QR.
class NamedModel : public Named<Model> {
 public:
  NamedModel(const In<std::uint32_t>& high, const std::string& loss, bool bias,
             bool everything_high, float interaction_scale, const std::string& optimizer,
             const std::vector<double>& rates)
      : Named(loss_named(loss),
              Settings{loss_named(loss), bias, everything_high, interaction_scale},
              optimizer_named(optimizer, rates), separation(high)) {}

  void use(Room& room) {
    model_.change([&](Model& model) { model.use(room.slots); });
  }

  // Of rows to be learned later. In QR rows change what is high, so there it is refused.
  Splits split(const In<std::int64_t>& indptr, const In<std::uint32_t>& indices,
               const In<float>& values) const {
    const Rows rows = view(indptr, indices, values);
    const Model& model = model_.while_it_changes();
    if (model.settings().everything_high) refuse("rows of this model are not split in advance");
    nb::gil_scoped_release release;
    return Splits(rows, model.separation());
  }

  Out<double> learn_split(const In<std::int64_t>& indptr, const In<std::uint32_t>& indices,
                          const In<float>& values, const In<double>& labels,
                          const In<float>& weights, const Splits& splits) {
    Rows rows = view(indptr, indices, values, labels, weights);
    const Model& model = model_.while_it_changes();
    if (model.settings().everything_high || !splits.fit(rows, model.separation().order())) {
      refuse("the splits are of other rows, or of another model");
    }
    rows.splits = splits.data();
    return learn_rows(rows);
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
    PairState state;
    {
      nb::gil_scoped_release release;
      state = model_.read([&](const Model& m) {
        const std::size_t order = m.separation().order(), size = counts.size();
        if (first > order || size > order - first) refuse("counts of ranks that are not there");
        for (std::size_t n = 0; n < size; ++n) {
          if (counts.data()[n] > first + n) refuse("a rank has fewer pairs than were counted");
        }
        return m.pairs(first, size, counts.data());
      });
    }
    return nb::make_tuple(give(std::move(state.ranks)), give(std::move(state.slots), 2));
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
    const std::size_t order = model_.read([](const Model& m) { return m.separation().order(); });
    if (counts.size() != order || sum != ranks.size()) {
      refuse("pair: counts and ranks do not fit together");
    }
    if (!model_.change(
            [&](Model& m) { return m.restore_pairs(counts.data(), ranks.data(), slots.data()); })) {
      refuse("pair: ranks are out of range or out of order");
    }
  }

  Out<float> weights(const In2<float>& slots) const {
    if (slots.shape(1) != 2) refuse("slots must have two columns");
    return give(
        model_.read([&](const Model& m) { return m.weights(slots.data(), slots.shape(0)); }));
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
    return give(model_.read([](const Model& m) { return m.separation().features(); }));
  }

  // The optimizer's global scalars.
  std::vector<double> scalars() const {
    return model_.read([](const Model& m) -> std::vector<double> {
      if (const auto* ogd = std::get_if<Ogd>(&m.optimizer)) {
        return {ogd->rows, ogd->scale, ogd->norm2};
      }
      if (const auto* ftrl = std::get_if<GeneralFtrl>(&m.optimizer)) return {ftrl->norm2};
      return {};
    });
  }
  void set_scalars(const std::vector<double>& scalars) {
    bool good = scalars.size() == this->scalars().size();
    for (const double scalar : scalars) good = good && std::isfinite(scalar) && scalar >= 0.0;
    model_.change([&](Model& m) {
      if (auto* ogd = std::get_if<Ogd>(&m.optimizer)) {
        good = good && scalars[1] > 0.0;
        if (good)
          std::tie(ogd->rows, ogd->scale, ogd->norm2) =
              std::make_tuple(scalars[0], scalars[1], scalars[2]);
      } else if (auto* ftrl = std::get_if<GeneralFtrl>(&m.optimizer)) {
        if (good) ftrl->norm2 = scalars[0];
      }
    });
    if (!good) refuse("the optimizer's scalars are not a state that learning can reach");
  }

 private:
  static Optimizer optimizer_named(const std::string& name, const std::vector<double>& rates) {
    if (name == "ftrl" && rates.size() == 4) {
      return Ftrl(rates[0], rates[1], rates[2], rates[3]);
    }
    if (name == "ogd" && rates.size() == 3) return Ogd(rates[0], rates[1] != 0.0, rates[2]);
    if (name == "ftrl-general" && rates.size() == 2) return GeneralFtrl(rates[0], rates[1]);
    refuse("no optimizer " + name + " with " + std::to_string(rates.size()) + " rates");
  }

  static Separation separation(const In<std::uint32_t>& high) {
    Separation separation;
    for (std::size_t i = 0; i < high.size(); ++i) {
      if (!separation.append(high.data()[i])) refuse("a feature is high twice");
    }
    return separation;
  }

  static void check_slots(const std::string& block, const In<std::uint32_t>& keys,
                          const In2<float>& slots) {
    if (slots.shape(1) != 2 || slots.shape(0) != keys.size()) {
      refuse(block + ": keys and slots do not fit together");
    }
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const float value = slots.data()[i];  // z, then root_n, whose square must be a float too
      if (!(std::fabs(value) <= (i % 2 == 0 ? 1e30f : 1e18f)) || (i % 2 == 1 && value < 0.0f)) {
        refuse(block + ": a slot is not a state that learning can reach");
      }
    }
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
