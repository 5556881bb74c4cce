// Arrays in and out of Python, and how to raise ValueError.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace pqr::bind {

template <class T>
using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using InOut = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using In2 = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using Out = nb::ndarray<nb::numpy, T, nb::ndim<1>>;
template <class T>
using Out2 = nb::ndarray<nb::numpy, T, nb::ndim<2>>;

// Gives a vector to Python: the array owns it.
template <class Array, class T = typename Array::value_type>
inline Out<T> give(Array&& array) {
  auto* owned = new Array(std::move(array));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<Array*>(p); });
  return Out<T>(owned->data(), {owned->size()}, owner);
}

template <class Array, class T = typename Array::value_type>
inline Out2<T> give(Array&& array, std::size_t columns) {
  auto* owned = new Array(std::move(array));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<Array*>(p); });
  return Out2<T>(owned->data(), {owned->size() / columns, columns}, owner);
}

template <class Array>
auto copied(const Array& array) {
  return std::vector(array.data(), array.data() + array.size());
}

[[noreturn]] inline void refuse(const std::string& message) {
  throw nb::value_error(message.c_str());
}

inline std::string in_row(std::size_t row, const std::string& message) {
  return "row " + std::to_string(row) + ": " + message;
}

inline std::string shown(double value) { return nb::repr(nb::float_(value)).c_str(); }

}  // namespace pqr::bind
