#include "bases.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "planes.hpp"

namespace s4 {
namespace {

// bf16 elements that are compared at once: few, for a base that differs does so soon.
constexpr std::size_t kTile = 2048;

}  // namespace

bool equals_base(const Base& base, std::span<const std::uint8_t> frame) noexcept {
  if (base.kind == BaseKind::kNarrower) return false;
  if (base.kind == BaseKind::kSame) return std::memcmp(base.elements, frame.data(), frame.size()) == 0;
  std::array<std::uint8_t, 2 * kTile> tile;
  for (std::size_t at = 0; at < frame.size(); at += tile.size()) {
    const std::size_t bytes = std::min(tile.size(), frame.size() - at);
    narrow_words(base.elements + 2 * at, bytes / 2, tile.data());
    if (std::memcmp(tile.data(), frame.data() + at, bytes) != 0) return false;
  }
  return true;
}

void copy_base(Predictor predictor, const std::uint8_t* elements, std::span<std::uint8_t> frame) noexcept {
  if (predictor == Predictor::kNarrowed) return narrow_words(elements, frame.size() / 2, frame.data());
  std::memcpy(frame.data(), elements, frame.size());
}

}  // namespace s4
