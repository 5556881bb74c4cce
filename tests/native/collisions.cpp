// Keys chosen to collide, by somebody who knows everything but the seed of the process.
// test_collisions.py builds and runs it: it prints the most probes that one key takes, of keys
// that collide under a known seed, first under that seed, then at worst under twenty random ones.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#define private public  // probes are counted where they happen
#include "../../csrc/names.hpp"
#undef private

namespace {

constexpr pqr::Seed known{0x243F6A8885A308D3ull, 0x13198A2E03707345ull};
constexpr std::size_t enough = 2000;

// The first keys whose hashes begin with the same bits.
std::vector<std::uint32_t> colliding_keys() {
  std::vector<std::uint32_t> keys;
  for (std::uint64_t key = 0; keys.size() < enough && key < 1ull << 32; ++key) {
    if (known.mix(static_cast<std::uint32_t>(key)) >> 20 == 0) {
      keys.push_back(static_cast<std::uint32_t>(key));
    }
  }
  return keys;
}

// Names whose hashes end with the same bits, which is where a table looks.
std::vector<std::string> colliding_names() {
  const pqr::Names names(known);
  std::vector<std::string> found;
  for (std::uint64_t n = 0; found.size() < enough; ++n) {
    std::string name = "id=" + std::to_string(n);
    if ((names.hash(name) & 0xFFF) == 0) found.push_back(std::move(name));
  }
  return found;
}

std::size_t most_probes(const std::vector<std::uint32_t>& keys, const pqr::Seed& seed) {
  pqr::HashTable<std::uint32_t> table(seed);
  bool moved = false;
  for (const std::uint32_t key : keys) table.make(key, moved);
  std::size_t most = 0;
  for (const std::uint32_t key : keys) {
    std::uint32_t at = table.home(key);
    std::size_t probes = 1;
    for (; !table.buckets()[at].match(key); ++probes) at = (at + 1) & (table.size_ - 1);
    most = std::max(most, probes);
  }
  return most;
}

std::size_t most_probes(const std::vector<std::string>& all, const pqr::Seed& seed) {
  pqr::Names names(seed);
  std::uint32_t index = 0;
  for (const std::string& name : all) names.add(index++, name);
  std::size_t most = 0;
  for (const std::string& name : all) {
    const std::uint32_t mixed = names.hash(name);
    const std::size_t at = names.bucket_of(name, mixed, names.first_like(mixed));
    most = std::max(most, 1 + ((at - mixed) & names.mask_));
  }
  return most;
}

template <class Key>
void print(const char* what, const std::vector<Key>& keys) {
  std::size_t worst = 0;
  for (int n = 0; n < 20; ++n) worst = std::max(worst, most_probes(keys, pqr::Seed::random()));
  std::printf("%s %zu %zu\n", what, most_probes(keys, known), worst);
}

}  // namespace

int main() {
  print("indices", colliding_keys());
  print("names", colliding_names());
}
