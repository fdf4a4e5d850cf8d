#include "crc32c_avx512.hpp"

#include <immintrin.h>

#include "crc32c_sse42.hpp"

namespace s4 {
namespace {

constexpr std::size_t kStep = 256;

// x^n modulo the polynomial, reflected, for a multiplication without carries of reflected factors.
constexpr std::uint64_t power(std::size_t n) {
  std::uint32_t value = std::uint32_t{1} << 31;
  for (; n > 0; --n) value = (value >> 1) ^ (value & 1 ? 0x82F63B78U : 0U);
  return std::uint64_t{value} << 1;
}

// What 128 bits are multiplied with to stand kBits further on: the lower half, which is the first of the message, has
// 64 bits more to go. Source: Gopal et al., Fast CRC Computation for Generic Polynomials Using PCLMULQDQ (Intel, 2009).
template <std::size_t kBits>
struct Fold {
  static constexpr auto kLower = static_cast<long long>(power(kBits + 32));
  static constexpr auto kUpper = static_cast<long long>(power(kBits - 32));
};

template <std::size_t kBits>
__m512i fold(__m512i x, __m512i next) noexcept {
  const __m512i by = _mm512_broadcast_i32x4(_mm_set_epi64x(Fold<kBits>::kUpper, Fold<kBits>::kLower));
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, by, 0x00), _mm512_clmulepi64_epi128(x, by, 0x11), next,
                                   0x96);
}

template <std::size_t kBits>
__m128i fold(__m128i x, __m128i next) noexcept {
  const __m128i by = _mm_set_epi64x(Fold<kBits>::kUpper, Fold<kBits>::kLower);
  return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(x, by, 0x00), _mm_clmulepi64_si128(x, by, 0x11)), next);
}

}  // namespace

std::uint32_t crc32c_avx512(std::span<const std::uint8_t> data, std::uint32_t start) noexcept {
  if (data.size() < kStep) return crc32c_sse42(data, start);
  const std::uint8_t* at = data.data();
  std::size_t left = data.size() - kStep;
  __m512i x[4];
  for (std::size_t k = 0; k < 4; ++k) x[k] = _mm512_loadu_si512(at + 64 * k);
  x[0] = _mm512_xor_si512(x[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(start))));
  for (at += kStep; left >= kStep; at += kStep, left -= kStep) {
    for (std::size_t k = 0; k < 4; ++k) x[k] = fold<8 * kStep>(x[k], _mm512_loadu_si512(at + 64 * k));
  }
  const __m512i last = fold<512>(fold<512>(fold<512>(x[0], x[1]), x[2]), x[3]);
  __m128i sum = _mm512_castsi512_si128(last);
  sum = fold<128>(sum, _mm512_extracti32x4_epi32(last, 1));
  sum = fold<128>(sum, _mm512_extracti32x4_epi32(last, 2));
  sum = fold<128>(sum, _mm512_extracti32x4_epi32(last, 3));
  std::uint64_t crc = _mm_crc32_u64(0, static_cast<std::uint64_t>(_mm_cvtsi128_si64(sum)));
  crc = _mm_crc32_u64(crc, static_cast<std::uint64_t>(_mm_extract_epi64(sum, 1)));
  return crc32c_sse42({at, left}, static_cast<std::uint32_t>(crc));
}

}  // namespace s4
