// Values by number, in the order in which they were added. They never move.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

#include "pages.hpp"

namespace pqr {

// T{} is all zeros.
template <class T>
class Sequence {
 public:
  T* operator[](std::size_t number) const {
    return chunks_[number / chunk].data() + number % chunk;
  }
  std::size_t size() const { return size_; }
  T* add() {
    if (size_ % chunk == 0) {
      chunks_.emplace_back(chunk, 0);
      if (!chunks_.back().data()) throw std::bad_alloc();
      if (size_ > 0) chunks_.back().prefer_large(0, chunk);  // few values do not take so much
    }
    return (*this)[size_++];
  }

 private:
  static constexpr std::size_t chunk = 65536;  // of which only pages in use have memory
  std::vector<Stretch<T>> chunks_;
  std::size_t size_ = 0;
};

}  // namespace pqr
