#include "bit_writer.hpp"
#include "huffman.hpp"
#include "simd.hpp"
#if defined(__x86_64__)
#include "huffman_avx2.hpp"
#endif

namespace s4 {
namespace {

// The twin of encode_huffman_stream_avx2, and the way of codes with more than 32 places.
std::uint8_t* encode_stream(const HuffmanCode& code, std::span<const std::uint8_t> symbols, std::size_t start,
                            std::uint8_t* out, BlockExceptions& exceptions) noexcept {
  BitWriter bits(out);
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    const std::uint8_t place = static_cast<std::uint8_t>(symbols[i] - code.first);
    std::size_t coded = place;
    if (code.lengths[place] == 0) {
      exceptions.add(start + i, symbols[i]);
      coded = code.shortest;
    }
    bits.put(code.codes[coded], code.lengths[coded]);
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
    std::uint8_t* end = at;
#if defined(__x86_64__)
    if (simd() >= Simd::kAvx2 && code.count == kWindow) {
      end = encode_huffman_stream_avx2(code, part, start, at, exceptions);
    } else {
      end = encode_stream(code, part, start, at, exceptions);
    }
#else
    end = encode_stream(code, part, start, at, exceptions);
#endif
    lengths[stream] = static_cast<std::size_t>(end - at);
    at = end;
  }
  return static_cast<std::size_t>(at - out);
}

}  // namespace s4
