// The border with Python, and the only file that includes nanobind. It checks what
// comes in, hands the core plain views, releases the GIL, and names what is wrong.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "names.hpp"
#include "parse.hpp"
#include "row.hpp"
#include "separation.hpp"
#include "shared.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

template <class T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using In2 = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using Out = nb::ndarray<nb::numpy, T, nb::ndim<1>>;
template <class T>
using Out2 = nb::ndarray<nb::numpy, T, nb::ndim<2>>;

// Gives a vector to Python: the array owns it.
template <class T>
Out<T> give(std::vector<T>&& vector) {
  auto* owned = new std::vector<T>(std::move(vector));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return Out<T>(owned->data(), {owned->size()}, owner);
}

template <class T>
Out2<T> give(std::vector<T>&& vector, std::size_t columns) {
  auto* owned = new std::vector<T>(std::move(vector));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return Out2<T>(owned->data(), {owned->size() / columns, columns}, owner);
}

[[noreturn]] void refuse(const std::string& message) { throw nb::value_error(message.c_str()); }

std::string in_row(std::size_t row, const std::string& message) {
  return "row " + std::to_string(row) + ": " + message;
}

constexpr const char* too_large =
    "its values are too large for 32-bit floats; scale the features down";

std::string shown(double value) { return nb::repr(nb::float_(value)).c_str(); }

// ---- rows ------------------------------------------------------------------

using RowArrays = std::tuple<Out<std::int64_t>, Out<std::uint32_t>, Out<float>, Out<double>,
                             Out<float>, Out<std::int64_t>>;

RowArrays give_rows(pqr::RowBuffer&& rows) {
  return {give(std::move(rows.indptr)), give(std::move(rows.indices)), give(std::move(rows.values)),
          give(std::move(rows.labels)), give(std::move(rows.weights)), give(std::move(rows.lines))};
}

// What memory safety needs of every call; the rest is checked when a Batch is made.
void check_indptr(const In<std::int64_t>& indptr, std::size_t entries) {
  const std::int64_t* at = indptr.data();
  const std::size_t size = indptr.size();
  if (size == 0 || at[0] != 0) refuse("indptr must start with 0");
  for (std::size_t r = 1; r < size; ++r) {
    if (at[r] < at[r - 1]) refuse(in_row(r - 1, "indptr must not fall"));
  }
  if (static_cast<std::size_t>(at[size - 1]) != entries) refuse("indptr must end at len(indices)");
}

pqr::Rows view(const In<std::int64_t>& indptr, const In<std::uint32_t>& indices,
               const In<float>& values) {
  if (values.size() != indices.size()) refuse("indices and values differ in length");
  check_indptr(indptr, indices.size());
  return {indptr.data(), indices.data(), values.data(), nullptr, nullptr, indptr.size() - 1};
}

pqr::Rows view(const In<std::int64_t>& indptr, const In<std::uint32_t>& indices,
               const In<float>& values, const In<double>& labels, const In<float>& weights) {
  pqr::Rows rows = view(indptr, indices, values);
  if (labels.size() != rows.size || weights.size() != rows.size) {
    refuse("labels and weights must have one entry per row");
  }
  rows.labels = labels.data();
  rows.weights = weights.data();
  return rows;
}

void check_weight(std::size_t row, double weight) {
  if (!pqr::is_weight(static_cast<float>(weight))) {
    refuse(in_row(row, "weight " + shown(weight) + " must be finite and not negative"));
  }
}

void check_label(std::size_t row, pqr::Loss loss, double label) {
  if (std::isnan(label)) refuse(in_row(row, "there is no label to learn from"));
  if (!std::isfinite(label)) refuse(in_row(row, "label " + shown(label) + " is not finite"));
  if (loss == pqr::Loss::logistic && label != 0.0 && label != 1.0 && label != -1.0) {
    refuse(in_row(row, "label " + shown(label) +
                           " is not a click: logistic loss takes 0/1 or -1/1; "
                           "for real labels use loss 'squared'"));
  }
}

