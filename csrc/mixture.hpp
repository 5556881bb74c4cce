// What eight experts predict, mixed into one prediction. It knows no model: margins come in, a
// margin goes out, then comes the label. B is the Bayes mixture of the experts, S stacks their
// margins, and F, the Bayes mixture of B and S, is the answer:
//   pi_k ~ exp(-eta L_k), B = sum of pi_k u_k;  rho ~ exp(-eta L) of {B, S}, F = rho_B B + rho_S S
// where u_k is the prediction of expert k and L_k its loss so far. docs/auto.md has the
// guarantee.
//
// Log loss:  eta = 1 / w_max, where w_max is the largest row weight so far, at least 1
//            m_S = m_B + sum of a_k (clip(m_k, +-8) - m_B) + a_0 clip(m_B, +-8),  m_B = logit B
// Squared:   eta = 1 / (2 R^2 w_max), R the width of the range of labels so far, to which margins
//            are clipped; S is centred on the same mixture with s^2 = (min L_k + 1) / t for R^2
// The weights a of the stacker take a full-covariance Kalman step.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

#include "elementary.hpp"
#include "lanes.hpp"
#include "loss.hpp"

namespace pqr {

constexpr std::size_t experts = 8;                // measured: four are worse, sixteen no better
constexpr std::size_t forecasters = experts + 4;  // with the stacker: vectors hold four

// The least curvature of the log loss that counts, so that sure predictions add information, too.
constexpr double flattest = 1e-4;  // reached at margins of +-9.2

PQR_ALWAYS_INLINE inline double sum_of(Four x) { return (x[0] + x[2]) + (x[1] + x[3]); }

template <std::size_t size>
PQR_ALWAYS_INLINE inline double product(const double* x, const double* y) {
  Four sum = {};
  for (std::size_t k = 0; k < size; k += 4) sum += read_as<Four>(x + k) * read_as<Four>(y + k);
  return sum_of(sum);
}

// The slopes of a loss at the margins that steps lead to: s = w (link(m - V s) - y).
// Squared: s = w (m - y) / (1 + w V). Log: by Newton's method between 0 and w (link(m) - y), for
// all at once, because each step waits for an exp; it starts from the loss's third-order expansion
// and has a second-order correction, so that one or two steps do. `links` are those of the margins.
template <std::size_t size>
PQR_ALWAYS_INLINE inline void implicit_slopes(Loss loss, const double* margins, const double* links,
                                              const double* variances, double label, double weight,
                                              double* slopes) {
  constexpr std::size_t fours = size / 4;
  constexpr int most_steps = 40;  // halving the interval would do in as many
  constexpr double near = 0.02;   // of margins: a step triples the digits, so 1e-6 or less is left
  const bool squared = loss == Loss::squared;
  Four m[fours], V[fours], s[fours], low[fours], high[fours];  // V is w V, and s is s / w
  for (std::size_t f = 0; f < fours; ++f) {
    m[f] = read_as<Four>(margins + 4 * f);
    V[f] = weight * read_as<Four>(variances + 4 * f);
    const Four p = read_as<Four>(links + 4 * f), h = squared ? all(1.0) : p * (1.0 - p);
    const Four steepest = p - label, first = 1.0 / (1.0 + V[f] * h), u = V[f] * steepest * first;
    const Four bent = squared ? Four{} : 0.5 * h * (1.0 - 2.0 * p) * (u * u);
    const Four flat = steepest / (1.0 + 0.25 * V[f]);
    s[f] = larger(u, -u) < 1.0 || squared ? (steepest + bent) * first : flat;
    low[f] = smaller(steepest, Four{});
    high[f] = larger(steepest, Four{});
  }
  for (int step = 0; step < most_steps && !squared; ++step) {
    Four moved = {};
    for (std::size_t f = 0; f < fours; ++f) {
      const Four p = sigmoid_of(m[f] - V[f] * s[f]), bend = V[f] * (p * (1.0 - p));
      const Four miss = s[f] - (p - label);  // rises with s, by 1 + bend
      const Four first = 1.0 / (1.0 + bend), by = miss * first;
      const Four second = 0.5 * V[f] * bend * (1.0 - 2.0 * p) * first;
      const Four next = s[f] - by * (1.0 - by * second);
      high[f] = miss > 0.0 ? s[f] : high[f];
      low[f] = miss > 0.0 ? low[f] : s[f];
      const Four middle = 0.5 * (low[f] + high[f]);
      s[f] = larger(next, low[f]) == smaller(next, high[f]) ? next : middle;
      moved = larger(moved, V[f] * larger(by, -by));
    }
    if (std::max(std::max(moved[0], moved[1]), std::max(moved[2], moved[3])) <= near) break;
  }
  for (std::size_t f = 0; f < fours; ++f) write(slopes + 4 * f, weight * s[f]);
}

// The losses of what is mixed and of the mixture itself: on the labels that posteriors see
// (`counted`), and on the real ones. `excess` is what rows that raised the largest weight lost
// beyond what their posterior had paid for.
template <std::size_t size>
struct Bayes {
  std::array<double, size> counted{}, lost{};
  double own = 0.0, excess = 0.0;

