// Every model learns and predicts the same rows, and prints what it predicts to the last bit.
// test_bits.py builds it for AVX2, for any machine and without optimization: what they print must
// be the same.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "auto.hpp"
#include "factor_model.hpp"
#include "lanes.hpp"
#include "model.hpp"
#include "parse.hpp"
#include "row.hpp"
#include "separation.hpp"

namespace {

constexpr std::uint32_t features = 3000, order = 60;

// From none to 40 features a row, frequent ones first; values 1, or of any sign and size.
std::string some_text(std::size_t rows, bool ones = false) {
  std::mt19937 random(11);
  std::string text;
  for (std::size_t r = 0; r < rows; ++r) {
    text += random() % 3 == 0 ? "1" : "0";
    std::uint32_t index = 0;
    for (std::size_t left = random() % 41; left > 0; --left) {
      index += 1 + (random() % 4 == 0 ? random() % 150 : random() % 3);
      if (index >= features) break;
      const bool one = ones || r % 2 == 0 || random() % 2 == 0;
      const auto tenths = static_cast<int>(random() % 61) - 30;
      text += " " + std::to_string(index) + ":" + (one ? "1" : std::to_string(tenths / 10.0));
    }
    text += "\n";
  }
  return text;
}

pqr::RowBuffer parsed(const std::string& text) {
  pqr::RowBuffer rows;
  std::vector<pqr::BadRow> bad;
  pqr::parse_libsvm(text.data(), text.size(), true, pqr::Loss::logistic, false, 1, rows, bad);
  return rows;
}

void print(const char* title, const std::vector<double>& margins) {
  for (const double margin : margins) std::printf("%s %a\n", title, margin);
}

template <class Model>
void learn_and_predict(const char* title, Model&& model, const pqr::Rows& rows) {
  std::vector<double> margins(rows.size, 0.0);
  model.learn(rows, margins.data());
  print(title, margins);
  model.margin(rows, margins.data());
  print(title, margins);
  if constexpr (std::is_same_v<std::decay_t<Model>, pqr::Model>) {
    const auto frozen = model.freeze(pqr::Frozen::most * 4);
    if (!frozen) return;  // QR
    frozen->margin(rows, margins.data());
    print("frozen", margins);
  }
}

std::shared_ptr<const pqr::Separation> first_features(std::uint32_t size) {
  auto separation = std::make_shared<pqr::Separation>();
  for (std::uint32_t feature = 1; feature <= size; ++feature) separation->append(feature);
  return separation;
}

}  // namespace

int main() {
  using pqr::Loss, pqr::Model;
  std::printf("# %s\n", pqr::has_avx2() ? "AVX2" : "any machine");
  const pqr::RowBuffer buffer = parsed(some_text(2000));
  const pqr::Rows rows = buffer.view();
  const pqr::Optimizer optimizers[] = {pqr::Ftrl({0.1, 1, 0, 0}), pqr::Ftrl({0.05, 0.5, 0.3, 0.1}),
                                       pqr::Ogd({0.01, 1, 2}), pqr::GeneralFtrl({0.01, 2})};
  for (const pqr::Optimizer& optimizer : optimizers) {
    for (const Loss loss : {Loss::logistic, Loss::squared, Loss::poisson}) {
      learn_and_predict("LR", Model({loss, true, false, 0}, optimizer, first_features(0)), rows);
      learn_and_predict("PQR", Model({loss, true, false, 1}, optimizer, first_features(order)),
                        rows);
    }
  }
  learn_and_predict("QR", Model({Loss::logistic, true, true, 1}, optimizers[0], first_features(0)), rows);
  const pqr::RowBuffer one_hot = parsed(some_text(2000, true));
  for (const Loss loss : {Loss::logistic, Loss::squared}) {
    for (const std::size_t pairs : {1000, 1000000}) {  // some, or all that are met
      learn_and_predict("Auto", pqr::Auto({loss, features, pairs}), rows);
      learn_and_predict("Auto", pqr::Auto({loss, features, pairs}), one_hot.view());
    }
  }
  const pqr::DescentRule descent{true, false, 0.05, 1, 0.001, 0.001};
  const pqr::Start start{5, 0.1f};
  learn_and_predict(
      "FM", pqr::Fm({Loss::logistic, true, {{1, 5}}, start, descent}, pqr::FmRule{descent}), rows);
  learn_and_predict("DiFacto",
                    pqr::Difacto({Loss::logistic, true, {{3, 2}, {9, 11}}, start, descent},
                                 pqr::DifactoRule{pqr::Ftrl({0.1, 1, 0.1, 0})}),
                    rows);
}