// A Batch is canonical, finite, and weighted by numbers >= 0.
void check_rows(const In<std::int64_t>& indptr, const In<std::uint32_t>& indices,
                const In<float>& values, const In<double>& labels, const In<float>& weights) {
  const pqr::Rows rows = view(indptr, indices, values, labels, weights);
  std::size_t good = 0;
  {
    nb::gil_scoped_release release;
    while (good < rows.size && pqr::is_good(rows[good]) && pqr::is_weight(rows.weights[good])) {
      ++good;
    }
  }
  if (good == rows.size) return;
  check_weight(good, rows.weights[good]);
  refuse(in_row(good,
                "indices must rise strictly and values be finite and not zero; "
                "Batch.from_csr brings rows into this form"));
}

RowArrays make_rows(const In<std::int64_t>& indptr, const In<std::int64_t>& indices,
                    const In<double>& values, const In<double>& labels, const In<float>& weights) {
  check_indptr(indptr, indices.size());
  const std::size_t size = indptr.size() - 1;
  if (values.size() != indices.size()) refuse("indices and values differ in length");
  if (labels.size() != size || weights.size() != size) {
    refuse("labels and weights must have one entry per row");
  }
  pqr::RowBuffer rows;
  for (std::size_t r = 0; r < size; ++r) {
    for (auto i = static_cast<std::size_t>(indptr.data()[r]);
         i < static_cast<std::size_t>(indptr.data()[r + 1]); ++i) {
      const std::int64_t index = indices.data()[i];
      if (index < 0 || index > 0xFFFFFFFFll) {
        refuse(in_row(r, "index " + std::to_string(index) + " is not in 0 to 4294967295"));
      }
      const auto value = static_cast<float>(values.data()[i]);
      if (!std::isfinite(value)) {
        refuse(in_row(r, "feature " + std::to_string(index) + ": value " + shown(values.data()[i]) +
                             " is not a finite 32-bit float"));
      }
      rows.push(static_cast<std::uint32_t>(index), value);
    }
    if (!rows.end_row(labels.data()[r], weights.data()[r], 0)) {
      refuse(in_row(r, "the sum of a repeated feature is not finite"));
    }
  }
  return give_rows(std::move(rows));
}

// ---- names, and rows that are dicts ------------------------------------------

using NameArrays = std::tuple<Out<std::uint32_t>, Out<std::uint64_t>, Out<std::uint8_t>>;

NameArrays name_arrays(const pqr::Names& names) {
  std::vector<std::uint32_t> indices;
  std::vector<std::uint64_t> ends;
  std::vector<std::uint8_t> bytes;
  names.each_sorted([&](std::uint32_t index, std::string_view name) {
    indices.push_back(index);
    bytes.insert(bytes.end(), name.begin(), name.end());
    ends.push_back(bytes.size());
  });
  return {give(std::move(indices)), give(std::move(ends)), give(std::move(bytes))};
}

void restore_names(pqr::Names& names, const In<std::uint32_t>& indices,
                   const In<std::uint64_t>& ends, const In<std::uint8_t>& bytes) {
  if (indices.size() != ends.size()) refuse("names: indices and ends differ in length");
  std::uint64_t begin = 0;
  for (std::size_t n = 0; n < indices.size(); ++n) {
    const std::uint64_t end = ends.data()[n];
    if (end < begin || end > bytes.size()) refuse("names: ends must rise within the bytes");
    const auto* first = reinterpret_cast<const char*>(bytes.data()) + begin;
    if (!names.add(indices.data()[n], {first, static_cast<std::size_t>(end - begin)})) {
      refuse("names: an index or a name occurs twice");
    }
    begin = end;
  }
  if (begin != bytes.size()) refuse("names: bytes left over");
}

nb::object as_str(std::string_view name) {
  return nb::steal(
      PyUnicode_DecodeUTF8(name.data(), static_cast<Py_ssize_t>(name.size()), "replace"));
}

std::string_view utf8(PyObject* text) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text, &size);
  if (!data) throw nb::python_error();
  return {data, static_cast<std::size_t>(size)};
}

