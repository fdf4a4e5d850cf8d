#include "plane_decoder.hpp"

namespace s4 {

PlaneError PlaneDecoder::open(Mode mode, std::span<const std::uint8_t> stored, std::size_t n, std::size_t readable) {
  mode_ = mode;
  stored_ = stored;
  n_ = n;
  readable_ = readable;
  block_ = 0;
  at_ = 0;
  filled_ = false;
  switch (mode) {
    case Mode::kRaw: return stored.size() == n ? PlaneError::kNone : PlaneError::kLengths;
    case Mode::kConstant: return stored.size() == 1 ? PlaneError::kNone : PlaneError::kLengths;
    case Mode::kBits:
      if (stored.size() < 2) return PlaneError::kTruncated;
      bits_ = {stored[0], stored[1]};
      if ((bits_.mask & bits_.value) != 0) return PlaneError::kParameters;
      return open_blocks(2, 2);
    case Mode::kNibbles:
      if (stored.empty()) return PlaneError::kTruncated;
      nibble_first_ = stored[0];
      return open_blocks(1, 2);
    case Mode::kHuffman: {
      HuffmanCode code;
      if (const PlaneError error = read_huffman_code(stored, code); error != PlaneError::kNone) return error;
      make_huffman_table(code, huffman_);
      return open_blocks(code.stored_bytes(), kHuffmanBlockEntry);
    }
    case Mode::kGDeflate: return open_blocks(0, 4);
    default: {
      std::size_t used = 0;
      if (const PlaneError error = read_rans_table(stored, rans_, used); error != PlaneError::kNone) return error;
      return open_blocks(used, 4);
    }
  }
}

// Bytes of a block, by its entry in the table.
std::size_t PlaneDecoder::entry_bytes(std::size_t entry, std::size_t block) const noexcept {
  const std::uint8_t* at = stored_.data() + entry;
  switch (mode_) {
    case Mode::kRans:
    case Mode::kGDeflate: return load32(at);
    case Mode::kHuffman: {
      std::size_t bytes = 0;
      for (std::size_t stream = 0; stream < kStreams; ++stream) bytes += load16(at + 2 * stream);
      return bytes;
    }
    case Mode::kNibbles: return nibble_block_bytes(block_symbols(n_, block));
    default: return bits_.block_bytes(block_symbols(n_, block));
  }
}

// Whether a block may have so many bytes.
bool PlaneDecoder::fits(std::size_t bytes, std::size_t block) const noexcept {
  switch (mode_) {
    case Mode::kRans: return bytes >= kStatesBytes && bytes % 2 == 0;
    case Mode::kGDeflate:
      return bytes >= kPageHeadBytes && bytes % kWordBytes == 0 &&
             bytes <= block_symbols(n_, block) + kPageSurplusBytes;
    default: return true;
  }
}

// Whether table, blocks and exceptions fill the stored bytes exactly.
PlaneError PlaneDecoder::open_blocks(std::size_t parameters, std::size_t entry) noexcept {
  const std::size_t blocks = mode_ == Mode::kRans ? count_chunks(n_) : count_blocks(n_);
  table_ = parameters;
  if ((stored_.size() - parameters) / entry < blocks) return PlaneError::kTruncated;
  at_ = parameters + blocks * entry;
  exceptions_ = at_;
  std::size_t exceptions = 0;
  for (std::size_t block = 0; block < blocks; ++block) {
    const std::size_t where = parameters + block * entry;
    const std::size_t bytes = entry_bytes(where, block);
    if (bytes > stored_.size() - exceptions_) return PlaneError::kLengths;
    if (!fits(bytes, block)) return PlaneError::kLengths;
    exceptions_ += bytes;
    if (mode_ != Mode::kRans && mode_ != Mode::kGDeflate) exceptions += load16(stored_.data() + where + entry - 2);
  }
  return stored_.size() - exceptions_ == 3 * exceptions ? PlaneError::kNone : PlaneError::kLengths;
}

// A block of rANS; block_ is the one behind it.
PlaneError PlaneDecoder::next_of_chunk(std::span<std::uint8_t> symbols) noexcept {
  if (block_ % kChunkBlocks == 1) {
    const std::size_t bytes = load32(stored_.data() + table_);
    if (const PlaneError error = open_rans_chunk(stored_.subspan(at_, bytes), chunk_); error != PlaneError::kNone) {
      return error;
    }
    table_ += 4;
    at_ += bytes;
  }
  if (const PlaneError error = decode_rans_rows(rans_, chunk_, symbols); error != PlaneError::kNone) return error;
  return block_ % kChunkBlocks == 0 || block_ == count_blocks(n_) ? close_rans_chunk(chunk_) : PlaneError::kNone;
}

PlaneError PlaneDecoder::next(std::uint8_t* room, const std::uint8_t*& symbols) noexcept {
  const std::size_t m = block_symbols(n_, block_);
  const std::span<std::uint8_t> to(room, m);
  ++block_;
  symbols = room;
  const std::uint8_t* entry = stored_.data() + table_;
  std::size_t bytes = 0;
  PlaneError error = PlaneError::kNone;
  switch (mode_) {
    case Mode::kRaw:
      symbols = stored_.data() + at_;
      at_ += m;
      return error;
    case Mode::kConstant:
      if (!filled_) std::memset(room, stored_[0], m);
      filled_ = true;
      return error;
    case Mode::kRans: return next_of_chunk(to);
    case Mode::kGDeflate:
      bytes = load32(entry);
      table_ += 4;
      error = decode_gdeflate_page(stored_.subspan(at_, bytes), gdeflate_, to);
      at_ += bytes;
      return error;
    case Mode::kHuffman: {
      std::array<std::size_t, kStreams> lengths;
      for (std::size_t stream = 0; stream < kStreams; ++stream) {
        lengths[stream] = load16(entry + 2 * stream);
        bytes += lengths[stream];
      }
      error = decode_huffman_block(huffman_, stored_.subspan(at_, bytes), lengths, readable_ - at_, to);
      entry += 2 * kStreams;
      table_ += kHuffmanBlockEntry;
      break;
    }
    case Mode::kNibbles:
      bytes = nibble_block_bytes(m);
      decode_nibble_block(nibble_first_, stored_.data() + at_, to);
      table_ += 2;
      break;
    default:
      bytes = bits_.block_bytes(m);
      decode_bits_block(bits_, stored_.data() + at_, to);
      table_ += 2;
      break;
  }
  at_ += bytes;
  if (error != PlaneError::kNone) return error;
  const std::size_t count = load16(entry);
  if (count == 0) return error;
  const auto stored = stored_.subspan(exceptions_, 3 * count);
  exceptions_ += 3 * count;
  return put_exceptions(stored, count, to);
}

}  // namespace s4
