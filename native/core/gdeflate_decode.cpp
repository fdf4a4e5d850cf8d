#include <algorithm>

#include "gdeflate.hpp"

namespace s4 {
namespace {

constexpr std::size_t kWordBits = 8 * kWordBytes;
constexpr std::size_t kEndOfBlock = 256;
constexpr std::size_t kNoRepeat = 16;  // of the precode: symbols below are lengths
constexpr std::array<std::uint8_t, 19> kPrecodeOrder = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                                        11, 4,  12, 3, 13, 2, 14, 1, 15};

// The values that a symbol stands for: base, and as many more as its extra bits say.
struct Range {
  std::uint32_t base;
  std::uint8_t bits;
};

// Symbols from 257 on; the last one begins anew.
constexpr std::array<Range, 29> kLengths = [] {
  std::array<Range, 29> ranges{};
  std::uint32_t base = 3;
  for (std::size_t i = 0; i < 28; ++i) {
    const std::size_t bits = i < 8 ? 0 : i / 4 - 1;
    ranges[i] = {base, static_cast<std::uint8_t>(bits)};
    base += 1U << bits;
  }
  ranges[28] = {3, 16};
  return ranges;
}();

constexpr std::array<Range, kGDeflateDistances> kDistances = [] {
  std::array<Range, kGDeflateDistances> ranges{};
  std::uint32_t base = 1;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const std::size_t bits = i < 4 ? 0 : i / 2 - 1;
    ranges[i] = {base, static_cast<std::uint8_t>(bits)};
    base += 1U << bits;
  }
  return ranges;
}();

// 32 bit readers on one run of words: a lane with fewer than 32 bits takes the next word at once, and where there is
// none, zeros.
class Lanes {
 public:
  explicit Lanes(std::span<const std::uint8_t> stored) noexcept : stored_(stored) {
    for (std::size_t lane = 0; lane < kGDeflateLanes; ++lane) bits_[lane] = load32(stored.data() + kWordBytes * lane);
    counts_.fill(kWordBits);
  }

  // At least 32 bits, the next one lowest.
  std::uint64_t peek(std::size_t lane) const noexcept { return bits_[lane]; }

  void skip(std::size_t lane, std::size_t count) noexcept {
    bits_[lane] >>= count;
    counts_[lane] -= count;
    if (counts_[lane] >= kWordBits) return;
    if (at_ < stored_.size()) {
      bits_[lane] |= std::uint64_t{load32(stored_.data() + at_)} << counts_[lane];
    } else {
      is_past_ = true;
    }
    at_ += kWordBytes;
    counts_[lane] += kWordBits;
  }

  std::uint32_t take(std::size_t lane, std::size_t count) noexcept {
    const auto value = static_cast<std::uint32_t>(bits_[lane] & ((std::uint64_t{1} << count) - 1));
    skip(lane, count);
    return value;
  }

  bool is_past() const noexcept { return is_past_; }
  bool at_end() const noexcept { return at_ == stored_.size(); }

 private:
  std::span<const std::uint8_t> stored_;
  std::size_t at_ = kPageHeadBytes;
  bool is_past_ = false;
  std::array<std::uint64_t, kGDeflateLanes> bits_;
  std::array<std::size_t, kGDeflateLanes> counts_;
};

class Page {
 public:
  Page(std::span<const std::uint8_t> stored, GDeflateTables& tables, std::span<std::uint8_t> page) noexcept
      : lanes_(stored), tables_(tables), page_(page) {}

  PlaneError decode() noexcept {
    bool is_last = false;
    for (std::size_t block = 0; !is_last; ++block) {
      if (block == kMaxPageBlocks) return PlaneError::kBlocks;
      is_last = lanes_.take(0, 1) != 0;
      const std::uint32_t kind = lanes_.take(0, 2);
      PlaneError error = kind == 3 ? PlaneError::kKind : PlaneError::kNone;
      if (kind == 0) error = stored_block();
      if (kind == 1) fixed_codes();
      if (kind == 2) error = read_codes();
      if (error == PlaneError::kNone && kind != 0) error = coded_block();
      if (lanes_.is_past()) return PlaneError::kTruncated;
      if (error != PlaneError::kNone) return error;
    }
    if (at_ != page_.size()) return PlaneError::kLengths;
    return lanes_.at_end() ? PlaneError::kNone : PlaneError::kStream;
  }

 private:
  PlaneError stored_block() noexcept {
    const std::size_t size = lanes_.take(0, 16);
    if (size > room()) return PlaneError::kLengths;
    for (std::size_t i = 0; i < size; ++i) {
      page_[at_++] = static_cast<std::uint8_t>(lanes_.take(i % kGDeflateLanes, 8));
    }
    return PlaneError::kNone;
  }

  void fixed_codes() noexcept {
    std::array<std::uint8_t, kGDeflateLiterals> lengths;
    const auto fill = [&](std::size_t first, std::size_t end, std::uint8_t bits) {
      std::fill(lengths.begin() + static_cast<std::ptrdiff_t>(first),
                lengths.begin() + static_cast<std::ptrdiff_t>(end), bits);
    };
    fill(0, 144, 8);
    fill(144, 256, 9);
    fill(256, 280, 7);
    fill(280, 288, 8);
    tables_.literals.make(lengths);
    lengths.fill(5);
    tables_.distances.make(std::span(lengths).first(kGDeflateDistances));
  }