// Turns a dict into a canonical row without going back to Python: a string value
// is the feature `key=value`, a number is the feature `key` with that value (an
// integer key is the index itself, of a feature that has no name), None is absent.
class DictRow {
 public:
  // Names never seen take the indices from `next_feature` on, in order of name, so
  // that the order within the dict cannot show. keep() makes them known.
  pqr::Rows read(nb::handle dict, const pqr::Names& names, std::uint64_t next_feature) {
    if (!PyDict_Check(dict.ptr())) {
      throw nb::type_error(
          ("a row must be a dict, not " + std::string(nb::type_name(dict.type()).c_str())).c_str());
    }
    row_ = pqr::RowBuffer{};
    unknown_.clear();
    PyObject *key = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(dict.ptr(), &at, &key, &value);) add(key, value, names);
    std::sort(unknown_.begin(), unknown_.end());
    next_feature_ = std::max(next_feature, names.next_feature());
    for (const std::uint32_t index : row_.indices) {  // numbers may stand beside names
      next_feature_ = std::max(next_feature_, std::uint64_t{index} + 1);
    }
    new_names_ = 0;
    for (std::size_t n = 0; n < unknown_.size(); ++n) {
      if (n == 0 || unknown_[n].first != unknown_[n - 1].first) ++new_names_;
      const std::uint64_t index = next_feature_ + new_names_ - 1;
      if (index > 0xFFFFFFFFull) refuse("no index below 2^32 is left for a new name");
      row_.push(static_cast<std::uint32_t>(index), unknown_[n].second);
    }
    if (!row_.end_row(0.0, 1.0f, 0)) refuse("the sum of a repeated feature is not finite");
    return row_.view();
  }

  pqr::Rows labelled(double label, float weight) {
    row_.labels[0] = label;
    row_.weights[0] = weight;
    return row_.view();
  }

  void keep(pqr::Names& names) const {
    std::uint64_t next = next_feature_;
    for (std::size_t n = 0; n < unknown_.size(); ++n) {
      if (n > 0 && unknown_[n].first == unknown_[n - 1].first) continue;
      names.add(static_cast<std::uint32_t>(next++), unknown_[n].first);
    }
  }

 private:
  pqr::RowBuffer row_;
  std::vector<std::pair<std::string, float>> unknown_;
  std::uint64_t next_feature_ = 0;
  std::uint64_t new_names_ = 0;
  std::string name_;

  void add(PyObject* key, PyObject* value, const pqr::Names& names) {
    if (value == Py_None) return;
    if (PyLong_Check(key) && !PyBool_Check(key)) {
      int overflow = 0;
      const long long index = PyLong_AsLongLongAndOverflow(key, &overflow);
      if (overflow || index < 0 || index > 0xFFFFFFFFll) {
        refuse("feature " + std::string(nb::repr(key).c_str()) + " is not in 0 to 4294967295");
      }
      if (const std::string_view name = names.name(static_cast<std::uint32_t>(index));
          !name.empty()) {
        refuse("feature " + std::to_string(index) + " has the name '" + std::string(name) +
               "'; use the name");
      }
      row_.push(static_cast<std::uint32_t>(index), number(key, value));
      return;
    }
    if (!PyUnicode_Check(key)) {
      throw nb::type_error(("feature " + std::string(nb::repr(key).c_str()) +
                            ": a feature is a str (a name) or an int (an index)")
                               .c_str());
    }
    name_ = utf8(key);
    float amount = 1.0f;
    if (PyUnicode_Check(value)) {
      name_ += '=';
      name_ += utf8(value);
    } else {
      amount = number(key, value);
    }
    if (amount == 0.0f) return;
    if (const std::uint32_t* index = names.find(name_)) {
      row_.push(*index, amount);
    } else {
      unknown_.emplace_back(name_, amount);
    }
  }

  static float number(PyObject* key, PyObject* value) {
    const double amount = PyFloat_AsDouble(value);
    if (amount == -1.0 && PyErr_Occurred()) {
      PyErr_Clear();
      throw nb::type_error(("feature " + std::string(nb::repr(key).c_str()) + ": value " +
                            nb::repr(value).c_str() +
                            " is not a number (only a named feature may have a str)")
                               .c_str());
    }
    const auto rounded = static_cast<float>(amount);
    if (!std::isfinite(rounded)) {
      refuse("feature " + std::string(nb::repr(key).c_str()) + ": value " + shown(amount) +
             " is not a finite 32-bit float");
    }
    return rounded;
  }
};

