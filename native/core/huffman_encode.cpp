#include "bit_writer.hpp"
#include "huffman.hpp"
#include "simd.hpp"
#if defined(__x86_64__)
#include "huffman_avx2.hpp"
#include "huffman_avx512.hpp"
#endif

namespace s4 {
namespace {

HuffmanEncodeTable encode_table(const HuffmanCode& code) noexcept {
  HuffmanEncodeTable table;
  for (std::size_t symbol = 0; symbol < table.size(); ++symbol) {
    const std::size_t place = static_cast<std::uint8_t>(symbol - code.first);
    const bool missing = code.lengths[place] == 0;
    const std::size_t put = missing ? code.shortest : place;
    table[symbol] = code.codes[put] | std::uint32_t{code.lengths[put]} << kLengthShift | (missing ? kNoCode : 0);
  }
  return table;
}

std::uint8_t* encode_stream(const HuffmanCode& code, const HuffmanEncodeTable& table,
                            std::span<const std::uint8_t> symbols, std::size_t start, std::uint8_t* out,
                            BlockExceptions& exceptions) noexcept {
#if defined(__x86_64__)
  if (simd() == Simd::kAvx512) return encode_huffman_stream_avx512(code, table, symbols, start, out, exceptions);
  if (simd() == Simd::kAvx2) return encode_huffman_stream_avx2(code, table, symbols, start, out, exceptions);
#else
  static_cast<void>(code);
#endif
  BitWriter bits(out);
  put_symbols(bits, table, symbols, start, exceptions);
  return bits.finish();
}

}  // namespace

std::size_t encode_huffman_block(const HuffmanCode& code, std::span<const std::uint8_t> symbols, std::uint8_t* out,
                                 std::array<std::size_t, kStreams>& lengths, BlockExceptions& exceptions) noexcept {
  const std::size_t q = stream_symbols(symbols.size());
  const HuffmanEncodeTable table = encode_table(code);
  std::uint8_t* at = out;
  for (std::size_t stream = 0; stream < kStreams; ++stream) {
    const std::size_t start = std::min(stream * q, symbols.size());
    const auto part = symbols.subspan(start, std::min(q, symbols.size() - start));
    const std::uint8_t* const begin = at;
    at = encode_stream(code, table, part, start, at, exceptions);
    lengths[stream] = static_cast<std::size_t>(at - begin);
  }
  return static_cast<std::size_t>(at - out);
}

}  // namespace s4