  PlaneError read_codes() noexcept {
    const std::size_t literals = 257 + lanes_.take(0, 5);
    const std::size_t count = literals + 1 + lanes_.take(0, 5);
    const std::size_t own = 4 + lanes_.take(0, 4);
    std::array<std::uint8_t, kPrecodeOrder.size()> own_lengths{};
    for (std::size_t lane = 0; lane < own; ++lane) {
      // A field of 4 bits cannot say more than 19.
      own_lengths[kPrecodeOrder[lane]] = static_cast<std::uint8_t>(lanes_.take(lane, 3));
    }
    GDeflateCode& precode = tables_.literals;
    if (!precode.make(own_lengths)) return PlaneError::kTable;
    std::array<std::uint8_t, kGDeflateLiterals + kGDeflateDistances> lengths{};
    std::size_t at = 0;
    for (std::size_t lane = 0; at < count; lane = (lane + 1) % kGDeflateLanes) {
      const auto [symbol, bits] = precode.find(lanes_.peek(lane));
      if (bits == 0) return PlaneError::kSymbol;
      lanes_.skip(lane, bits);
      if (symbol < kNoRepeat) {
        lengths[at++] = static_cast<std::uint8_t>(symbol);
        continue;
      }
      if (symbol == kNoRepeat && at == 0) return PlaneError::kTable;
      const std::uint8_t value = symbol == kNoRepeat ? lengths[at - 1] : std::uint8_t{0};
      std::size_t times = symbol == 18 ? 11 : 3;
      times += lanes_.take(lane, symbol == 16 ? 2 : symbol == 17 ? 3 : 7);
      if (times > count - at) return PlaneError::kTable;
      std::fill_n(lengths.begin() + static_cast<std::ptrdiff_t>(at), times, value);
      at += times;
    }
    const std::span<const std::uint8_t> whole(lengths);
    const bool makes = tables_.literals.make(whole.first(literals)) &&
                       tables_.distances.make(whole.subspan(literals, count - literals));
    return makes ? PlaneError::kNone : PlaneError::kTable;
  }

  // Every lane has a symbol a round, in order; that of a match takes its distance in the next round.
  PlaneError coded_block() noexcept {
    std::array<std::uint32_t, kGDeflateLanes> starts;
    std::array<std::uint32_t, kGDeflateLanes> lengths{};
    std::uint32_t waiting = 0;  // lanes of a match without its distance
    bool is_open = true;
    while (is_open || waiting != 0) {
      for (std::size_t lane = 0; lane < kGDeflateLanes; ++lane) {
        const std::uint32_t mine = std::uint32_t{1} << lane;
        if ((waiting & mine) != 0) {
          waiting &= ~mine;
          const auto [symbol, bits] = tables_.distances.find(lanes_.peek(lane));
          if (bits == 0) return PlaneError::kSymbol;
          lanes_.skip(lane, bits);
          const std::size_t distance = value(kDistances[symbol], lane);
          if (distance > starts[lane]) return PlaneError::kDistance;
          copy(starts[lane], lengths[lane], distance);
          continue;
        }
        if (!is_open) continue;
        const auto [symbol, bits] = tables_.literals.find(lanes_.peek(lane));
        if (bits == 0) return PlaneError::kSymbol;
        lanes_.skip(lane, bits);
        if (symbol < kEndOfBlock) {
          if (room() == 0) return PlaneError::kLengths;
          page_[at_++] = static_cast<std::uint8_t>(symbol);
        } else if (symbol == kEndOfBlock) {
          is_open = false;
        } else if (symbol - kEndOfBlock > kLengths.size()) {
          return PlaneError::kSymbol;
        } else {
          lengths[lane] = value(kLengths[symbol - kEndOfBlock - 1], lane);
          if (lengths[lane] > room()) return PlaneError::kLengths;
          starts[lane] = static_cast<std::uint32_t>(at_);
          at_ += lengths[lane];
          waiting |= mine;
        }
      }
    }
    return PlaneError::kNone;
  }

  std::uint32_t value(Range range, std::size_t lane) noexcept { return range.base + lanes_.take(lane, range.bits); }

  void copy(std::size_t to, std::size_t length, std::size_t distance) noexcept {
    std::uint8_t* const out = page_.data() + to;
    if (distance >= length) {
      std::memcpy(out, out - distance, length);
    } else {
      for (std::size_t i = 0; i < length; ++i) out[i] = out[i - distance];
    }
  }

  std::size_t room() const noexcept { return page_.size() - at_; }

  Lanes lanes_;
  GDeflateTables& tables_;
  std::span<std::uint8_t> page_;
  std::size_t at_ = 0;
};

}  // namespace

PlaneError decode_gdeflate_page(std::span<const std::uint8_t> stored, GDeflateTables& tables,
                                std::span<std::uint8_t> page) noexcept {
  return Page(stored, tables, page).decode();
}

}  // namespace s4
