// Runs a fuzz target where there is no libFuzzer, with the flags that libFuzzer would take:
//
//   target [-runs=N] [-max_total_time=SECONDS] [-seed=S] [-max_len=BYTES] [-dict=FILE]
//          [-artifact_prefix=PATH] FILE-OR-FOLDER...
//
// Files and folders are replayed first. Without -runs and -max_total_time that is all; with them,
// inputs are mutated at random, and those that reach new code are mutated further. The same seed
// gives the same inputs. When the target dies or hangs, the input is written to PATH + "crash".

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

// ---- what an input reaches -----------------------------------------------------

namespace {

constexpr std::size_t map_size = 1 << 16;
std::uint8_t hits[map_size];      // of the input that runs, by edge
std::uint32_t touched[map_size];  // the edges with hits
std::size_t touched_size = 0;
std::size_t previous_block = 0;
std::uint8_t seen[map_size];  // by edge: a bit for each magnitude of hits, of all inputs so far

}  // namespace

// Called at every block of code that was compiled with -fsanitize-coverage=trace-pc.
extern "C" __attribute__((no_sanitize("address", "undefined"))) void __sanitizer_cov_trace_pc() {
  const auto base = reinterpret_cast<std::uintptr_t>(&LLVMFuzzerTestOneInput);
  const std::size_t block = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)) - base;
  const std::size_t edge = (block * 31 ^ previous_block) % map_size;
  previous_block = block;
  if (hits[edge] == 0) touched[touched_size++] = static_cast<std::uint32_t>(edge);
  if (hits[edge] != 255) ++hits[edge];
}

// A report ends in SIGABRT, whichever sanitizer wrote it. The rest is for speed; ASAN_OPTIONS can
// ask for longer traces when a crash is replayed.
extern "C" const char* __asan_default_options() {
  return "abort_on_error=1:malloc_context_size=3:quarantine_size_mb=16";
}
extern "C" const char* __ubsan_default_options() { return "abort_on_error=1:print_stacktrace=1"; }

namespace {

// Forgets the input's hits; true when one of them was of a new edge or magnitude.
bool take_coverage() {
  bool fresh = false;
  for (std::size_t t = 0; t < touched_size; ++t) {
    std::uint8_t& count = hits[touched[t]];
    int magnitude = 0;
    while ((count >> magnitude) > 1) ++magnitude;
    const auto bit = static_cast<std::uint8_t>(1 << magnitude);
    fresh = fresh || (seen[touched[t]] & bit) == 0;
    seen[touched[t]] |= bit;
    count = 0;
  }
  touched_size = previous_block = 0;
  return fresh;
}

// ---- one input -----------------------------------------------------------------

using Bytes = std::vector<std::uint8_t>;

Bytes running;
std::string crash_path = "crash";

// Only calls that a signal handler may make.
void save_and_die(int signal) {
  const int file = open(crash_path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644);
  const bool saved = file >= 0 && write(file, running.data(), running.size()) >= 0;
  const char* const words[] = {signal == SIGALRM ? "no answer" : "died",
                               saved ? "; the input is in " : "; could not write ",
                               crash_path.c_str(), "\n"};
  for (const char* word : words) {
    if (write(2, word, std::strlen(word)) < 0) break;
  }
  _exit(1);
}

bool run(const Bytes& input) {
  constexpr unsigned patience = 20;  // seconds
  running = input;
  alarm(patience);
  LLVMFuzzerTestOneInput(running.data(), running.size());
  return take_coverage();
}

// ---- mutations -----------------------------------------------------------------

class Mutator {
 public:
  std::vector<Bytes> corpus{Bytes{}};
  std::vector<Bytes> words;

  Mutator(std::uint64_t seed, std::size_t max_len) : random_(seed), max_len_(max_len) {}

  Bytes make() {
    Bytes bytes = std::min(any_input(), any_input(), shorter);  // short ones run sooner
    for (std::size_t steps = 1 + below(4); steps > 0; --steps) mutate(bytes);
    bytes.resize(std::min(bytes.size(), max_len_));
    return bytes;
  }

 private:
  std::mt19937_64 random_;
  std::size_t max_len_;

  std::size_t below(std::size_t end) { return static_cast<std::size_t>(random_() % end); }
  std::uint8_t any_byte() { return static_cast<std::uint8_t>(below(256)); }

  // A stretch of `bytes`, short more often than long.
  std::pair<std::size_t, std::size_t> stretch(const Bytes& bytes) {
    const std::size_t begin = below(bytes.size() + 1);
    const std::size_t most = std::min(bytes.size() - begin, std::size_t{1} << below(8));
    return {begin, begin + below(most + 1)};
  }

  static auto at(Bytes& bytes, std::size_t n) {
    return bytes.begin() + static_cast<std::ptrdiff_t>(n);
  }

  void replace(Bytes& bytes, std::size_t begin, std::size_t end, const Bytes& with) {
    bytes.erase(at(bytes, begin), at(bytes, end));
    bytes.insert(at(bytes, begin), with.begin(), with.end());
  }