  double least() const { return *std::min_element(counted.begin(), counted.end()); }

  // -1/eta ln mean exp(-eta L): what a Bayes mixture has lost at most.
  double potential(double eta) const {
    double sum = 0.0;
    for (const double loss : counted) sum += exp_of(eta * (least() - loss));
    return least() - log_of(sum / size) / eta;
  }

  // Losses of those that are mixed, then of the mixture.
  PQR_ALWAYS_INLINE void count(const double* seen, const double* real, double eta, double new_eta) {
    const double before = new_eta < eta ? potential(eta) : 0.0;
    for (std::size_t k = 0; k < size; ++k) {
      counted[k] += seen[k];
      lost[k] += real[k];
    }
    own += real[size];
    if (new_eta < eta) excess += std::max(0.0, seen[size] - (potential(new_eta) - before));
  }
};

// A linear model of up to nine inputs by a full-covariance Kalman step:
//   V = f'Pf;  a -= P f s;  P -= h P f f' P / (1 + h V);  P grows by 1e-4 of itself while its trace
//   is below 0.9, so that old rows are forgotten slowly
struct Stacker {
  static constexpr std::size_t inputs = experts + 1, size = forecasters;  // padded with zeros
  // Measured (docs/notes/auto-prototype.md). The trace of nine stays about what it was at first.
  static constexpr double first_variance = 0.1, most_variance = 0.9;
  static constexpr double forgetting = 1e-4;  // of P, per row: it doubles in 7,000
  std::array<double, size> a{};
  std::array<double, inputs * size> P{};  // symmetric, each line padded to `size`

  explicit Stacker(std::size_t used) {
    for (std::size_t i = 0; i < used; ++i) P[i * size + i] = first_variance;
  }

  // Pf goes to `gain`, which was zero; returns V.
  PQR_ALWAYS_INLINE double prepare(const double* f, double* gain) const {
    for (std::size_t i = 0; i < inputs; ++i) gain[i] = product<size>(P.data() + i * size, f);
    return product<size>(f, gain);
  }

  PQR_ALWAYS_INLINE void step(const double* gain, double variance, double slope, double h) {
    const double shrink = h / (1.0 + h * variance);
    double trace = 0.0;
    for (std::size_t i = 0; i < inputs; ++i) {
      trace += P[i * size + i] - shrink * (gain[i] * gain[i]);
    }
    const double growth = trace < most_variance ? 1.0 + forgetting : 1.0;
    for (std::size_t k = 0; k < size; k += 4) {
      const Four g = read_as<Four>(gain + k);
      write(a.data() + k, read_as<Four>(a.data() + k) - slope * g);
      for (std::size_t i = 0; i < inputs; ++i) {
        double* const p = P.data() + i * size + k;
        write(p, (read_as<Four>(p) - shrink * (gain[i] * g)) * growth);
      }
    }
  }
};

class Mixture {
 public:
  explicit Mixture(Loss loss)
      : stacker(loss == Loss::squared ? experts : experts + 1), loss_(loss) {
    refresh();
  }

  // A row's predictions. `links` and `margins` are those of the experts, then of the stacker;
  // `values` is what is scored: predictions of the experts, clipped, then B, S and F.
  struct Mixed {
    double margins[forecasters], links[forecasters], values[forecasters];
    double inputs[Stacker::size];
    double margin;  // of the answer
  };

  // Completes a row of which the margins of the experts are known.
  PQR_ALWAYS_INLINE void mix(Mixed& mixed) const {
    const bool squared = loss_ == Loss::squared;
    const Four least = pqr::all(!squared ? edge : total > 0.0 ? low : 0.0);
    const Four most = pqr::all(!squared ? 1.0 - edge : total > 0.0 ? high : 0.0);
    for (std::size_t k = 0; k < experts; k += 4) {
      const Four link = link_of(read_as<Four>(mixed.margins + k));
      write(mixed.links + k, link);
      write(mixed.values + k, clamped(link, least, most));
    }
    const double bayes = product<experts>(shares_.data(), mixed.values);
    const double centre = squared ? product<experts>(centre_.data(), mixed.values) : logit(bayes);
    const Four reaches = pqr::all(reach);
    for (std::size_t k = 0; k < experts; k += 4) {
      const Four m = clamped(read_as<Four>(mixed.margins + k), -reaches, reaches);
      write(mixed.inputs + k, (squared ? read_as<Four>(mixed.values + k) : m) - centre);
    }
    write(mixed.inputs + experts, Four{squared ? 0.0 : clamped(centre, -reach, reach)});
    const Four margin = pqr::all(centre + product<Stacker::size>(stacker.a.data(), mixed.inputs)),
               link = link_of(margin);
    write(mixed.margins + experts, margin);
    write(mixed.links + experts, link);
    const double stacked = clamped(link, least, most)[0];
    const double final = (1.0 - stacked_share_) * bayes + stacked_share_ * stacked;
    write(mixed.values + experts, Four{bayes, stacked, final, 0.5});
    mixed.margin = squared ? final : logit(final);
  }

