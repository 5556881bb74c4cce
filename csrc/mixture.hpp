// What eight experts predict, mixed into one prediction. It knows no model: margins come in, a
// margin goes out, then comes the label. B is the Bayes mixture of the experts, S stacks their
// margins, and F, the Bayes mixture of B and S, is the answer:
//   pi_k ~ exp(-eta L_k)    B = sum of pi_k u_k      rho ~ exp(-eta L) over {B, S}    F = rho_B B +
//   rho_S S
// where u_k is the prediction of expert k and L_k its loss so far. docs/auto.md has the guarantee.
//
// Log loss:  eta = 1 / w_max, where w_max is the largest row weight so far, at least 1
//            m_S = m_B + sum of a_k (clip(m_k, +-8) - m_B) + a_0 clip(m_B, +-8),  m_B = logit B
// Squared:   eta = 1 / (2 R^2 w_max), R the width of the range of labels so far, to which margins
// are
//            clipped; S is centred on the same mixture with s^2 = (min L_k + 1) / t in place of R^2
// The weights a of the stacker take a full-covariance Kalman step.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "avx2.hpp"
#include "elementary.hpp"
#include "lanes.hpp"
#include "loss.hpp"

namespace pqr {

constexpr std::size_t experts = 8;

constexpr double flattest = 1e-4;  // the least curvature of the log loss that counts

// The slopes of a loss at the margins that steps lead to: s = w (link(m - V s) - y).
// Squared: s = w (m - y) / (1 + w V). Log: by Newton's method between 0 and w (link(m) - y), for
// all at once, because each step waits for an exp. The curvature on the way is at most 1/4, and at
// most that at m where the step leads away from 1/2. `links` are those of the margins.
template <std::size_t size>
PQR_ALWAYS_INLINE inline void implicit_slopes(Loss loss, const double* margins, const double* links,
                                              const double* variances, double label, double weight,
                                              double* slopes) {
  constexpr std::size_t fours = size / 4;
  constexpr int most_steps = 40;
  constexpr double near = 1e-4;  // of a step that doubles the digits: the next would be 1e-8
  Four m[fours], V[fours], s[fours], low[fours], high[fours];
  for (std::size_t f = 0; f < fours; ++f) {
    m[f] = read_as<Four>(margins + 4 * f);
    V[f] = weight * read_as<Four>(variances + 4 * f);
    const Four p = read_as<Four>(links + 4 * f);
    const Four steepest = weight * (p - label);
    low[f] = smaller(steepest, Four{});
    high[f] = larger(steepest, Four{});
    const Four bend = larger(p - label, label - p) < 0.5 ? p * (1.0 - p) : all(0.25);
    s[f] = steepest / (1.0 + V[f] * (loss == Loss::squared ? all(1.0) : bend));
  }
  const double inverse = 1.0 / weight;
  for (int step = 0; step < most_steps && loss != Loss::squared; ++step) {
    Four far = {};
    for (std::size_t f = 0; f < fours; ++f) {
      const Four p = sigmoid_of(m[f] - V[f] * (s[f] * inverse));
      const Four miss = s[f] - weight * (p - label);  // rises with s
      const Four next = s[f] - miss / (1.0 + V[f] * (p * (1.0 - p)));
      high[f] = miss > 0.0 ? s[f] : high[f];
      low[f] = miss > 0.0 ? low[f] : s[f];
      const Four middle = 0.5 * (low[f] + high[f]);
      const Four inside = larger(next, low[f]) == smaller(next, high[f]) ? next : middle;
      far = larger(far, larger(inside - s[f], s[f] - inside) - near * larger(inside, -inside));
      s[f] = inside;
    }
    if (std::max(std::max(far[0], far[1]), std::max(far[2], far[3])) <= 0.0) break;
  }
  for (std::size_t f = 0; f < fours; ++f) write(slopes + 4 * f, s[f]);
}

// Work on the experts, four at a time: it is given the first of them.
template <class Work>
PQR_ALWAYS_INLINE inline void by_four(Work work) {
  work(std::size_t{0});
  work(std::size_t{4});
}

PQR_ALWAYS_INLINE inline double sum_of(const double* x) {
  return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}

// The losses of what is mixed and of the mixture itself: on the labels that posteriors see
// (`counted`), and on the real ones. `excess` is what rows that raised the largest weight lost
// beyond what their posterior had paid for.
template <std::size_t size>
struct Bayes {
  std::array<double, size> counted{}, lost{};
  double own = 0.0, excess = 0.0;

