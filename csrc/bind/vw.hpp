// Vowpal Wabbit text as a column of named features.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "../vw.hpp"
#include "arrays.hpp"

namespace pqr::bind {

inline nb::tuple read_vw(const nb::object& text, bool skip, std::int64_t first_line) {
  Py_buffer buffer;
  if (PyObject_GetBuffer(text.ptr(), &buffer, PyBUF_SIMPLE) != 0) throw nb::python_error();
  VwRows rows;
  {
    nb::gil_scoped_release release;
    rows = parse_vw(static_cast<const char*>(buffer.buf), static_cast<std::size_t>(buffer.len),
                    skip, first_line);
  }
  PyBuffer_Release(&buffer);
  nb::list wrong;
  for (const BadVwRow& row : rows.bad) {
    wrong.append(
        nb::make_tuple(static_cast<int>(row.kind), row.line, row.byte, row.offset, row.length));
  }
  return nb::make_tuple(give(std::move(rows.names.offsets)), give(std::move(rows.names.bytes)),
                        give(std::move(rows.codes)), give(std::move(rows.values)),
                        give(std::move(rows.first)), give(std::move(rows.labels)),
                        give(std::move(rows.weights)), give(std::move(rows.lines)), rows.line_count,
                        wrong);
}

}  // namespace pqr::bind
