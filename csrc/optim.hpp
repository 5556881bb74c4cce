// A slot and its optimizers: the only place that names one. Over one coordinate an optimizer is a
// rule of pure functions: weight(), step(), and slot(), the inverse of weight(). There is no table,
// no loop and no row here. An optimizer declares
//   name, rates    what it is called, and its settings by name, in order
//   scalars        the names of its global scalars; get() and set() read and restore them
//   at<Real>(b)    the rule of a coordinate in block b: one for the bias, one for all others
//   has_sum, term  what it sums over the slots of a row, before and after the step
//   end_row        what happens after a row, given how much that sum has grown; the factor by which
//                  all slots are to be multiplied now, as a rule 1
//   is_valid       which slots it can reach
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <tuple>
#include <variant>

#include "lanes.hpp"

namespace pqr {

// Which group a coordinate is in.
enum class Block : std::uint32_t { bias, linear, pair, shared, square };

// One coordinate's optimizer state. FTRL-Proximal keeps z and the square root of
// n, because then a step takes one square root instead of two; the others keep one
// sum, in z.
template <class Real>
struct Slot {
  Real z{};
  Real root_n{};
};

// Whether both are 0, or -0. As whole numbers: of floats, compilers make two branches.
inline bool is_initial(const Slot<float>& slot) {
  std::uint32_t bits[2];
  static_assert(sizeof bits == sizeof slot);
  std::memcpy(bits, &slot, sizeof bits);
  return (bits[0] | bits[1]) << 1 == 0;
}

// FTRL-Proximal (Algorithm 2):
//   w = 0                                                  if |z| <= l1
//   w = -(z - sgn(z) l1) / ((beta + sqrt(n)) / alpha + l2)  otherwise
//   sigma = (sqrt(n + g^2) - sqrt(n)) / alpha;  z += g - sigma w;  n += g^2
template <class Real>
struct Proximal {
  Real inverse_alpha;
  Real ridge;  // beta / alpha + l2
  Real l1;
  static constexpr Real least = std::numeric_limits<Real>::min();

  template <class V>
  PQR_ALWAYS_INLINE V weight(Slot<V> slot) const {
    const V inside = larger(smaller(slot.z, l1 - V{}), -l1 - V{});  // z itself if |z| <= l1
    // Before the first step z = 0, and so is the divisor where beta = l2 = 0.
    return (inside - slot.z) / larger(slot.root_n * inverse_alpha + ridge, least - V{});
  }

  // `weight` is the slot's weight before the step: sigma pulls towards it.
  template <class V>
  PQR_ALWAYS_INLINE Slot<V> step(Slot<V> slot, V weight, V gradient) const {
    const V root_n = root(slot.root_n * slot.root_n + gradient * gradient);
    const V sigma = (root_n - slot.root_n) * inverse_alpha;
    return {slot.z + (gradient - sigma * weight), root_n};
  }

  // A slot that has this weight after gradients whose squares add up to n.
  Slot<Real> slot(Real weight, Real n) const {
    const Real root_n = std::sqrt(n);
    const Real inside = weight == 0 ? 0 : std::copysign(l1, weight);
    return {-inside - weight * (root_n * inverse_alpha + ridge), root_n};
  }
};

// Weights that are one common factor times a sum of gradients.
template <class Real>
struct Summed {
  Real factor;
  Real rate;

  template <class V>
  PQR_ALWAYS_INLINE V weight(Slot<V> slot) const {
    return factor * slot.z;
  }
  template <class V>
  PQR_ALWAYS_INLINE Slot<V> step(Slot<V> slot, V, V gradient) const {
    return {slot.z + rate * gradient, V{}};
  }
  Slot<Real> slot(Real weight, Real) const { return {weight / factor, 0}; }
};

// States that many more rows cannot lead out of the range of a float: root_n is squared.
inline bool is_small(double z, double root_n) {
  return std::fabs(z) <= 1e30 && root_n >= 0.0 && root_n <= 1e18;
}

class Ftrl {
 public:
  static constexpr const char* name = "ftrl";
  static constexpr std::array rates{"alpha", "beta", "l1", "l2"};
  static constexpr std::array<const char*, 0> scalars{};
  static constexpr bool has_sum = false;

  explicit Ftrl(const std::array<double, rates.size()>& given)
      : rules_{rule<float>(given), rule<double>(given)} {}

