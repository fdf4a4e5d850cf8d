#include "crc32c.hpp"

#include <array>
#include <cstring>

#include "simd.hpp"
#if defined(__x86_64__)
#include "crc32c_avx512.hpp"
#include "crc32c_sse42.hpp"
#endif

namespace s4 {
namespace {

constexpr std::uint32_t kPolynomial = 0x82F63B78;  // reversed

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

std::uint32_t update_tables(std::span<const std::uint8_t> data, std::uint32_t crc) noexcept {
  const std::uint8_t* at = data.data();
  std::size_t left = data.size();
  for (; left >= 8; at += 8, left -= 8) {
    std::uint64_t word;
    std::memcpy(&word, at, 8);
    word ^= crc;
    crc = 0;
    for (std::size_t k = 0; k < 8; ++k) crc ^= kTables[7 - k][(word >> (8 * k)) & 0xFF];
  }
  for (; left > 0; ++at, --left) crc = (crc >> 8) ^ kTables[0][(crc ^ *at) & 0xFF];
  return crc;
}

}  // namespace

std::uint32_t crc32c(std::span<const std::uint8_t> data, std::uint32_t initial) noexcept {
#if defined(__x86_64__)
  static const bool multiplies = __builtin_cpu_supports("vpclmulqdq");
  if (multiplies && simd() == Simd::kAvx512) return ~crc32c_avx512(data, ~initial);
  // Every CPU with AVX2 has SSE 4.2.
  if (simd() >= Simd::kAvx2) return ~crc32c_sse42(data, ~initial);
#endif
  return ~update_tables(data, ~initial);
}

}  // namespace s4
