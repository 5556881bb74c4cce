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

// 64 features: a bit for each says whether it has a value, and the run holds those values in order
// of feature.
struct Group {
  // What stands in front of the values. A run may be moved, and then tells its group.
  struct Run {
    Group* group;
  };

  std::uint64_t bits;
  Run* run;
};

// All zeros is a chunk without values.
struct Chunk {
  Group groups[chunk_size / 64];
  std::uint32_t used;  // values in all groups

  Group& group(std::uint32_t key) { return groups[(key & chunk_mask) / 64]; }
};

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

// The runs of packed chunks. Runs of one length lie side by side in blocks; where one is given up,
// the last of its length takes its place. So there are no holes, whatever lengths are in demand.
// A block is as large as a chunk that is a plain array, and one can become the other.
template <class T>
class Packed {
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= alignof(Group::Run));

 public:
  static T* find(const Group& group, std::uint32_t key) {
    const std::uint64_t bit = bit_of(key);
    return group.bits & bit ? values(group.run) + ones(group.bits & (bit - 1)) : nullptr;
  }

  // Asks for the value, or for where it would be.
  static void prefetch(const Group& group, std::uint32_t key) {
    if (group.bits != 0) fetch(values(group.run) + ones(group.bits & (bit_of(key) - 1)));
  }

  // For a key that is not there. `moved` as in Table::make.
  T* add(Chunk& chunk, std::uint32_t key, Arena& arena, bool& moved) {
    Group& group = chunk.group(key);
    const std::uint64_t bit = bit_of(key);
    const std::uint32_t count = ones(group.bits), before = ones(group.bits & (bit - 1));
    if (length(count + 1) != length(count)) {
      lengthen(group, count, arena);
      moved |= count > 0;
    }
    T* all = values(group.run);
    std::copy_backward(all + before, all + count, all + count + 1);
    all[before] = T{};
    group.bits |= bit;
    ++chunk.used;
    return all + before;
  }

  // In order of key, of which only the part within the chunk is known here.
  template <class Visit>
  static void each(const Chunk& chunk, Visit visit) {
    std::uint32_t first = 0;
    for (const Group& group : chunk.groups) {
      std::uint32_t before = 0;
      for (std::uint64_t left = group.bits; left != 0; left &= left - 1) {
        visit(first + static_cast<std::uint32_t>(__builtin_ctzll(left)),
              values(group.run)[before++]);
      }
      first += 64;
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

  // The same, with the values of a chunk, which is given up.
  T* array(Chunk* chunk, Arena& arena) {
    T* to = array(arena);
    each(*chunk, [&](std::uint32_t at, const T& value) { to[at] = value; });
    for (const Group& group : chunk->groups) give_up(group.run, length(ones(group.bits)));
    *chunk = {};
    chunks_.push_back(chunk);
    return to;
  }

 private:
  using Run = Group::Run;
  using Block = unsigned char*;
  static constexpr std::size_t block_bytes = chunk_size * sizeof(T);
  static constexpr std::size_t step = 32;  // by which runs get longer

  // Blocks of runs of one length, all full but the last.
  struct Stack {
    std::vector<Block> blocks;
    std::size_t used = 0;  // runs in the last block
  };

  // In steps; 0 for a group without values, which has no run.
  static constexpr std::size_t length(std::size_t count) {
    return count == 0 ? 0 : (sizeof(Run) + count * sizeof(T) + step - 1) / step;
  }
  std::array<Stack, length(64) + 1> stacks_;  // by length
  std::vector<Block> blocks_;                 // free ones
  std::vector<Chunk*> chunks_;                // free ones, zeroed

  static std::uint64_t bit_of(std::uint32_t key) { return std::uint64_t{1} << (key & 63); }
  static T* values(Run* run) { return reinterpret_cast<T*>(run + 1); }

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

  void lengthen(Group& group, std::uint32_t count, Arena& arena) {
    Run* longer = take(length(count + 1), arena);
    longer->group = &group;
    if (count > 0) std::copy_n(values(group.run), count, values(longer));
    give_up(group.run, length(count));
    group.run = longer;
  }
};

}  // namespace pqr
