// GDeflate: Deflate64 over 32 lanes, in pages of one block. Source: docs/format.md, section 3.5.
#pragma once

#include "blocks.hpp"

namespace s4 {

inline constexpr std::size_t kGDeflateLanes = 32;
inline constexpr std::size_t kWordBytes = 4;
inline constexpr std::size_t kPageHeadBytes = kGDeflateLanes * kWordBytes;
// A page of m bytes is stored in no more than m and this.
inline constexpr std::size_t kPageSurplusBytes = 1024;
// Each may cost two tables: hostile pages have thousands.
inline constexpr std::size_t kMaxPageBlocks = 256;
inline constexpr std::size_t kGDeflateLiterals = 288;
inline constexpr std::size_t kGDeflateDistances = 32;

// One code of at most 15 bits. Codes up to kDirectBits are looked up, longer ones counted off.
class GDeflateCode {
 public:
  static constexpr std::size_t kMaxBits = 15;

  // From the length of each symbol's code, 0: none. False where there are more codes than patterns.
  bool make(std::span<const std::uint8_t> lengths) noexcept;

  struct Found {
    std::size_t symbol;
    std::size_t bits;  // 0: no code is like the bits
  };

  // pattern: at least 15 bits, the first one lowest.
  Found find(std::uint64_t pattern) const noexcept;

 private:
  static constexpr std::size_t kDirectBits = 10;

  Found find_long(std::uint64_t pattern) const noexcept;

  std::array<std::uint16_t, 1U << kDirectBits> direct_;   // symbol * 16 + bits; 0: a longer code, or none
  std::array<std::uint16_t, kMaxBits + 1> counts_;        // of codes, by their bits
  std::array<std::uint16_t, kGDeflateLiterals> symbols_;  // in order of their codes
};

struct GDeflateTables {
  GDeflateCode literals;
  GDeflateCode distances;
};

// Decode one untrusted page of whole words, at least 32 of them, to exactly these bytes (at most 65,536).
PlaneError decode_gdeflate_page(std::span<const std::uint8_t> stored, GDeflateTables& tables,
                                std::span<std::uint8_t> page) noexcept;

}  // namespace s4