  const Bytes& any_input() { return corpus[below(corpus.size())]; }
  static bool shorter(const Bytes& a, const Bytes& b) { return a.size() < b.size(); }

  Bytes piece_of(Bytes from) {
    const auto [begin, end] = stretch(from);
    return {at(from, begin), at(from, end)};
  }

  void mutate(Bytes& bytes) {
    const auto [begin, end] = stretch(bytes);
    switch (below(7)) {
      case 0:
        if (begin < bytes.size()) bytes[begin] ^= static_cast<std::uint8_t>(1 << below(8));
        break;
      case 1:
        if (begin < bytes.size()) bytes[begin] = any_byte();
        break;
      case 2:
        return replace(bytes, begin, end, {});
      case 3:
        return replace(bytes, begin, begin, piece_of(bytes));
      case 4:
        return replace(bytes, begin, end, piece_of(any_input()));
      default:
        return replace(bytes, begin, below(2) == 0 ? begin : end, word());
    }
  }

  Bytes word() { return words.empty() ? Bytes{any_byte()} : words[below(words.size())]; }
};

// ---- files ---------------------------------------------------------------------

Bytes contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    std::exit(2);
  }
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

std::vector<std::filesystem::path> files_in(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return {path};
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Lines such as "qid:" or "\x0d\x0a", in quotes; others are comments.
std::vector<Bytes> dictionary(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<Bytes> words;
  for (std::string line; std::getline(file, line);) {
    if (line.size() < 2 || line.front() != '"' || line.back() != '"') continue;
    Bytes word;
    for (std::size_t i = 1; i + 1 < line.size(); ++i) {
      const bool hex = line[i] == '\\' && line[i + 1] == 'x';
      if (line[i] == '\\' && !hex) ++i;
      const int byte = hex ? std::stoi(line.substr(i + 2, 2), nullptr, 16) : line[i];
      if (hex) i += 3;
      word.push_back(static_cast<std::uint8_t>(byte));
    }
    words.push_back(word);
  }
  return words;
}

struct Arguments {
  std::uint64_t runs = 0, seconds = 0, seed = 1, max_len = 512;
  std::string dictionary;
  std::vector<std::string> paths;
};

Arguments arguments_of(int count, char** texts) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string text = texts[i];
    const std::size_t sign = text.find('=');
    const std::string name = text.substr(0, sign);
    const std::string value = sign == std::string::npos ? "" : text.substr(sign + 1);
    if (name == "-runs")
      arguments.runs = std::stoull(value);
    else if (name == "-max_total_time")
      arguments.seconds = std::stoull(value);
    else if (name == "-seed")
      arguments.seed = std::stoull(value);
    else if (name == "-max_len")
      arguments.max_len = std::stoull(value);
    else if (name == "-dict")
      arguments.dictionary = value;
    else if (name == "-artifact_prefix")
      crash_path = value + "crash";
    else
      arguments.paths.push_back(text);
  }
  return arguments;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void report(const char* head, std::uint64_t runs, double seconds, std::size_t kept) {
  std::printf("%s: %llu inputs in %.0f s (%.0f a second), %zu reached something new\n", head,
              static_cast<unsigned long long>(runs), seconds,
              static_cast<double>(runs) / std::max(seconds, 1e-9), kept);
  std::fflush(stdout);
}

void fuzz(const Arguments& arguments, Mutator& mutator) {
  constexpr std::size_t most_kept = 1 << 14;
  const auto start = std::chrono::steady_clock::now();
  const std::size_t given = mutator.corpus.size();
  std::uint64_t runs = 0;
  const auto go_on = [&] {
    if (arguments.runs > 0 && runs >= arguments.runs) return false;
    return arguments.seconds == 0 || runs % 256 != 0 ||
           seconds_since(start) < static_cast<double>(arguments.seconds);
  };
  for (; go_on(); ++runs) {
    Bytes input = mutator.make();
    const bool fresh = run(input);
    if (fresh && mutator.corpus.size() < most_kept) mutator.corpus.push_back(std::move(input));
    if (runs >= 1 << 20 && (runs & (runs - 1)) == 0) {
      report("so far", runs, seconds_since(start), mutator.corpus.size() - given);
    }
  }
  report("done", runs, seconds_since(start), mutator.corpus.size() - given);
}

}  // namespace

int main(int count, char** texts) {
  const Arguments arguments = arguments_of(count, texts);
  for (const int signal : {SIGABRT, SIGALRM}) std::signal(signal, save_and_die);
  Mutator mutator(arguments.seed, arguments.max_len);
  if (!arguments.dictionary.empty()) mutator.words = dictionary(arguments.dictionary);
  for (const std::string& path : arguments.paths) {
    for (const auto& file : files_in(path)) {
      mutator.corpus.push_back(contents(file));
      run(mutator.corpus.back());
    }
  }
  std::printf("replayed %zu inputs\n", mutator.corpus.size() - 1);
  if (arguments.runs > 0 || arguments.seconds > 0) fuzz(arguments, mutator);
  alarm(0);
}
