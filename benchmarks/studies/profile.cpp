// The hot loop without Python, for profile.py:
//   profile learn FOLDER ORDER ROWS PASSES   nanoseconds per row of each pass, as JSON; under
//                                            callgrind only `measured` counts, the last pass
//   profile machine                          what the machine can do, as JSON
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "model.hpp"

namespace {

using pqr::Rows;
using Clock = std::chrono::steady_clock;

double nanoseconds(Clock::time_point from) {
  return std::chrono::duration<double, std::nano>(Clock::now() - from).count();
}

template <class T>
std::vector<T> contents(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (!file) std::exit(1);
  std::fseek(file, 0, SEEK_END);
  std::vector<T> found(static_cast<std::size_t>(std::ftell(file)) / sizeof(T));
  std::rewind(file);
  if (std::fread(found.data(), sizeof(T), found.size(), file) != found.size()) std::exit(1);
  std::fclose(file);
  return found;
}

__attribute__((noinline)) void measured(pqr::Model& model, const Rows& rows, double* margins) {
  model.learn(rows, margins);
}

void learn(const std::string& folder, std::size_t order, std::size_t rows, int passes) {
  const auto indices = contents<std::uint32_t>(folder + "/indices");
  const auto labels = contents<double>(folder + "/labels");
  const auto high = contents<std::uint32_t>(folder + "/high");
  const std::size_t fields = indices.size() / labels.size();
  std::vector<std::int64_t> indptr(rows + 1);
  for (std::size_t r = 0; r <= rows; ++r) indptr[r] = static_cast<std::int64_t>(r * fields);
  const std::vector<float> values(rows * fields, 1.0f), weights(rows, 1.0f);
  auto separation = std::make_shared<pqr::Separation>();
  for (std::size_t i = 0; i < order; ++i) separation->append(high[i]);
  pqr::Model model({pqr::Loss::logistic, true, false, 1.0f}, pqr::Ftrl({0.1, 1, 0, 0}),
                   std::move(separation));
  std::vector<double> margins(rows);
  const Rows batch{indptr.data(), indices.data(), values.data(),
                   labels.data(), weights.data(), rows};
  std::printf("[");
  for (int pass = 1; pass <= passes; ++pass) {
    const auto start = Clock::now();
    if (pass < passes) {
      model.learn(batch, margins.data());
    } else {
      measured(model, batch, margins.data());
    }
    std::printf("%s%.1f", pass > 1 ? ", " : "", nanoseconds(start) / static_cast<double>(rows));
  }
  std::printf("]\n");
}

volatile std::uint64_t sink;

// Additions that wait for each other take a cycle each.
double gigahertz() {
  constexpr std::uint64_t adds = 400'000'000;
  std::uint64_t sum = 1;
  const auto start = Clock::now();
  for (std::uint64_t i = 0; i < adds; ++i) asm volatile("add $1, %0" : "+r"(sum));
  const double taken = nanoseconds(start);
  sink = sum;
  return adds / taken;
}

void machine() {
  constexpr std::size_t words = std::size_t{1} << 26;  // 512 MB
  constexpr std::size_t lines = words / 8;
  constexpr std::size_t loads = std::size_t{1} << 22;
  pqr::Arena arena;
  auto* memory = arena.take<std::uint64_t>(words);
  for (std::size_t i = 0; i < words; ++i) memory[i] = i;
  std::uint64_t sum = 0;
  auto start = Clock::now();
  for (std::size_t i = 0; i < words; ++i) sum += memory[i];
  const double streamed = words * 8 / nanoseconds(start);
  std::uint64_t at = 1;
  start = Clock::now();
  for (std::size_t i = 0; i < loads; ++i) {  // addresses do not wait for what is loaded
    at = at * 6364136223846793005u + 1442695040888963407u;
    sum += memory[(at >> 20) % lines * 8];
  }
  const double random = nanoseconds(start) / loads;
  sink = sum;
  std::printf("{\"gigahertz\": %.2f, \"streamed\": %.1f, \"random\": %.1f}\n", gigahertz(),
              streamed, random);
}

}  // namespace

int main(int count, char** given) {
  const std::string what = count > 1 ? given[1] : "";
  if (what == "machine" && count == 2) {
    machine();
  } else if (what == "learn" && count == 6) {
    learn(given[2], std::strtoul(given[3], nullptr, 10), std::strtoul(given[4], nullptr, 10),
          std::atoi(given[5]));
  } else {
    return 2;
  }
}