double link(pqr::Loss loss, double margin) {
  return loss == pqr::Loss::squared ? pqr::Squared::link(margin) : pqr::Logistic::link(margin);
}

pqr::Loss loss_named(const std::string& name) {
  if (name == "squared") return pqr::Loss::squared;
  if (name == "logistic") return pqr::Loss::logistic;
  refuse("no loss is called " + name);
}

Out<double> link_all(const std::string& loss, const In<double>& margins) {
  std::vector<double> predictions(margins.size());
  for (std::size_t r = 0; r < margins.size(); ++r) {
    predictions[r] = link(loss_named(loss), margins.data()[r]);
  }
  return give(std::move(predictions));
}

// ---- counting and learning ---------------------------------------------------

struct NamedCounter {
  pqr::Counter counter;
  pqr::Names names;
  DictRow dict;

  void add(const In<std::int64_t>& indptr, const In<std::uint32_t>& indices,
           const In<float>& values) {
    const pqr::Rows rows = view(indptr, indices, values);
    nb::gil_scoped_release release;
    for (std::size_t r = 0; r < rows.size; ++r) counter.add(rows[r]);
  }

  void add_dict(nb::handle x) {
    const pqr::Rows rows = dict.read(x, names, counter.next_feature());
    dict.keep(names);
    counter.add(rows[0]);
  }

  std::pair<Out<std::uint32_t>, Out<std::uint64_t>> top(std::uint64_t order,
                                                        std::uint64_t min_count) const {
    std::vector<std::uint32_t> features;
    std::vector<std::uint64_t> counts;
    for (const pqr::Count& count : counter.top(order, min_count)) {
      features.push_back(count.feature);
      counts.push_back(count.rows);
    }
    return {give(std::move(features)), give(std::move(counts))};
  }
};

// A model with the names of its features.
class NamedModel {
 public:
  NamedModel(const In<std::uint32_t>& high, const std::string& loss, bool bias,
             bool everything_high, float interaction_scale, const std::string& optimizer,
             const std::vector<double>& rates)
      : loss_(loss_named(loss)),
        model_({loss_, bias, everything_high, interaction_scale}, optimizer_named(optimizer, rates),
               separation(high)) {}

  // The margins of the rows learned: all of them, or those before one that is refused.
  Out<double> learn(const In<std::int64_t>& indptr, const In<std::uint32_t>& indices,
                    const In<float>& values, const In<double>& labels, const In<float>& weights) {
    const pqr::Rows rows = view(indptr, indices, values, labels, weights);
    for (std::size_t r = 0; r < rows.size; ++r) {
      check_label(r, loss_, rows.labels[r]);
      check_weight(r, rows.weights[r]);
    }
    std::vector<double> margins(rows.size);
    {
      nb::gil_scoped_release release;
      margins.resize(model_.learn(rows, margins.data()));
    }
    return give(std::move(margins));
  }

  // The margins of all rows, or of those before one whose margin is not finite.
  Out<double> margin(const In<std::int64_t>& indptr, const In<std::uint32_t>& indices,
                     const In<float>& values) const {
    const pqr::Rows rows = view(indptr, indices, values);
    std::vector<double> margins(rows.size);
    {
      nb::gil_scoped_release release;
      margins.resize(model_.margin(rows, margins.data()));
    }
    return give(std::move(margins));
  }

  // Dicts are read under the GIL, which also guards the names and the scratch row.
  double learn_dict(nb::handle x, double label, double weight) {
    check_label(0, loss_, label);
    check_weight(0, weight);
    dict_.read(x, names_, next_feature());
    double margin = 0.0;
    if (model_.learn(dict_.labelled(label, static_cast<float>(weight)), &margin) == 0) {
      refuse(too_large);
    }
    if (static_cast<float>(weight) > 0.0f) dict_.keep(names_);
    return link(loss_, margin);
  }

