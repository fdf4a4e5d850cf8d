// CRC32C (Castagnoli), as in RFC 3720 and iSCSI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace s4 {

// Continue a checksum: crc32c(b, crc32c(a)) is the checksum of a and b together.
std::uint32_t crc32c(std::span<const std::uint8_t> data, std::uint32_t initial = 0) noexcept;

}  // namespace s4
