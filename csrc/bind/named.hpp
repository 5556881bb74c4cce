// The counter and any native learner as Python sees them: with names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../names.hpp"
#include "../separation.hpp"
#include "../shared.hpp"
#include "arrays.hpp"
#include "dicts.hpp"
#include "forks.hpp"
#include "messages.hpp"
#include "rows.hpp"
#include "signals.hpp"

namespace pqr::bind {

struct NamedCounter {
  Counter counter;
  Names names;
  DictRow dict;

  void add(const In<std::int64_t>& indptr, const In<std::uint32_t>& indices,
           const In<float>& values) {
    const Rows rows = view(indptr, indices, values);
    Signals signals;
    {
      nb::gil_scoped_release release;
      for (std::size_t r = 0; r < rows.size && !signals.at(r); ++r) counter.add(rows[r]);
    }
    signals.check();
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
  template <class... Args>
  explicit Named(Loss loss, Args&&... args)
      : loss_(loss), model_(std::in_place, std::forward<Args>(args)...) {}

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

  // The same as predictions.
  Out<double> predict(const In<std::int64_t>& indptr, const In<std::uint32_t>& indices,
                      const In<float>& values) const {
    return margins(view(indptr, indices, values),
                   [this](double* margins, std::size_t size) { link_all(loss_, margins, size); });
  }

  // Why the first row was refused.
  std::string why_refused(const In<std::int64_t>& indptr, const In<std::uint32_t>& indices,
                          const In<float>& values, bool learns) const {
    const Rows rows = view(indptr, indices, values);
    if (rows.size == 0) refuse("there is no row");
    return why(rows, learns);
  }

  // Dicts are read under the GIL, which also guards the names and the scratch row. A value's own
  // __float__ may call this again: it then finds an empty scratch row.
  double learn_dict(nb::handle x, double label, double weight) {
    check_label(0, loss_, label);
    check_weight(0, weight);
    const auto turn = model_.turn(without_gil);  // first: what is read now must stay true
    DictRow dict = std::move(scratch_);
    dict.read(x, *names_, next_feature());
    double margin = 0.0;
    const Rows row = dict.labelled(label, static_cast<float>(weight));
    if (model_.learn(row, &margin, without_gil) == 0) refuse(why(row, true));
    if (static_cast<float>(weight) > 0.0f) dict.keep(*names_);
    scratch_ = std::move(dict);
    return link(loss_, margin);
  }

  double margin_dict(nb::handle x) {
    double margin = 0.0;
    DictRow dict = std::move(scratch_);
    const Rows row = dict.read(x, *names_, next_feature());
    if (model_.margin(row, &margin) == 0) refuse(why(row, false));
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

  std::string why(const Rows& rows, bool learns) const {
    return model_.read([&](const Core& m) { return bind::why_refused(m, rows[0], learns); });
  }

  template <class Then>
  Out<double> margins(const Rows& rows, Then then) const {
    std::vector<double> margins(rows.size);
    Signals signals;
    {
      nb::gil_scoped_release release;
      margins.resize(model_.margin(rows, margins.data(), then, [&] { return signals(); }));
    }
    signals.check();
    return give(std::move(margins));
  }

  Out<double> learn_rows(const Rows& rows) {
    check_each_target(loss_, rows.labels, rows.weights, rows.size);
    std::vector<double> margins(rows.size);
    Signals signals;
    {
      nb::gil_scoped_release release;
      margins.resize(model_.learn(rows, margins.data(), model_.plainly, [&] { return signals(); }));
    }
    signals.check();
    return give(std::move(margins));
  }

 private:
  std::shared_ptr<Names> names_ = std::make_shared<Names>();
  DictRow scratch_;
  ForkGuard guard_{[this] { model_.before_fork(); },
                   [this](bool in_child) { model_.after_fork(in_child); }};
};

}  // namespace pqr::bind
