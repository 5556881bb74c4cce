// What the margins of rows are the sums of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../model.hpp"
#include "arrays.hpp"
#include "messages.hpp"

namespace pqr::bind {

// The coordinates of many rows, in the order in which margins add them up, with their weights.
struct RowTerms {
  enum Kind : std::uint8_t { linear, own, pair };  // `own` is a shared one, or a square
  std::vector<std::int64_t> indptr{0};             // those of row r are indptr[r] to indptr[r + 1]
  std::vector<std::uint8_t> kinds;
  std::vector<std::uint32_t> features;  // two of each, the same twice unless it is a pair
  std::vector<float> values, weights;

  void add(Kind kind, std::uint32_t first, std::uint32_t second) {
    kinds.push_back(kind);
    features.insert(features.end(), {first, second});
  }
};

// All but the bias.
inline RowTerms terms_of(const Model& model, const Rows& batch) {
  RowTerms found;
  Planned planned;
  std::vector<float> slots;
  for (std::size_t r = 0; r < batch.size; ++r) {
    if (!model.locate_row(batch, r, planned)) {
      refuse(in_row(r, why_refused(model, batch[r], false)));
    }
    const Coordinates& c = planned.coordinates;
    found.values.insert(found.values.end(), c.x.data(), c.x.data() + c.size());
    c.with_slots([&](auto at) {
      for (std::size_t i = 0; i < c.size(); ++i) {
        slots.insert(slots.end(), {at(i)->z, at(i)->root_n});
      }
    });
    for (std::size_t i = 0; i < planned.row.size; ++i) {
      found.add(RowTerms::linear, planned.row.indices[i], planned.row.indices[i]);
    }
    const auto feature = [&](std::size_t a) {
      return model.separation()->features()[planned.ranks[a]];
    };
    for (std::size_t b = 0; b < planned.high; ++b) {
      found.add(RowTerms::own, feature(b), feature(b));
      for (std::size_t a = 0; a < b; ++a) found.add(RowTerms::pair, feature(a), feature(b));
    }
    found.indptr.push_back(static_cast<std::int64_t>(found.kinds.size()));
  }
  // Margins compute every weight by the rule of linear ones.
  found.weights = model.weights(Block::linear, slots.data(), found.values.size());
  return found;
}

}  // namespace pqr::bind
