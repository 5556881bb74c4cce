// One thread learns while others predict, hold the model and split rows, for ThreadSanitizer.
// test_threads.py builds and runs it twice: as it is, which must be silent, and with PQR_NO_LOCK,
// where the same threads share a bare model and a race must be reported.
//
// Exit codes: 0 done, 1 a prediction was not finite, 2 nobody predicted while it learned, 3 a model
// that was held has learned.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "model.hpp"
#include "row.hpp"
#include "separation.hpp"
#include "shared.hpp"
#include "split.hpp"

namespace {

#ifdef PQR_NO_LOCK
struct Model : pqr::Model {
  template <class... Parts>
  explicit Model(std::in_place_t, Parts&&... parts) : pqr::Model(std::forward<Parts>(parts)...) {}
  const pqr::Model& while_it_changes() const { return *this; }
  template <class Work>
  auto read(Work work) const {
    return work(static_cast<const pqr::Model&>(*this));
  }
  void hold() {}
  void release() {}
};
#else
using Model = pqr::Shared<pqr::Model>;
#endif

constexpr std::size_t readers = 3;
constexpr std::uint32_t order = 40;

// Later rows have features that earlier ones have not, so that every table grows.
pqr::RowBuffer some_rows(std::size_t size) {
  std::mt19937 random(7);
  pqr::RowBuffer rows;
  for (std::size_t r = 0; r < size; ++r) {
    const auto below = [&](std::size_t end) { return static_cast<std::uint32_t>(random() % end); };
    for (std::size_t i = 0; i < 8; ++i) rows.push(below(order), 0.5f);
    for (std::size_t i = 0; i < 4; ++i) rows.push(order + below(4 * r + 1), 1.0f);
    rows.end_row(below(2), 1.0f, 0);
  }
  return rows;
}

std::shared_ptr<const pqr::Separation> first_features() {
  auto separation = std::make_shared<pqr::Separation>();
  for (std::uint32_t feature = 0; feature < order; ++feature) separation->append(feature);
  return separation;
}

// Asks for the margins of all rows, over and over, until the model has learned.
struct Reader {
  const Model& model;
  const pqr::Rows rows;
  const std::atomic<bool>& learned;
  bool finite = true;
  std::size_t rounds = 0;

  void read() {
    std::vector<double> margins(rows.size);
    while (!learned) {
      finite = finite && model.margin(rows, margins.data()) == rows.size;
      finite = finite && std::all_of(margins.begin(), margins.end(),
                                     [](double margin) { return std::isfinite(margin); });
      ++rounds;
      std::this_thread::yield();
    }
  }
};

// Holds the model, over and over, and looks at it twice.
bool hold_and_look(Model& model, const std::atomic<bool>& learned) {
  const auto rows = [](const pqr::Model& of) { return of.rows; };
  bool same = true;
  while (!learned) {
    model.hold();
    const std::uint64_t before = model.read(rows);
    std::this_thread::yield();
    same = same && model.read(rows) == before;
    model.release();
  }
  return same;
}

int learn_and_read(Model& model, std::size_t size, bool all_high) {
  // Enough to be predicted from a copy, now and then.
  const pqr::RowBuffer known = some_rows(size), asked = some_rows(1100);
  std::atomic<bool> learned{false};
  std::vector<Reader> asking(readers, {model, asked.view(), learned});
  std::vector<std::thread> threads;
  for (Reader& reader : asking) threads.emplace_back([&] { reader.read(); });
  bool still = true;
  threads.emplace_back([&] { still = hold_and_look(model, learned); });

  std::vector<double> margins(known.rows());
  const pqr::Model& inside = model.while_it_changes();
  if (all_high) {
    model.learn(known.view(), margins.data());
  } else {  // halves, so that the second is split while the first is learned
    const pqr::Rows rows = known.view();
    pqr::Rows half = rows.range(0, rows.size / 2),
              rest = rows.range(half.size, rows.size - half.size);
    const pqr::Splits splits(half, inside.separation());
    half.splits = splits.of(inside.separation().get(), 0, half.size);
    std::unique_ptr<pqr::Splits> later;
    std::thread splitter([&] { later = std::make_unique<pqr::Splits>(rest, inside.separation()); });
    model.learn(half, margins.data());
    splitter.join();
    rest.splits = later->of(inside.separation().get(), 0, rest.size);
    model.learn(rest, margins.data() + half.size);
  }
  learned = true;
  for (std::thread& thread : threads) thread.join();

  const auto finite = [](const Reader& reader) { return reader.finite; };
  const auto idle = [](const Reader& reader) { return reader.rounds == 0; };
  if (!std::all_of(asking.begin(), asking.end(), finite)) return 1;
  if (std::all_of(asking.begin(), asking.end(), idle)) return 2;
  return still ? 0 : 3;
}

}  // namespace

int main() {
  const pqr::Settings some_high{pqr::Loss::logistic, true, {false, 1.0f, 1 << 20}};
  const pqr::Settings of_qr{pqr::Loss::logistic, true, {true, 1.0f, 1 << 20}};
  Model proximal(std::in_place, some_high, pqr::Ftrl({0.1, 1.0, 0.0, 0.0}), first_features());
  Model rescaled(std::in_place, some_high, pqr::Ogd({1.0, 0.0, 1e-3}), first_features());
  Model everything(std::in_place, of_qr, pqr::GeneralFtrl({0.01, 1.0}),
                   std::make_shared<pqr::Separation>());
  for (const int code :
       {learn_and_read(proximal, 4000, false), learn_and_read(rescaled, 2000, false),
        learn_and_read(everything, 300, true)}) {
    if (code != 0) return code;
  }
}
