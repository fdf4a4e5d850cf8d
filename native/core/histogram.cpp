#include "histogram.hpp"

namespace s4 {

void add_histogram(std::span<const std::uint8_t> plane, Counts& counts) noexcept {
  // Four tables, so that a run of equal bytes does not wait for its own last increment.
  std::array<Counts, 4> parts{};
  const std::uint8_t* at = plane.data();
  std::size_t left = plane.size();
  for (; left >= 8; at += 8, left -= 8) {
    const std::uint64_t word = load64(at);
    for (int k = 0; k < 8; ++k) ++parts[static_cast<std::size_t>(k & 3)][word >> (8 * k) & 0xFF];
  }
  for (; left > 0; ++at, --left) ++parts[0][*at];
  for (std::size_t s = 0; s < 256; ++s) counts[s] += parts[0][s] + parts[1][s] + parts[2][s] + parts[3][s];
}

}  // namespace s4