  double margin_dict(nb::handle x) {
    double margin = 0.0;
    if (model_.margin(dict_.read(x, names_, next_feature()), &margin) == 0) refuse(too_large);
    return margin;
  }

  double predict_dict(nb::handle x) { return link(loss_, margin_dict(x)); }

  nb::tuple state(const std::string& block) const {
    pqr::BlockState state =
        model_.read([&](const pqr::Model& m) { return m.state(block_named(block)); });
    nb::object slots = nb::cast(give(std::move(state.slots), 2));
    if (block == "pair") return nb::make_tuple(give(std::move(state.keys), 2), slots);
    return nb::make_tuple(give(std::move(state.keys)), slots);
  }

  void restore(const std::string& block, const nb::ndarray<const std::uint32_t, nb::c_contig>& keys,
               const In2<float>& slots) {
    const std::size_t width = block == "pair" ? 2 : 1;
    const std::size_t size = slots.shape(0);
    if (slots.shape(1) != 2 || keys.size() != width * size) {
      refuse(block + ": keys and slots do not fit together");
    }
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (!std::isfinite(slots.data()[i]) || (i % 2 == 1 && slots.data()[i] < 0.0f)) {
        refuse(block + ": a slot is not a state that learning can reach");
      }
    }
    if (!model_.change([&](pqr::Model& m) {
          return m.restore(block_named(block), keys.data(), slots.data(), size);
        })) {
      refuse(block + ": keys are out of range or out of order");
    }
  }

  Out<float> weights(const In2<float>& slots) const {
    if (slots.shape(1) != 2) refuse("slots must have two columns");
    return give(
        model_.read([&](const pqr::Model& m) { return m.weights(slots.data(), slots.shape(0)); }));
  }

  std::size_t nonzeros(const std::string& block) const {
    return model_.read([&](const pqr::Model& m) { return m.nonzeros(block_named(block)); });
  }

  std::pair<double, double> bias() const {
    return model_.read([](const pqr::Model& m) { return std::make_pair(m.bias.z, m.bias.root_n); });
  }
  void set_bias(std::pair<double, double> slot) {
    model_.change([&](pqr::Model& m) { m.bias = {slot.first, slot.second}; });
  }
  double bias_weight() const {
    return model_.read([](const pqr::Model& m) { return m.bias_weight(); });
  }
  std::uint64_t next_feature() const {
    return model_.read([](const pqr::Model& m) { return m.next_feature; });
  }
  void set_next_feature(std::uint64_t next) {
    model_.change([&](pqr::Model& m) { m.next_feature = next; });
  }
  std::uint64_t rows() const {
    return model_.read([](const pqr::Model& m) { return m.rows; });
  }
  void set_rows(std::uint64_t rows) {
    model_.change([&](pqr::Model& m) { m.rows = rows; });
  }
  Out<std::uint32_t> high() const {
    return give(model_.read([](const pqr::Model& m) { return m.separation().features(); }));
  }
  const pqr::Names& names() const { return names_; }
  void set_names(const pqr::Names& names) {
    names_ = pqr::Names{};
    names.each_sorted([&](std::uint32_t index, std::string_view name) { names_.add(index, name); });
  }

  // The optimizer's global scalars.
  std::vector<double> scalars() const {
    return model_.read([](const pqr::Model& m) -> std::vector<double> {
      if (const auto* ogd = std::get_if<pqr::Ogd>(&m.optimizer)) {
        return {ogd->rows, ogd->scale, ogd->norm2};
      }
      if (const auto* ftrl = std::get_if<pqr::GeneralFtrl>(&m.optimizer)) return {ftrl->norm2};
      return {};
    });
  }
  void set_scalars(const std::vector<double>& scalars) {
    bool good = scalars.size() == this->scalars().size();
    for (const double scalar : scalars) good = good && std::isfinite(scalar) && scalar >= 0.0;
    model_.change([&](pqr::Model& m) {
      if (auto* ogd = std::get_if<pqr::Ogd>(&m.optimizer)) {
        good = good && scalars[1] > 0.0;
        if (good)
          std::tie(ogd->rows, ogd->scale, ogd->norm2) =
              std::make_tuple(scalars[0], scalars[1], scalars[2]);
      } else if (auto* ftrl = std::get_if<pqr::GeneralFtrl>(&m.optimizer)) {
        if (good) ftrl->norm2 = scalars[0];
      }
    });
    if (!good) refuse("the optimizer's scalars are not a state that learning can reach");
  }

 private:
  pqr::Loss loss_;
  pqr::SharedModel model_;
  pqr::Names names_;
  DictRow dict_;

  static pqr::Optimizer optimizer_named(const std::string& name, const std::vector<double>& rates) {
    if (name == "ftrl" && rates.size() == 4) {
      return pqr::Ftrl(rates[0], rates[1], rates[2], rates[3]);
    }
    if (name == "ogd" && rates.size() == 3) return pqr::Ogd(rates[0], rates[1] != 0.0, rates[2]);
    if (name == "ftrl-general" && rates.size() == 2) return pqr::GeneralFtrl(rates[0], rates[1]);
    refuse("no optimizer " + name + " with " + std::to_string(rates.size()) + " rates");
  }

  static pqr::Separation separation(const In<std::uint32_t>& high) {
    pqr::Separation separation;
    for (std::size_t i = 0; i < high.size(); ++i) {
      if (!separation.append(high.data()[i])) refuse("a feature is high twice");
    }
    return separation;
  }

  static pqr::Block block_named(const std::string& name) {
    if (name == "linear") return pqr::Block::linear;
    if (name == "pair") return pqr::Block::pair;
    if (name == "shared") return pqr::Block::shared;
    if (name == "square") return pqr::Block::square;
    refuse("no block is called " + name);
  }
};

