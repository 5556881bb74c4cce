// Libsvm text made from its grammar, then spoilt a little, for the checks of libsvm.cpp: the fast
// reader at -O2, as it is shipped, against its reference.
//
//   grammar [-runs=N] [-max_total_time=SECONDS] [-seed=S] [-artifact_prefix=PATH]
//
// Every text has a seed of its own, S and up. When one breaks a promise, its seed is printed and
// the text is written to PATH + "crash": grammar -runs=1 -seed=SEED makes it again.

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

class Text {
 public:
  explicit Text(std::uint64_t seed) : state_(seed) {}

  // Two bytes of options, as in the corpus, and up to four lines.
  const std::string& make() {
    text_.clear();
    text_ += static_cast<char>('@' + below(64));
    text_ += static_cast<char>(below(64));
    if (one_in(50)) text_ += "\xef\xbb\xbf";
    for (std::size_t lines = 1 + below(4); lines > 0; --lines) line();
    if (one_in(4)) text_.pop_back();  // no newline at the end
    if (one_in(2)) spoil();
    return text_;
  }

 private:
  std::uint64_t state_;
  std::string text_;

  std::uint64_t next() {  // SplitMix64
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  std::size_t below(std::size_t end) {
    return static_cast<std::size_t>((next() >> 32) * end >> 32);
  }
  bool one_in(std::size_t n) { return below(n) == 0; }

  template <std::size_t size>
  void any(const std::array<const char*, size>& words) {
    text_ += words[below(size)];
  }

  void digits(std::size_t most) {
    for (std::size_t left = 1 + below(most); left > 0; --left) {
      text_ += static_cast<char>('0' + below(10));
    }
  }

  // Where readers of numbers differ: the ends of floats, ties, long digits, exponents.
  void edge() {
    any<26>({"3.4028235e38",
             "3.4028236e38",
             "3.40282357e38",
             "1e-45",
             "7.0064923e-46",
             "1e-46",
             "1.17549435e-38",
             "16777217",
             "9007199254740993",
             "1.7976931348623157e308",
             "1.7976931348623159e308",
             "2.2250738585072011e-308",
             "4.9e-324",
             "-0",
             "00",
             "1.",
             ".5",
             "+1",
             "1e400",
             "1e-400",
             "0.000000000000000000000000000001",
             "1e9223372036854775807",
             "18446744073709551617",
             "00000000000000000000000001",
             "000000000000000000000000000000000000000000000000001e-48",
             "0.00000000000000000000000000000000000000000000000001e48"});
  }

  void number() {
    if (one_in(12)) return edge();
    if (one_in(40)) return any<8>({"nan", "inf", "", ".", "e5", "1e", "--1", "0x1p3"});
    if (one_in(6)) text_ += one_in(2) ? '-' : '+';
    digits(one_in(8) ? 24 : 3);
    if (one_in(2)) {
      text_ += '.';
      digits(one_in(8) ? 24 : 6);
    }
    if (one_in(6)) {
      any<4>({"e", "E", "e-", "e+"});
      digits(one_in(4) ? 3 : 2);
    }
  }

  void index() {
    if (one_in(30)) {
      return any<6>({"4294967295", "4294967296", "0", "007", "99999999999", "-1"});
    }
    digits(1 + below(one_in(3) ? 9 : 4));
  }

  void space() { any<8>({" ", " ", " ", " ", " ", " ", "\t", "  "}); }

  void feature(bool ones) {
    space();
    if (one_in(40)) return any<4>({"qid:7", "qid:", "qid:\x01", "7"});
    index();
    text_ += ':';
    if (ones) {
      text_ += '1';
    } else {
      number();
    }
  }

  void line() {
    if (one_in(16)) return any<5>({"\n", " \t\n", "# a comment\n", "\r\n", " # 1 1:1\r\n"});
    any<8>({"0", "1", "-1", "1", "0", "", "2.5", "1.0"});
    if (text_.back() < '0' || one_in(16)) number();
    if (one_in(6)) {
      text_ += ':';
      number();
    }
    const bool ones = one_in(3);  // has a fast path of its own
    for (std::size_t left = below(one_in(6) ? 24 : 5); left > 0; --left) feature(ones);
    if (one_in(20)) text_ += " # a comment 1:1";
    text_ += one_in(10) ? "\r\n" : "\n";
  }

  void spoil() {
    static constexpr char bytes[] = " \t\n\r:#.eE+-0123456789qid\0\x7f\xff";
    for (std::size_t times = 1 + below(3); times > 0; --times) {
      const std::size_t at = below(text_.size());
      const char byte = bytes[below(sizeof bytes - 1)];
      switch (below(4)) {
        case 0:
          text_.insert(at, 1, byte);
          break;
        case 1:
          text_.erase(at, 1 + below(4));
          break;
        case 2:
          text_.insert(at, text_, below(text_.size()), below(12));
          break;
        default:
          text_[at] = byte;
      }
      if (text_.empty()) text_ = "@";
    }
  }
};

std::uint64_t seed = 1;
std::string running, crash_path = "crash";

void save_and_die(int signal) {  // the process is broken anyway
  std::fprintf(stderr, "%s: seed %llu, in %s\n", signal == SIGALRM ? "no answer" : "died",
               static_cast<unsigned long long>(seed), crash_path.c_str());
  const int file = open(crash_path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644);
  if (file < 0 || write(file, running.data(), running.size()) < 0) std::perror("crash");
  _exit(1);
}

}  // namespace

int main(int count, char** texts) {
  std::uint64_t most = UINT64_MAX, seconds = 1'000'000'000;
  for (int i = 1; i < count; ++i) {
    const std::string given = texts[i], name = given.substr(0, given.find('='));
    const std::string value = given.substr(name.size() + (name.size() < given.size()));
    if (name == "-runs") most = std::stoull(value);
    if (name == "-max_total_time") seconds = std::stoull(value);
    if (name == "-seed") seed = std::stoull(value);
    if (name == "-artifact_prefix") crash_path = value + "crash";
  }
  for (const int signal : {SIGABRT, SIGALRM, SIGSEGV}) std::signal(signal, save_and_die);
  const auto start = std::chrono::steady_clock::now();
  const auto passed = [&] { return std::chrono::steady_clock::now() - start; };
  std::uint64_t runs = 0;
  for (; runs < most && (runs % 1024 != 0 || passed() < std::chrono::seconds(seconds)); ++runs) {
    if (runs % 1024 == 0) alarm(60);
    running = Text(seed).make();
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(running.data()), running.size());
    ++seed;
  }
  std::printf("done: %llu inputs in %.0f s\n", static_cast<unsigned long long>(runs),
              std::chrono::duration<double>(passed()).count());
}
