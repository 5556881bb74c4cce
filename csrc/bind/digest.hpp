// The digest of files, from any contiguous Python buffer.
#pragma once

#include <cstddef>

#include "../digest.hpp"
#include "arrays.hpp"

namespace pqr::bind {

constexpr Py_ssize_t large_buffer = 1 << 16;  // below, giving up the GIL costs more than the hash

inline void update_digest(Digest& digest, const nb::object& data) {
  Py_buffer buffer;
  if (PyObject_GetBuffer(data.ptr(), &buffer, PyBUF_SIMPLE) != 0) throw nb::python_error();
  const auto* bytes = static_cast<const unsigned char*>(buffer.buf);
  const auto size = static_cast<std::size_t>(buffer.len);
  if (buffer.len < large_buffer) {
    digest.update(bytes, size);
  } else {
    Digest next = digest;  // a copy: without the GIL another thread might update the same one
    {
      nb::gil_scoped_release release;
      next.update(bytes, size);
    }
    digest = next;
  }
  PyBuffer_Release(&buffer);
}

}  // namespace pqr::bind