nb::tuple parse_libsvm(const nb::object& text, bool last, bool clicks, std::int64_t first_line,
                       bool skip) {
  Py_buffer buffer;
  if (PyObject_GetBuffer(text.ptr(), &buffer, PyBUF_SIMPLE) != 0) throw nb::python_error();
  pqr::RowBuffer rows;
  std::vector<pqr::BadRow> bad;
  pqr::Parsed parsed{};
  {
    nb::gil_scoped_release release;
    parsed = pqr::parse_libsvm(static_cast<const char*>(buffer.buf),
                               static_cast<std::size_t>(buffer.len), last, clicks, skip, first_line,
                               rows, bad);
  }
  PyBuffer_Release(&buffer);
  nb::list wrong;
  for (const pqr::BadRow& row : bad) {
    wrong.append(
        nb::make_tuple(static_cast<int>(row.kind), row.line, row.byte, row.offset, row.length));
  }
  return nb::make_tuple(give(std::move(rows.indptr)), give(std::move(rows.indices)),
                        give(std::move(rows.values)), give(std::move(rows.labels)),
                        give(std::move(rows.weights)), give(std::move(rows.lines)), parsed.consumed,
                        parsed.lines, wrong);
}

nb::bytes format_libsvm(const In<std::int64_t>& indptr, const In<std::uint32_t>& indices,
                        const In<float>& values, const In<double>& labels,
                        const In<float>& weights) {
  const pqr::Rows rows = view(indptr, indices, values, labels, weights);
  std::string text;
  pqr::format_libsvm(rows.indptr, rows.indices, rows.values, rows.labels, rows.weights, rows.size,
                     text);
  return nb::bytes(text.data(), text.size());
}

}  // namespace