  PQR_ALWAYS_INLINE std::array<double, size> posterior(double eta) const {
    const double least = *std::min_element(counted.begin(), counted.end());
    std::array<double, size> shares{};
    double sum = 0.0;
    for (std::size_t k = 0; k < size; ++k) sum += shares[k] = exp_of(eta * (least - counted[k]));
    for (double& share : shares) share /= sum;
    return shares;
  }

  // -1/eta ln mean exp(-eta L): what a Bayes mixture has lost at most.
  double potential(double eta) const {
    const double least = *std::min_element(counted.begin(), counted.end());
    double sum = 0.0, mean = 0.0;
    for (const double loss : counted) {
      sum += exp_of(eta * (least - loss));
      mean += loss / size;
    }
    return eta == 0.0 ? mean : least - log_of(sum / size) / eta;
  }

  void count(const double* seen, double own_seen, const double* real, double own_real, double eta,
             double new_eta) {
    const double before = new_eta < eta ? potential(eta) : 0.0;
    for (std::size_t k = 0; k < size; ++k) {
      counted[k] += seen[k];
      lost[k] += real[k];
    }
    own += own_real;
    if (new_eta < eta) excess += std::max(0.0, own_seen - (potential(new_eta) - before));
  }
};

// A linear model of up to nine inputs by a full-covariance Kalman step:
//   V = f'Pf;  a -= P f s;  P -= h P f f' P / (1 + h V);  P grows by 1e-4 of itself while its trace
//   is below 0.9, so that old rows are forgotten slowly
class Stacker {
 public:
  static constexpr std::size_t size = experts + 1;
  std::array<double, size> a{};
  std::array<double, size * size> P{};  // symmetric

  explicit Stacker(std::size_t inputs) {
    for (std::size_t i = 0; i < inputs; ++i) P[i * size + i] = 0.1;
  }

  double margin(const double* f) const {
    double sum = 0.0;
    for (std::size_t i = 0; i < size; ++i) sum += a[i] * f[i];
    return sum;
  }

  // Pf, kept for the step; returns V.
  double prepare(const double* f) {
    double variance = 0.0;
    for (std::size_t i = 0; i < size; ++i) {
      double sum = 0.0;
      for (std::size_t j = 0; j < size; ++j) sum += P[i * size + j] * f[j];
      gain_[i] = sum;
      variance += f[i] * sum;
    }
    return variance;
  }

  void step(double variance, double slope, double h) {
    const double shrink = h / (1.0 + h * variance);
    double trace = 0.0;
    for (std::size_t i = 0; i < size; ++i) {
      a[i] -= slope * gain_[i];
      for (std::size_t j = 0; j < size; ++j) P[i * size + j] -= shrink * (gain_[i] * gain_[j]);
      trace += P[i * size + i];
    }
    if (trace >= 0.9) return;
    for (double& p : P) p *= 1.0 + 1e-4;
  }

 private:
  std::array<double, size> gain_{};
};

class Mixture {
 public:
  explicit Mixture(Loss loss)
      : stacker(loss == Loss::squared ? experts : experts + 1), loss_(loss) {}

  // What is made of a row: predictions, and what the stacker's was made of.
  struct Mixed {
    double links[experts], values[experts];  // of the margins; the same, clipped
    double bayes, stacked, final;
    double inputs[Stacker::size];
    double stacked_margin, stacked_link;
    double margin;  // of the answer
  };

