// Values of features that come neither thick nor thin, without gaps between them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "memory.hpp"

namespace pqr {

constexpr std::uint32_t chunk_bits = 12;
constexpr std::uint32_t chunk_size = 1u << chunk_bits;
constexpr std::uint32_t chunk_mask = chunk_size - 1;

// How many bits are set. Nearly every x86 has an instruction for it, but a compiler that uses it
// unasked makes programs for no other.
inline std::uint32_t ones(std::uint64_t bits) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (__builtin_cpu_supports("popcnt")) {
    asm("popcnt %0, %0" : "+r"(bits));
    return static_cast<std::uint32_t>(bits);
  }
#endif
  bits -= bits >> 1 & 0x5555555555555555u;
  bits = (bits & 0x3333333333333333u) + (bits >> 2 & 0x3333333333333333u);
  bits = (bits + (bits >> 4)) & 0x0F0F0F0F0F0F0F0Fu;
  return static_cast<std::uint32_t>((bits * 0x0101010101010101u) >> 56);
}

// 256 features: a bit for each says whether it has a value, and the run holds those values in order
// of feature.
struct Group {
  // What stands in front of the values. A run may be moved, and then tells its group.
  struct Run {
    Group* group;
  };
  static constexpr std::uint32_t features = 256;

  std::uint64_t bits[features / 64];
  Run* run;
  std::uint8_t before[features / 64];  // values of the words in front of each
  std::uint16_t count;                 // of all values

  static std::uint32_t word_of(std::uint32_t key) { return key % features / 64; }
  static std::uint64_t bit_of(std::uint32_t key) { return std::uint64_t{1} << (key & 63); }

  bool has(std::uint32_t key) const { return bits[word_of(key)] & bit_of(key); }

  // Of the key's value in the run, or where it would be.
  std::uint32_t place(std::uint32_t key) const {
    const std::uint32_t word = word_of(key);
    return before[word] + ones(bits[word] & (bit_of(key) - 1));
  }

  void set(std::uint32_t key) {
    bits[word_of(key)] |= bit_of(key);
    for (std::uint32_t word = word_of(key) + 1; word < features / 64; ++word) ++before[word];
    ++count;
  }
};

// All zeros is a chunk without values.
struct Chunk {
  Group groups[chunk_size / Group::features];

  Group& group(std::uint32_t key) { return groups[(key & chunk_mask) / Group::features]; }

  std::uint32_t used() const {  // values in all groups
    std::uint32_t sum = 0;
    for (const Group& group : groups) sum += group.count;
    return sum;
  }
};

// The runs of packed chunks. Runs of one length lie side by side in blocks; where one is given up,
// the last of its length takes its place. So there are no holes, whatever lengths are in demand.
// A block is as large as a chunk that is a plain array, and one can become the other.
template <class T>
class Packed {
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= cache_line);  // as of blocks

 public:
  static T* find(const Group& group, std::uint32_t key) {
    return group.has(key) ? values(group.run) + group.place(key) : nullptr;
  }

  // Asks for the value, or for where it would be.
  static void prefetch(const Group& group, std::uint32_t key) {
    if (group.run) fetch_value(values(group.run) + group.place(key));
  }

  // For a key that is not there. `moved` as in Table::make.
  T* add(Chunk& chunk, std::uint32_t key, Arena& arena, bool& moved) {
    Group& group = chunk.group(key);
    const std::uint32_t place = group.place(key), count = group.count;
    if (length(count + 1) != length(count)) {
      lengthen(group, arena);
      moved |= count > 0;
    }
    T* all = values(group.run);
    std::copy_backward(all + place, all + count, all + count + 1);
    all[place] = T{};
    group.set(key);
    return all + place;
  }

  // In order of key, of which only the part within the chunk is known here.
  template <class Visit>
  static void each(const Chunk& chunk, Visit visit) {
    std::uint32_t first = 0;
    for (const Group& group : chunk.groups) {
      std::uint32_t place = 0;
      for (std::uint64_t left : group.bits) {
        for (; left != 0; left &= left - 1) {
          visit(first + static_cast<std::uint32_t>(__builtin_ctzll(left)),
                values(group.run)[place++]);
        }
        first += 64;
      }
    }
  }

  Chunk* chunk(Arena& arena) {
    if (chunks_.empty()) return arena.take<Chunk>(1);
    Chunk* chunk = chunks_.back();
    chunks_.pop_back();
    return chunk;
  }

  // The values of a whole chunk, all initial.
  T* array(Arena& arena) {
    T* array = reinterpret_cast<T*>(block(arena));
    std::fill_n(array, chunk_size, T{});
    return array;
  }

  // Moves the values of a chunk, which is given up, to an array of initial ones.
  void move(Chunk* chunk, T* to) {
    each(*chunk, [&](std::uint32_t at, const T& value) { to[at] = value; });
    for (const Group& group : chunk->groups) give_up(group.run, length(group.count));
    *chunk = {};
    chunks_.push_back(chunk);
  }

 private:
  using Run = Group::Run;
  using Block = unsigned char*;
  static constexpr std::size_t block_bytes = chunk_size * sizeof(T);
  static constexpr std::size_t step = 4 * sizeof(T);  // by which runs get longer
  static constexpr std::size_t values_at = std::max(sizeof(Run), alignof(T));  // within a run
  static_assert(step % alignof(Run) == 0);

  // Blocks of runs of one length, all full but the last.
  struct Stack {
    std::vector<Block> blocks;
    std::size_t used = 0;  // runs in the last block
  };

  // In steps; 0 for a group without values, which has no run.
  static constexpr std::size_t length(std::size_t count) {
    return count == 0 ? 0 : (values_at + count * sizeof(T) + step - 1) / step;
  }
  std::array<Stack, length(Group::features) + 1> stacks_;  // by length
  std::vector<Block> blocks_;                              // free ones
  std::vector<Chunk*> chunks_;                             // free ones, zeroed

  static T* values(Run* run) {
    return reinterpret_cast<T*>(reinterpret_cast<unsigned char*>(run) + values_at);
  }

  Block block(Arena& arena) {
    if (blocks_.empty()) return arena.take<unsigned char>(block_bytes);
    const Block block = blocks_.back();
    blocks_.pop_back();
    return block;
  }

  static Run* last(const Stack& stack, std::size_t length) {
    return reinterpret_cast<Run*>(stack.blocks.back() + (stack.used - 1) * length * step);
  }

  Run* take(std::size_t length, Arena& arena) {
    Stack& stack = stacks_[length];
    if (stack.blocks.empty() || stack.used == block_bytes / (length * step)) {
      stack.blocks.push_back(block(arena));
      stack.used = 0;
    }
    ++stack.used;
    return last(stack, length);
  }

  void give_up(Run* run, std::size_t length) {
    if (length == 0) return;
    Stack& stack = stacks_[length];
    Run* moved = last(stack, length);
    if (run != moved) {
      std::memcpy(run, moved, length * step);
      run->group->run = run;
    }
    if (--stack.used == 0) {
      blocks_.push_back(stack.blocks.back());
      stack.blocks.pop_back();
      stack.used = block_bytes / (length * step);
    }
  }

  void lengthen(Group& group, Arena& arena) {
    Run* longer = take(length(group.count + 1u), arena);
    longer->group = &group;
    if (group.count > 0) std::copy_n(values(group.run), group.count, values(longer));
    give_up(group.run, length(group.count));
    group.run = longer;
  }
};

}  // namespace pqr
