#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace s4 {

// The twin of crc32c_sse42. Needs VPCLMULQDQ, which not every machine of Simd::kAvx512 has.
std::uint32_t crc32c_avx512(std::span<const std::uint8_t> data, std::uint32_t start) noexcept;

}  // namespace s4
