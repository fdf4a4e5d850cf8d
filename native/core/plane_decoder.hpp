// One stored plane, block by block. Source: docs/format.md, section 3.
#pragma once

#include "gdeflate.hpp"
#include "plane_codes.hpp"

namespace s4 {

class PlaneDecoder {
 public:
  // Reads parameters and block table of an untrusted plane of n symbols. readable: bytes from stored's start on that
  // may be read (not less than stored.size()). The mode is none of zstd.
  PlaneError open(Mode mode, std::span<const std::uint8_t> stored, std::size_t n, std::size_t readable);

  // The next block's symbols. A raw plane gives a pointer into the stored bytes, all others fill room
  // (kBlockSymbols and kSlack bytes).
  PlaneError next(std::uint8_t* room, const std::uint8_t*& symbols) noexcept;

 private:
  Mode mode_ = Mode::kRaw;
  std::span<const std::uint8_t> stored_;
  std::size_t n_ = 0;
  std::size_t readable_ = 0;
  std::size_t block_ = 0;
  std::size_t table_ = 0;       // offset of the next block's entry
  std::size_t at_ = 0;          // offset of the next block
  std::size_t exceptions_ = 0;  // offset of the next block's exceptions
  BitsCode bits_;
  std::uint8_t nibble_first_ = 0;
  bool filled_ = false;  // a constant plane's room
  RansDecodeTable rans_;
  RansChunk chunk_;
  HuffmanDecodeTable huffman_;
  GDeflateTables gdeflate_;

  PlaneError open_blocks(std::size_t parameters, std::size_t entry) noexcept;
  PlaneError next_of_chunk(std::span<std::uint8_t> symbols) noexcept;
  bool fits(std::size_t bytes, std::size_t block) const noexcept;
  std::size_t entry_bytes(std::size_t entry, std::size_t block) const noexcept;
};

}  // namespace s4
