// An optimizer that tells blocks apart, through the loop of the model. test_bits.py builds and runs
// it. Where all blocks have the same rates, it must give the bits of one that does not look; and
// where l1 keeps all interactions at zero, those of a linear model.
//
// Exit codes: 0 done, otherwise the number of the check that failed.

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "../../csrc/model.cpp"  // for its templates

namespace {

class ByBlockFtrl {
 public:
  static constexpr bool by_block = true, has_sum = false;
  using Rates = std::array<double, 4>;

  ByBlockFtrl(const Rates& linear, const Rates& pair, const Rates& own)
      : linear_(linear), pair_(pair), own_(own) {}

  template <class Real>
  pqr::Proximal<Real> at(pqr::Block block) const {
    const bool is_own = block == pqr::Block::shared || block == pqr::Block::square;
    return (is_own                       ? own_
            : block == pqr::Block::pair  ? pair_
                                         : linear_)
        .template at<Real>(block);
  }
  double end_row(double) { return 1.0; }

 private:
  pqr::Ftrl linear_, pair_, own_;
};

constexpr std::uint32_t order = 12;

pqr::RowBuffer some_rows() {
  std::mt19937 random(5);
  pqr::RowBuffer rows;
  for (int r = 0; r < 600; ++r) {
    for (unsigned left = random() % 24; left > 0; --left) {
      rows.push(static_cast<std::uint32_t>(random() % 40), static_cast<float>(random() % 5) - 2.0f);
    }
    rows.end_row(random() % 2, 1.0f, 0);
  }
  return rows;
}

std::shared_ptr<const pqr::Separation> first_features(std::uint32_t size) {
  auto separation = std::make_shared<pqr::Separation>();
  for (std::uint32_t feature = 0; feature < size; ++feature) separation->append(feature);
  return separation;
}

template <class Optimizer>
std::vector<double> learned(bool everything_high, std::uint32_t size, Optimizer optimizer) {
  const pqr::RowBuffer rows = some_rows();
  const pqr::Settings settings{pqr::Loss::logistic, true, everything_high, 1.0f};
  pqr::Model model(settings, pqr::Ftrl({0.1, 1, 0, 0}), first_features(size));
  std::vector<double> margins(rows.rows());
  margins.resize(model.learn_with(optimizer, rows.view(), margins.data()));
  return margins;
}

bool same(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

}  // namespace

int main() {
  using Rates = ByBlockFtrl::Rates;
  const Rates usual{0.2, 1, 0.05, 0.1}, none{0.2, 1, 1e30, 0};
  int check = 0;
  for (const bool everything_high : {false, true}) {
    const std::uint32_t high = everything_high ? 0 : order;
    const auto plain = learned(everything_high, high, pqr::Ftrl(usual));
    const auto linear = learned(false, 0, pqr::Ftrl(usual));
    const auto alike = learned(everything_high, high, ByBlockFtrl(usual, usual, usual));
    const auto without = learned(everything_high, high, ByBlockFtrl(usual, none, none));
    const auto pairs = learned(everything_high, high, ByBlockFtrl(usual, usual, none));
    const auto own = learned(everything_high, high, ByBlockFtrl(usual, none, usual));
    if (++check; !same(alike, plain)) return check;
    if (++check; !same(without, linear)) return check;
    if (++check; same(pairs, plain) || same(pairs, linear)) return check;
    if (++check; same(own, plain) || same(own, linear) || same(own, pairs)) return check;
  }
}
