// Names as arrays, and rows that are dicts.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "../names.hpp"
#include "../row.hpp"
#include "arrays.hpp"

namespace pqr::bind {

using NameArrays = std::tuple<Out<std::uint32_t>, Out<std::uint64_t>, Out<std::uint8_t>>;

inline NameArrays name_arrays(const Names& names) {
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

inline void restore_names(Names& names, const In<std::uint32_t>& indices,
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

inline nb::object as_str(std::string_view name) {
  return nb::steal(
      PyUnicode_DecodeUTF8(name.data(), static_cast<Py_ssize_t>(name.size()), "replace"));
}

inline std::string_view utf8(PyObject* text) {
  if (PyUnicode_IS_COMPACT_ASCII(text)) {
    return {static_cast<const char*>(PyUnicode_DATA(text)),
            static_cast<std::size_t>(PyUnicode_GET_LENGTH(text))};
  }
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
  // Names never seen take the indices from `next_feature` on, in order of name, so that
  // indices do not depend on the order within the dict. keep() adds them to the names.
  Rows read(nb::handle row, const Names& names, std::uint64_t next_feature) {
    const nb::object dict = as_dict(row);
    row_.clear();
    text_.clear();
    pending_.clear();
    unknown_.clear();
    PyObject *key = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(dict.ptr(), &at, &key, &value);) add(key, value, names);
    for (Pending& pending : pending_)
      pending.bucket = names.prefetch_record(pending.hash, pending.length);
    for (const Pending& pending : pending_) {
      const std::string_view name = this->name(pending);
      if (const std::uint32_t* index = names.find(name, pending.hash, pending.bucket)) {
        row_.push(*index, pending.amount);
      } else {
        unknown_.emplace_back(name, pending.amount);
      }
    }
    std::sort(unknown_.begin(), unknown_.end());
    next_feature_ = std::max(next_feature, names.next_feature());
    std::uint32_t largest = 0;  // a row may have indices beside names
    for (const std::uint32_t index : row_.indices) largest = std::max(largest, index);
    if (!row_.indices.empty()) next_feature_ = std::max(next_feature_, std::uint64_t{largest} + 1);
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

  Rows labelled(double label, float weight) {
    row_.labels[0] = label;
    row_.weights[0] = weight;
    return row_.view();
  }

  void keep(Names& names) const {
    std::uint64_t next = next_feature_;
    for (std::size_t n = 0; n < unknown_.size(); ++n) {
      if (n > 0 && unknown_[n].first == unknown_[n - 1].first) continue;
      names.add(static_cast<std::uint32_t>(next++), unknown_[n].first);
    }
  }

 private:
  static constexpr float likely_id = 1000.0f;  // smaller integers are often amounts

  RowBuffer row_;
  bool warned_ = false;
  std::vector<std::pair<std::string, float>> unknown_;
  std::uint64_t next_feature_ = 0;
  std::uint64_t new_names_ = 0;
  struct Pending {      // a name to be looked up
    const char* own;    // the name, in its key; nullptr when it is in text_
    std::size_t begin;  // of the name in text_
    std::size_t length;
    std::uint32_t hash;
    float amount;
    std::size_t bucket = 0;  // the first with an equal hash
  };
  std::string text_;
  std::vector<Pending> pending_;

  // The row itself, or what a Mapping holds.
  static nb::object as_dict(nb::handle row) {
    if (PyDict_Check(row.ptr())) return nb::borrow(row);
    if (!nb::isinstance(row, nb::module_::import_("collections.abc").attr("Mapping"))) {
      throw nb::type_error(
          ("a row must be a dict, not " + std::string(nb::type_name(row.type()).c_str())).c_str());
    }
    nb::object dict = nb::steal(PyDict_New());
    if (PyDict_Update(dict.ptr(), row.ptr()) != 0) throw nb::python_error();
    return dict;
  }

  std::string_view name(const Pending& pending) const {
    return {pending.own ? pending.own : text_.data() + pending.begin, pending.length};
  }

  // Keys may be gone after a value's own code has run: their names are then needed here.
  void copy_names() {
    for (Pending& pending : pending_) {
      if (!pending.own) continue;
      pending.begin = text_.size();
      text_.append(pending.own, pending.length);
      pending.own = nullptr;
    }
  }

  void add(PyObject* key, PyObject* value, const Names& names) {
    if (value == Py_None) return;
    if (PyFloat_Check(value) || PyUnicode_Check(value) || PyLong_CheckExact(value) ||
        PyBool_Check(value)) {
      add_feature(key, value, names);
      return;
    }
    // The value's own __float__ may change the dict: both must outlive it, and so must all names.
    const nb::object held_key = nb::borrow(key), held_value = nb::borrow(value);
    copy_names();
    add_feature(key, value, names);
    copy_names();
  }

  void add_feature(PyObject* key, PyObject* value, const Names& names) {
    if (!PyUnicode_Check(key)) {
      add_index(key, value, names);
    } else if (PyUnicode_Check(value)) {
      const std::size_t begin = text_.size();
      text_.append(utf8(key)).append(1, '=').append(utf8(value));
      const std::size_t length = text_.size() - begin;
      const std::uint32_t hash = names.prefetch({text_.data() + begin, length});
      pending_.push_back({nullptr, begin, length, hash, 1.0f});
    } else {
      const double given = real(key, value);
      if (std::isnan(given)) return;  // missing, as in a table
      const float amount = checked(key, given);
      if (PyLong_CheckExact(value) && amount >= likely_id && !warned_) warn_of_id(key, value);
      if (amount == 0.0f) return;
      const std::string_view name = utf8(key);
      pending_.push_back({name.data(), 0, name.size(), names.prefetch(name), amount});
    }
  }

  // Ids given as integers would share one weight. Warns once for each learner.
  void warn_of_id(PyObject* key, PyObject* value) {
    warned_ = true;
    const std::string shown = nb::repr(value).c_str();
    const std::string message = "field " + std::string(nb::repr(key).c_str()) + " is the integer " +
                                shown + ", taken as a number; if it is an id, give it as text ('" +
                                shown + "') or give the model a schema";
    const nb::object held_key = nb::borrow(key), held_value = nb::borrow(value);
    copy_names();  // a filter of warnings may run any code
    if (PyErr_WarnEx(PyExc_UserWarning, message.c_str(), 1) != 0) throw nb::python_error();
  }

  // A feature that is given by its index.
  void add_index(PyObject* key, PyObject* value, const Names& names) {
    if (!PyIndex_Check(key) || PyBool_Check(key)) {
      throw nb::type_error(("feature " + std::string(nb::repr(key).c_str()) +
                            ": a feature is a str (a name) or an int (an index)")
                               .c_str());
    }
    const nb::object number_of_key = nb::steal(PyNumber_Index(key));  // also NumPy's integers
    if (!number_of_key.is_valid()) throw nb::python_error();
    int overflow = 0;
    const long long index = PyLong_AsLongLongAndOverflow(number_of_key.ptr(), &overflow);
    if (overflow || index < 0 || index > 0xFFFFFFFFll) {
      refuse("feature " + std::string(nb::repr(key).c_str()) + " is not in 0 to 4294967295");
    }
    if (const std::string_view name = names.name(static_cast<std::uint32_t>(index));
        !name.empty()) {
      refuse("feature " + std::to_string(index) + " has the name '" + std::string(name) +
             "'; use the name");
    }
    row_.push(static_cast<std::uint32_t>(index), checked(key, real(key, value)));
  }

  static double real(PyObject* key, PyObject* value) {
    if (PyFloat_CheckExact(value)) return PyFloat_AS_DOUBLE(value);
    const double amount = PyFloat_AsDouble(value);
    if (amount == -1.0 && PyErr_Occurred()) {
      if (PyErr_ExceptionMatches(PyExc_OverflowError)) {
        PyErr_Clear();
        refuse("feature " + std::string(nb::repr(key).c_str()) +
               ": its value is not a finite 32-bit float");
      }
      // Anything else that a value's own code raises, such as at Ctrl-C, goes on unchanged.
      if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw nb::python_error();
      PyErr_Clear();
      throw nb::type_error(("feature " + std::string(nb::repr(key).c_str()) + ": value " +
                            nb::repr(value).c_str() +
                            " is not a number (only a named feature may have a str)")
                               .c_str());
    }
    return amount;
  }

  static float checked(PyObject* key, double amount) {
    const auto rounded = static_cast<float>(amount);
    if (!std::isfinite(rounded)) {
      refuse("feature " + std::string(nb::repr(key).c_str()) + ": value " + shown(amount) +
             " is not a finite 32-bit float");
    }
    return rounded;
  }
};

}  // namespace pqr::bind
