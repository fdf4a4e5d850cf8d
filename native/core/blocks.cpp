#include "blocks.hpp"

namespace s4 {

PlaneError put_exceptions(std::span<const std::uint8_t> stored, std::size_t count,
                          std::span<std::uint8_t> symbols) noexcept {
  if (stored.size() != 3 * count) return PlaneError::kLengths;
  const std::uint8_t* values = stored.data() + 2 * count;
  std::size_t least = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t position = load16(stored.data() + 2 * i);
    if (position < least || position >= symbols.size()) return PlaneError::kException;
    symbols[position] = values[i];
    least = position + 1;
  }
  return PlaneError::kNone;
}

}  // namespace s4
