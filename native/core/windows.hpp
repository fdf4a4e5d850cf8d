// Windows of successive byte values, cyclic.
#pragma once

#include "blocks.hpp"

namespace s4 {

struct Window {
  std::size_t start;
  std::uint64_t mass;
  std::uint64_t total;
};

// The window of size values that holds most; the smallest start of equals. size: 1 to 256.
inline Window best_window(const Counts& counts, std::size_t size) noexcept {
  std::uint64_t sum = 0;
  std::uint64_t total = 0;
  for (std::size_t s = 0; s < 256; ++s) {
    total += counts[s];
    if (s < size) sum += counts[s];
  }
  Window best{0, sum, total};
  for (std::size_t start = 1; start < 256; ++start) {
    sum += counts[(start + size - 1) & 255];
    sum -= counts[start - 1];
    if (sum > best.mass) {
      best.mass = sum;
      best.start = start;
    }
  }
  return best;
}

}  // namespace s4