  template <class Real>
  PQR_ALWAYS_INLINE Proximal<Real> at(Block block) const {
    auto rule = std::get<Proximal<Real>>(rules_);
    if (block == Block::bias) rule.l1 = 0;  // l1 never applies to it
    return rule;
  }
  double end_row(double) { return 1.0; }
  static bool is_valid(double z, double root_n) { return is_small(z, root_n); }
  std::array<double, 0> get() const { return {}; }
  bool set(const std::array<double, 0>&) { return true; }

 private:
  std::tuple<Proximal<float>, Proximal<double>> rules_;

  template <class Real>
  static Proximal<Real> rule(const std::array<double, rates.size()>& given) {
    const auto [alpha, beta, l1, l2] = given;
    return {static_cast<Real>(1.0 / alpha), static_cast<Real>(beta / alpha + l2),
            static_cast<Real>(l1)};
  }
};

// What the two optimizers below share: weights are a common factor times what the slots hold, and
// the squared norm of that is kept.
struct SummedOptimizer {
  static constexpr bool has_sum = true;
  static double term(double z) { return z * z; }
  static bool is_valid(double z, double root_n) { return is_small(z, 0.0) && root_n == 0.0; }
};

// Online gradient descent: theta <- P(theta - eta_t g), with eta_t = eta or
// eta / sqrt(t), and P the projection onto the ball of a radius. Lazily: theta is
// `scale` times what the slots hold, so that projecting touches no slot.
class Ogd : public SummedOptimizer {
 public:
  static constexpr const char* name = "ogd";
  static constexpr std::array rates{"eta", "decays", "radius"};
  static constexpr std::array scalars{"rows", "scale", "norm2"};

  explicit Ogd(const std::array<double, rates.size()>& given)
      : eta_(given[0]), decays_(given[1] != 0.0), radius_(given[2]) {}

  template <class Real>
  Summed<Real> at(Block) const {
    const double eta = decays_ ? eta_ / std::sqrt(rows_ + 1.0) : eta_;
    return {static_cast<Real>(scale_), static_cast<Real>(-eta / scale_)};
  }
  // Slots are 1 / scale times their weights, so they take over a scale of less than a millionth.
  double end_row(double change) {
    rows_ += 1.0;
    norm2_ = std::fmax(0.0, norm2_ + change);
    const double norm = scale_ * std::sqrt(norm2_);
    if (norm > radius_) scale_ *= radius_ / norm;
    if (scale_ >= 1e-6) return 1.0;
    const double taken = scale_;
    norm2_ *= scale_ * scale_;
    scale_ = 1.0;
    return taken;
  }
  std::array<double, scalars.size()> get() const { return {rows_, scale_, norm2_}; }
  bool set(const std::array<double, scalars.size()>& given) {
    if (!(given[0] >= 0.0 && given[1] > 0.0 && given[2] >= 0.0)) return false;
    rows_ = given[0], scale_ = given[1], norm2_ = given[2];
    return true;
  }

 private:
  double eta_;
  bool decays_;
  double radius_;
  double rows_ = 0.0;  // learned
  double scale_ = 1.0;
  double norm2_ = 0.0;  // of what the slots hold, squared
};

// FTRL (Algorithm 1) with R = |theta|^2 / 2, over all space or a ball:
//   theta = -eta G, or the point of the ball nearest to it; G the sum of gradients.
class GeneralFtrl : public SummedOptimizer {
 public:
  static constexpr const char* name = "ftrl-general";
  static constexpr std::array rates{"eta", "radius"};
  static constexpr std::array scalars{"norm2"};

  explicit GeneralFtrl(const std::array<double, rates.size()>& given)
      : eta_(given[0]), radius_(given[1]) {}

  template <class Real>
  Summed<Real> at(Block) const {
    const double norm = eta_ * std::sqrt(norm2_);
    return {static_cast<Real>(norm > radius_ ? -eta_ * (radius_ / norm) : -eta_), 1};
  }
  double end_row(double change) {
    norm2_ = std::fmax(0.0, norm2_ + change);
    return 1.0;
  }
  std::array<double, scalars.size()> get() const { return {norm2_}; }
  bool set(const std::array<double, scalars.size()>& given) {
    if (!(given[0] >= 0.0)) return false;
    norm2_ = given[0];
    return true;
  }

 private:
  double eta_;
  double radius_;
  double norm2_ = 0.0;  // of G, squared
};

using Optimizer = std::variant<Ftrl, Ogd, GeneralFtrl>;

// Gives `work` the optimizer that was chosen: the loop is compiled for each.
template <class Any, class Work>
auto with_optimizer(Any& any, Work work) {
  return std::visit(work, any);
}

}  // namespace pqr