  PQR_ALWAYS_INLINE Mixed mix(const double* margins) const {
    return loss_ == Loss::squared ? mix_squared(margins) : mix_log(margins);
  }

  // After the label has come, for a row of weight > 0.
  PQR_ALWAYS_INLINE void learn(const Mixed& mixed, double label, double weight) {
    const double eta = this->eta(), most = std::max(largest, weight);
    const double new_eta = eta * largest / most;
    const double seen_label = nearest(label);
    const double pair[2] = {mixed.bayes, mixed.stacked};
    double seen[experts], real[experts];
    const auto lose = [&](const double* values, std::size_t size) {
      for (std::size_t k = 0; k < size; ++k) {
        seen[k] = weight * loss_of(values[k], seen_label);
        real[k] = seen_label == label ? seen[k] : weight * loss_of(values[k], label);
      }
    };
    if (loss_ == Loss::squared) {
      lose(mixed.values, experts);
    } else {
      by_four([&](std::size_t k) PQR_ALWAYS_INLINE {
        const Four p = read_as<Four>(mixed.values + k);
        write(seen + k, -weight * log_of(label > 0.0 ? p : 1.0 - p));
      });
      std::copy_n(seen, experts, real);
    }
    const auto own = [&](double value, double at) { return weight * loss_of(value, at); };
    all.count(seen, own(mixed.bayes, seen_label), real, own(mixed.bayes, label), eta, new_eta);
    lose(pair, 2);
    two.count(seen, own(mixed.final, seen_label), real, own(mixed.final, label), eta, new_eta);
    teach(mixed, label, weight);
    largest = most;
    total += weight;
    low = std::min(low, label);
    high = std::max(high, label);
  }

  // The answer as a linear function of the experts' margins, as far as it is one.
  std::array<double, experts> coefficients() const {
    const auto shares = posterior();
    const auto two_shares = two.posterior(eta());
    const auto centre = loss_ == Loss::squared ? all.posterior(0.5 / noise()) : shares;
    double rest = 1.0;
    for (std::size_t k = 0; k < experts; ++k) rest -= stacker.a[k];
    rest += stacker.a[experts];
    std::array<double, experts> found{};
    for (std::size_t k = 0; k < experts; ++k) {
      const double stacked = centre[k] * rest + stacker.a[k];
      found[k] = two_shares[0] * shares[k] + two_shares[1] * stacked;
    }
    return found;
  }

  double eta() const { return price() > 0.0 ? 1.0 / price() : 0.0; }
  std::array<double, experts> posterior() const { return all.posterior(eta()); }
  // What the answer has lost beyond the best expert, and what that cannot exceed.
  double regret() const { return two.own - *std::min_element(all.lost.begin(), all.lost.end()); }
  double bound() const {
    const double width = this->width();
    const double widenings = loss_ == Loss::squared ? largest * width * width : 0.0;
    return log_of(2.0 * experts) * price() + widenings + all.excess + two.excess;
  }

  Bayes<experts> all;
  Bayes<2> two;  // B and S
  Stacker stacker;
  double largest = 1.0, total = 0.0;  // row weight: the largest so far, and their sum
  double low = std::numeric_limits<double>::infinity(), high = -low;  // of labels so far

 private:
  static constexpr double edge = 1e-7;  // probabilities stay this far from 0 and 1
  static constexpr double reach = 8.0;  // of margins, where the stacker takes them

  Loss loss_;

  double width() const { return std::max(0.0, high - low); }
  // 1 / eta.
  double price() const {
    return loss_ == Loss::squared ? 2.0 * width() * width() * largest : largest;
  }
  double nearest(double label) const {
    return loss_ == Loss::squared && total > 0.0 ? std::clamp(label, low, high) : label;
  }
  PQR_ALWAYS_INLINE double loss_of(double value, double label) const {
    if (loss_ == Loss::squared) return (value - label) * (value - label);
    return -log_of(label > 0.0 ? value : 1.0 - value);
  }