NB_MODULE(_core, m) {
  m.doc() = "The native core: rows, counting, learning.";
  nb::set_leak_warnings(false);  // a model that lives as long as the program is not a leak

  m.def("check_rows", &check_rows, "indptr"_a.noconvert(), "indices"_a.noconvert(),
        "values"_a.noconvert(), "labels"_a.noconvert(), "weights"_a.noconvert());
  m.def("make_rows", &make_rows, "indptr"_a.noconvert(), "indices"_a.noconvert(),
        "values"_a.noconvert(), "labels"_a.noconvert(), "weights"_a.noconvert());
  m.def("link", &link_all, "loss"_a, "margins"_a.noconvert());
  m.def("parse_libsvm", &parse_libsvm, "text"_a, "last"_a, "clicks"_a, "first_line"_a, "skip"_a);
  m.def("format_libsvm", &format_libsvm, "indptr"_a.noconvert(), "indices"_a.noconvert(),
        "values"_a.noconvert(), "labels"_a.noconvert(), "weights"_a.noconvert());
  m.attr("TOO_LARGE") = too_large;
  m.attr("BAD_ROW_MESSAGES") =
      std::vector<std::string>(pqr::bad_messages.begin(), pqr::bad_messages.end());

  nb::class_<pqr::Names>(m, "Names")
      .def(nb::init<>())
      .def("__len__", &pqr::Names::size)
      .def("add", &pqr::Names::add, "index"_a, "name"_a)
      .def("find",
           [](const pqr::Names& names, std::string_view name) -> std::optional<std::uint32_t> {
             const std::uint32_t* index = names.find(name);
             return index ? std::optional<std::uint32_t>(*index) : std::nullopt;
           })
      .def("name",
           [](const pqr::Names& names, std::uint32_t index) -> std::optional<nb::str> {
             const std::string_view name = names.name(index);
             if (name.empty()) return std::nullopt;
             return nb::str(as_str(name));
           })
      .def("arrays", &name_arrays)
      .def("restore", &restore_names, "indices"_a.noconvert(), "ends"_a.noconvert(),
           "bytes"_a.noconvert());

  nb::class_<NamedCounter>(m, "Counter")
      .def(nb::init<>())
      .def("add", &NamedCounter::add, "indptr"_a.noconvert(), "indices"_a.noconvert(),
           "values"_a.noconvert())
      .def("add_dict", &NamedCounter::add_dict, "x"_a)
      .def("top", &NamedCounter::top, "order"_a, "min_count"_a)
      .def_prop_ro("rows", [](const NamedCounter& c) { return c.counter.rows(); })
      .def_prop_ro("distinct", [](const NamedCounter& c) { return c.counter.distinct(); })
      .def_ro("names", &NamedCounter::names);

  nb::class_<NamedModel>(m, "Model")
      .def(nb::init<const In<std::uint32_t>&, const std::string&, bool, bool, float,
                    const std::string&, const std::vector<double>&>(),
           "high"_a.noconvert(), "loss"_a, "bias"_a, "everything_high"_a, "interaction_scale"_a,
           "optimizer"_a, "rates"_a)
      .def("learn", &NamedModel::learn, "indptr"_a.noconvert(), "indices"_a.noconvert(),
           "values"_a.noconvert(), "labels"_a.noconvert(), "weights"_a.noconvert())
      .def("margin", &NamedModel::margin, "indptr"_a.noconvert(), "indices"_a.noconvert(),
           "values"_a.noconvert())
      .def("learn_dict", &NamedModel::learn_dict, "x"_a, "label"_a, "weight"_a)
      .def("margin_dict", &NamedModel::margin_dict, "x"_a)
      .def("predict_dict", &NamedModel::predict_dict, "x"_a)
      .def("state", &NamedModel::state, "block"_a)
      .def("restore", &NamedModel::restore, "block"_a, "keys"_a.noconvert(), "slots"_a.noconvert())
      .def("weights", &NamedModel::weights, "slots"_a.noconvert())
      .def_prop_rw("bias", &NamedModel::bias, &NamedModel::set_bias)
      .def_prop_ro("bias_weight", &NamedModel::bias_weight)
      .def("nonzeros", &NamedModel::nonzeros, "block"_a)
      .def_prop_rw("scalars", &NamedModel::scalars, &NamedModel::set_scalars)
      .def_prop_rw("next_feature", &NamedModel::next_feature, &NamedModel::set_next_feature)
      .def_prop_rw("rows", &NamedModel::rows, &NamedModel::set_rows)
      .def("high", &NamedModel::high)
      .def_prop_rw("names", &NamedModel::names, &NamedModel::set_names);
}
