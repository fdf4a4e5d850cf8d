// A fuzzer for compilers without libFuzzer: every file of a folder, then mutants of them, for some seconds.
//
// Usage: PROGRAM FOLDER SECONDS [SEED], or PROGRAM FILE. The input of a crash lies in ./crash-input.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "input.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace {

using Input = std::vector<std::uint8_t>;

constexpr std::size_t kMaxInput = 1U << 18;
constexpr std::uint64_t kInteresting[] = {0,    1,    2,     127,   128,        255,       2047,
                                          4095, 4096, 65535, 65536, 0x7FFFFFFF, 0xFFFFFFFF};

Input current;

Input read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void keep_input() {
  const int file = open("crash-input", O_CREAT | O_WRONLY | O_TRUNC, 0644);
  if (file < 0 || write(file, current.data(), current.size()) < 0) return;
  close(file);
}

void on_abort(int) {
  keep_input();
  std::signal(SIGABRT, SIG_DFL);
  std::abort();
}

class Mutator {
 public:
  Mutator(std::vector<Input> seeds, std::uint64_t seed) : seeds_(std::move(seeds)), random_(seed) {}

  Input next() {
    Input input = seeds_[below(seeds_.size())];
    for (std::size_t left = 1 + below(6); left > 0; --left) mutate(input);
    if (input.size() > kMaxInput) input.resize(kMaxInput);
    return input;
  }

 private:
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_() % bound); }

  // Half of the places are in the first bytes: choices, descriptors and tables lie there.
  std::size_t place(const Input& input) {
    return below(below(2) == 0 ? std::min<std::size_t>(input.size(), 96) : input.size());
  }

  void mutate(Input& input) {
    if (input.empty()) input.push_back(0);
    const std::size_t at = place(input);
    const std::size_t run = 1 + below(std::min<std::size_t>(input.size() - at, 64));
    const auto from = input.begin() + static_cast<std::ptrdiff_t>(at);
    switch (below(8)) {
      case 0: input[at] = static_cast<std::uint8_t>(input[at] ^ 1U << below(8)); return;
      case 1: input[at] = static_cast<std::uint8_t>(random_()); return;
      case 2: put_number(input, at, kInteresting[below(std::size(kInteresting))]); return;
      case 3: add_number(input, at); return;
      case 4: input.erase(from, from + static_cast<std::ptrdiff_t>(run)); return;
      case 5: input.insert(from, run, static_cast<std::uint8_t>(random_())); return;
      case 6: input.resize(at + 1); return;
      default: splice(input, at, run); return;
    }
  }

  void put_number(Input& input, std::size_t at, std::uint64_t value) {
    const std::size_t bytes = std::size_t{1} << below(3);
    for (std::size_t k = 0; k < std::min(bytes, input.size() - at); ++k) {
      input[at + k] = static_cast<std::uint8_t>(value >> (8 * k));
    }
  }

  void add_number(Input& input, std::size_t at) {
    std::uint32_t value = 0;
    const std::size_t bytes = std::min<std::size_t>(4, input.size() - at);
    for (std::size_t k = 0; k < bytes; ++k) value |= std::uint32_t{input[at + k]} << (8 * k);
    value += static_cast<std::uint32_t>(below(17)) - 8;
    for (std::size_t k = 0; k < bytes; ++k) input[at + k] = static_cast<std::uint8_t>(value >> (8 * k));
  }

  void splice(Input& input, std::size_t at, std::size_t run) {
    const Input& other = seeds_[below(seeds_.size())];
    if (other.empty()) return;
    const std::size_t from = below(other.size());
    const std::size_t size = std::min({run, other.size() - from, input.size() - at});
    std::copy_n(other.begin() + static_cast<std::ptrdiff_t>(from), size,
                input.begin() + static_cast<std::ptrdiff_t>(at));
  }

  std::vector<Input> seeds_;
  std::mt19937_64 random_;
};

void run(Input input) {
  current = std::move(input);
  LLVMFuzzerTestOneInput(current.data(), current.size());
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) {
    std::fprintf(stderr, "usage: %s FOLDER SECONDS [SEED], or %s FILE\n", arguments[0], arguments[0]);
    return 2;
  }
  std::signal(SIGABRT, on_abort);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_set_death_callback(keep_input);
#endif
  if (count == 2) {
    run(read_file(arguments[1]));
    return 0;
  }
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(arguments[1])) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<Input> seeds;
  for (const auto& path : paths) seeds.push_back(read_file(path));
  if (seeds.empty()) {
    std::fprintf(stderr, "%s: expected files, found none\n", arguments[1]);
    return 2;
  }
  for (const Input& seed : seeds) run(seed);
  Mutator mutator(std::move(seeds), count > 3 ? std::stoull(arguments[3]) : 0);
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::seconds(std::stoll(arguments[2]));
  std::size_t done = 0;
  for (; Clock::now() < end; ++done) run(mutator.next());
  std::printf("%s: %zu files, %zu mutants, no fault\n", arguments[0], paths.size(), done);
  return 0;
}
