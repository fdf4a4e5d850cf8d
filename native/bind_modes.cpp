#include "bind_modes.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <vector>

#include "buffers.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace s4 {
namespace {

std::size_t sum_of(const Counts& counts) noexcept {
  std::size_t sum = 0;
  for (const std::uint32_t count : counts) sum += count;
  return sum;
}

// Histograms, 256 counts of 32 bits each, as they lie in memory.
std::vector<Counts> read_histograms(nb::handle histograms) {
  const View view(histograms);
  const Bytes bytes = view.bytes();
  if (bytes.size() % sizeof(Counts) != 0) throw nb::value_error("histograms: expected a multiple of 1024 bytes");
  std::vector<Counts> counts(bytes.size() / sizeof(Counts));
  if (!bytes.empty()) std::memcpy(counts.data(), bytes.data(), bytes.size());
  for (const Counts& one : counts) {
    const std::size_t total = sum_of(one);
    if (total == 0 || total > UINT32_MAX) throw nb::value_error("histograms: expected 1 to 2^32 - 1 symbols in each");
  }
  return counts;
}

nb::list choose_modes(nb::handle histograms, const std::vector<std::size_t>& sizes, const std::string& level,
                      bool huffman) {
  const std::vector<Counts> counts = read_histograms(histograms);
  if (counts.size() != sizes.size()) throw nb::value_error("sizes: expected one for each histogram");
  const Effort effort{level_of(level), huffman};
  nb::list chosen;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    PlaneCode code;
    choose_plane_code(counts[k], sizes[k], effort, code);
    chosen.append(nb::make_tuple(static_cast<int>(code.mode), code.estimate, int{code.bits.mask}, int{code.bits.value},
                                 int{code.nibble_first}));
  }
  return chosen;
}

nb::list promise_rans(nb::handle histograms) {
  nb::list promises;
  for (const Counts& counts : read_histograms(histograms)) {
    promises.append(rans_estimate_bytes(counts, sum_of(counts)));
  }
  return promises;
}

nb::bytes normalise_histograms(nb::handle histograms) {
  const std::vector<Counts> counts = read_histograms(histograms);
  std::vector<Frequencies> frequencies(counts.size());
  for (std::size_t k = 0; k < counts.size(); ++k) {
    const std::size_t total = sum_of(counts[k]);
    for (const std::uint32_t count : counts[k]) {
      if (count == total) throw nb::value_error("histograms: expected at least two symbols in each");
    }
    normalise(counts[k], total, frequencies[k]);
  }
  return nb::bytes(reinterpret_cast<const char*>(frequencies.data()), frequencies.size() * sizeof(Frequencies));
}

}  // namespace

Level level_of(const std::string& name) {
  if (name == "fast") return Level::kFast;
  if (name == "balanced") return Level::kBalanced;
  if (name == "small") return Level::kSmall;
  throw nb::value_error("level: expected fast, balanced or small");
}

void bind_modes(nb::module_& m) {
  m.def(
      "choose_modes", &choose_modes, "histograms"_a, "sizes"_a, "level"_a, "huffman"_a,
      nb::sig("def choose_modes(histograms: object, sizes: list[int], level: str, huffman: bool) "
              "-> list[tuple[int, int, int, int, int]]"),
      "(mode, estimate, mask and value of bits, first of nibbles) of planes of so many bytes, each from the 256 counts "
      "(32 bits) of a sample or of all of it.");
  m.def("promise_rans", &promise_rans, "histograms"_a, nb::sig("def promise_rans(histograms: object) -> list[int]"),
        "What rANS promises for planes counted whole.");
  m.def("normalise_histograms", &normalise_histograms, "histograms"_a,
        "256 frequencies (16 bits) for each histogram of at least two symbols.");
}

}  // namespace s4
