#pragma once

#include <cstdint>
#include <span>

namespace s4 {

// The register after data; not inverted, unlike crc32c().
std::uint32_t crc32c_sse42(std::span<const std::uint8_t> data, std::uint32_t crc) noexcept;

}  // namespace s4
