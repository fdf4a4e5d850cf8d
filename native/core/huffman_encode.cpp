#include "bit_writer.hpp"
#include "huffman.hpp"
#include "simd.hpp"
#if defined(__x86_64__)
#include "huffman_avx2.hpp"
#endif

namespace s4 {
namespace {

// Its own loop is the twin of encode_huffman_stream_avx2, and the way of codes with more than 32 places.
std::uint8_t* encode_stream(const HuffmanCode& code, std::span<const std::uint8_t> symbols, std::size_t start,
                            std::uint8_t* out, BlockExceptions& exceptions) noexcept {
#if defined(__x86_64__)
  if (simd() >= Simd::kAvx2 && code.count == kWindow) {
    return encode_huffman_stream_avx2(code, symbols, start, out, exceptions);
  }
#endif
  BitWriter bits(out);
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    put_symbol(bits, code, symbols[i], start + i, exceptions);
  }
  return bits.finish();
}

}  // namespace

std::size_t encode_huffman_block(const HuffmanCode& code, std::span<const std::uint8_t> symbols, std::uint8_t* out,
                                 std::array<std::size_t, kStreams>& lengths, BlockExceptions& exceptions) noexcept {
  const std::size_t q = stream_symbols(symbols.size());
  std::uint8_t* at = out;
  for (std::size_t stream = 0; stream < kStreams; ++stream) {
    const std::size_t start = std::min(stream * q, symbols.size());
    const auto part = symbols.subspan(start, std::min(q, symbols.size() - start));
    const std::uint8_t* const begin = at;
    at = encode_stream(code, part, start, at, exceptions);
    lengths[stream] = static_cast<std::size_t>(at - begin);
  }
  return static_cast<std::size_t>(at - out);
}

}  // namespace s4
