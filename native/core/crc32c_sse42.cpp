#include "crc32c_sse42.hpp"

#include <nmmintrin.h>

#include <array>
#include <cstring>

namespace s4 {
namespace {

// The crc32 instruction has a latency of three and a throughput of one: three runs at once, joined by
// multiplying with x^(8 * kRun) modulo the polynomial, which is linear and so a table over four bytes.
constexpr std::size_t kRun = 1024;

// No prefetcher follows three runs at once: out of main memory they take three times as long without it.
void fetch_ahead(const std::uint8_t* at) noexcept {
  for (std::size_t line = 0; line < 192; line += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(at + 3 * kRun + line), _MM_HINT_T0);
  }
}

using Shift = std::array<std::array<std::uint32_t, 256>, 4>;

std::uint64_t load(const std::uint8_t* at) noexcept {
  std::uint64_t word;
  std::memcpy(&word, at, 8);
  return word;
}

constexpr std::uint32_t after_zeros(std::uint32_t crc, std::size_t bytes) {
  for (std::size_t bit = 0; bit < 8 * bytes; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0x82F63B78U : 0U);
  return crc;
}

Shift make_shift() noexcept {
  Shift shift{};
  for (std::size_t k = 0; k < 4; ++k) {
    std::array<std::uint32_t, 8> bits{};
    for (std::size_t bit = 0; bit < 8; ++bit) bits[bit] = after_zeros(std::uint32_t{1} << (8 * k + bit), kRun);
    for (std::size_t byte = 0; byte < 256; ++byte) {
      for (std::size_t bit = 0; bit < 8; ++bit) {
        if (byte >> bit & 1) shift[k][byte] ^= bits[bit];
      }
    }
  }
  return shift;
}

std::uint32_t shifted(const Shift& shift, std::uint64_t crc) noexcept {
  return shift[0][crc & 0xFF] ^ shift[1][crc >> 8 & 0xFF] ^ shift[2][crc >> 16 & 0xFF] ^ shift[3][crc >> 24 & 0xFF];
}

}  // namespace

std::uint32_t crc32c_sse42(std::span<const std::uint8_t> data, std::uint32_t start) noexcept {
  static const Shift shift = make_shift();
  const std::uint8_t* at = data.data();
  std::size_t left = data.size();
  std::uint64_t crc = start;
  for (; left >= 3 * kRun; at += 3 * kRun, left -= 3 * kRun) {
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    for (std::size_t k = 0; k < kRun; k += 8) {
      if (k % 64 == 0) fetch_ahead(at + 3 * k);
      crc = _mm_crc32_u64(crc, load(at + k));
      second = _mm_crc32_u64(second, load(at + kRun + k));
      third = _mm_crc32_u64(third, load(at + 2 * kRun + k));
    }
    crc = shifted(shift, crc) ^ second;
    crc = shifted(shift, crc) ^ third;
  }
  for (; left >= 8; at += 8, left -= 8) crc = _mm_crc32_u64(crc, load(at));
  auto last = static_cast<std::uint32_t>(crc);
  for (; left > 0; ++at, --left) last = _mm_crc32_u8(last, *at);
  return last;
}

}  // namespace s4