  // What the experts say, mixed by the posterior of this eta.
  PQR_ALWAYS_INLINE double mixed_by(double eta, const double* values) const {
    const double* const losses = all.counted.data();
    const double least = *std::min_element(losses, losses + experts);
    double heights[experts], products[experts];
    by_four([&](std::size_t k) PQR_ALWAYS_INLINE {
      const Four exponent = eta * (least - read_as<Four>(losses + k));
      const Four height = exp_of(larger(exponent, pqr::all(-700.0)));
      write(heights + k, height);
      write(products + k, height * read_as<Four>(values + k));
    });
    return sum_of(products) / sum_of(heights);
  }

  PQR_ALWAYS_INLINE Mixed mix_log(const double* margins) const {
    Mixed mixed;
    by_four([&](std::size_t k) PQR_ALWAYS_INLINE {
      const Four p = sigmoid_of(read_as<Four>(margins + k));
      write(mixed.links + k, p);
      write(mixed.values + k, clamped(p, pqr::all(edge), pqr::all(1.0 - edge)));
    });
    mixed.bayes = mixed_by(eta(), mixed.values);
    const double centre = log_of(mixed.bayes / (1.0 - mixed.bayes));
    for (std::size_t k = 0; k < experts; ++k) {
      mixed.inputs[k] = std::clamp(margins[k], -reach, reach) - centre;
    }
    mixed.inputs[experts] = std::clamp(centre, -reach, reach);
    mixed.stacked_margin = centre + stacker.margin(mixed.inputs);
    mixed.stacked_link = sigmoid_of(mixed.stacked_margin);
    mixed.stacked = std::clamp(mixed.stacked_link, edge, 1.0 - edge);
    finish(mixed);
    mixed.margin = log_of(mixed.final / (1.0 - mixed.final));
    return mixed;
  }

  PQR_ALWAYS_INLINE Mixed mix_squared(const double* margins) const {
    Mixed mixed;
    for (std::size_t k = 0; k < experts; ++k) {
      mixed.links[k] = margins[k];
      mixed.values[k] = total > 0.0 ? std::clamp(margins[k], low, high) : 0.0;
    }
    mixed.bayes = mixed_by(eta(), mixed.values);
    const double centre = mixed_by(0.5 / noise(), mixed.values);
    for (std::size_t k = 0; k < experts; ++k) mixed.inputs[k] = mixed.values[k] - centre;
    mixed.inputs[experts] = 0.0;
    mixed.stacked_margin = centre + stacker.margin(mixed.inputs);
    mixed.stacked_link = mixed.stacked_margin;
    mixed.stacked = total > 0.0 ? std::clamp(mixed.stacked_margin, low, high) : 0.0;
    finish(mixed);
    mixed.margin = mixed.final;
    return mixed;
  }

  PQR_ALWAYS_INLINE void finish(Mixed& mixed) const {
    const auto shares = two.posterior(eta());
    mixed.final = shares[0] * mixed.bayes + shares[1] * mixed.stacked;
  }

  // s^2.
  double noise() const {
    return (*std::min_element(all.counted.begin(), all.counted.end()) + 1.0) / std::max(total, 1.0);
  }

  PQR_ALWAYS_INLINE void teach(const Mixed& mixed, double label, double weight) {
    const double by = loss_ == Loss::squared ? weight / noise() : weight;
    const double variance = stacker.prepare(mixed.inputs), margin = mixed.stacked_margin;
    const double p = mixed.stacked_link;
    const double h = loss_ == Loss::squared ? by : by * std::max(p * (1.0 - p), flattest);
    const double margins[4] = {margin, margin, margin, margin}, links[4] = {p, p, p, p};
    const double variances[4] = {variance, variance, variance, variance};
    double slopes[4];
    implicit_slopes<4>(loss_, margins, links, variances, label, by, slopes);
    stacker.step(variance, slopes[0], h);
  }
};

}  // namespace pqr