  // Learns the label of a row whose weight is > 0.
  PQR_ALWAYS_INLINE void learn(const Mixed& mixed, double label, double weight) {
    const double eta = this->eta(), most = std::max(largest, weight);
    const double new_eta = eta * largest / most;
    const double seen_label =
        loss_ == Loss::squared && total > 0.0 ? clamped(label, low, high) : label;
    double seen[forecasters], real[forecasters];
    lose(mixed.values, seen_label, weight, seen);
    std::copy_n(seen, forecasters, real);
    if (seen_label != label) lose(mixed.values, label, weight, real);
    all.count(seen, real, eta, new_eta);
    two.count(seen + experts, real + experts, eta, new_eta);
    teach(mixed, label, weight);
    largest = most;
    total += weight;
    low = std::min(low, label);
    high = std::max(high, label);
    refresh();
  }

  // Computes the posteriors for the next row from the losses.
  PQR_ALWAYS_INLINE void refresh() {
    shares_ = posterior(eta());
    centre_ = loss_ == Loss::squared ? posterior(0.5 / noise()) : shares_;
    stacked_share_ = sigmoid_of(pqr::all(eta() * (two.counted[0] - two.counted[1])))[0];
  }

  Bayes<experts> all;
  Bayes<2> two;  // B and S
  Stacker stacker;
  double largest = 1.0, total = 0.0;  // row weight: the largest so far, and their sum
  double low = std::numeric_limits<double>::infinity(), high = -low;  // of labels so far

 private:
  static constexpr double edge = 1e-7;  // from 0 and 1: a row costs an expert 16.1 nats at most
  static constexpr double reach = 8.0;  // of margins that are stacked: 1 in 3,000; measured

  Loss loss_;
  std::array<double, experts> shares_{}, centre_{};
  double stacked_share_ = 0.5;  // of S, in F

  double eta() const {
    const double width = std::max(0.0, high - low);
    const double price = loss_ == Loss::squared ? 2.0 * width * width * largest : largest;
    return price > 0.0 ? 1.0 / price : 0.0;
  }
  double noise() const { return (all.least() + 1.0) / std::max(total, 1.0); }  // s^2

  PQR_ALWAYS_INLINE static double logit(double p) { return log_of(p / (1.0 - p)); }
  PQR_ALWAYS_INLINE Four link_of(Four margin) const {
    return loss_ == Loss::squared ? margin : sigmoid_of(margin);
  }

  PQR_ALWAYS_INLINE std::array<double, experts> posterior(double eta) const {
    const double least = all.least();
    std::array<double, experts> shares;
    Four sum = {};
    for (std::size_t k = 0; k < experts; k += 4) {
      const Four height = exp_of(eta * (least - read_as<Four>(all.counted.data() + k)));
      write(shares.data() + k, height);
      sum += height;
    }
    const double whole = sum_of(sum);
    for (std::size_t k = 0; k < experts; k += 4) {
      write(shares.data() + k, read_as<Four>(shares.data() + k) / whole);
    }
    return shares;
  }

  PQR_ALWAYS_INLINE void lose(const double* values, double label, double weight,
                              double* losses) const {
    for (std::size_t k = 0; k < forecasters; k += 4) {
      const Four u = read_as<Four>(values + k);
      write(losses + k, loss_ == Loss::squared ? weight * ((u - label) * (u - label))
                                               : -weight * log_of(label > 0.0 ? u : 1.0 - u));
    }
  }

  PQR_ALWAYS_INLINE void teach(const Mixed& mixed, double label, double weight) {
    const bool squared = loss_ == Loss::squared;
    const double* const link = mixed.links + experts;
    const double by = squared ? weight / noise() : weight;
    const double h = squared ? by : by * std::max(*link * (1.0 - *link), flattest);
    double gain[Stacker::size] = {}, variances[4], slopes[4];
    write(variances, pqr::all(stacker.prepare(mixed.inputs, gain)));
    implicit_slopes<4>(loss_, mixed.margins + experts, link, variances, label, by, slopes);
    stacker.step(gain, variances[0], slopes[0], h);
  }
};

}  // namespace pqr
