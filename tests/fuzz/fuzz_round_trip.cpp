// Any frame, grid, level and bases: no fault of memory, the same payload from scalar and vector kernels, and the frame
// back.
//
// An input: element type, effort (bits 0 and 1: the level; bit 3: no Huffman; bits 4 and 5: how the frame is made; bit
// 6: it is offered bases; bit 7: a grid of small numbers), elements (3 bytes), columns and column (4 bytes each), seed
// (4 bytes), bytes of the frame.
#include <algorithm>
#include <memory>
#include <vector>

#include "input.hpp"

namespace {

using namespace s4;

class Random {
 public:
  explicit Random(std::uint32_t seed) noexcept : state_(0x9E3779B97F4A7C15U ^ seed) {}
  std::uint32_t next() noexcept {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<std::uint32_t>(state_ >> 16);
  }

 private:
  std::uint64_t state_;
};

// bytes: what the input gives, over and over.
void fill(std::span<std::uint8_t> frame, fuzz::Bytes bytes) noexcept {
  for (std::size_t i = 0; i < frame.size(); ++i) frame[i] = bytes.empty() ? std::uint8_t{0} : bytes[i % bytes.size()];
}

// Few bytes changed: exceptions, symbols that a sample does not see.
void sprinkle(std::span<std::uint8_t> frame, Random& random) noexcept {
  const std::uint32_t every = 1 + random.next() % 512;
  for (std::size_t i = random.next() % every; i < frame.size(); i += 1 + random.next() % every) {
    frame[i] = static_cast<std::uint8_t>(random.next());
  }
}

// Exponents that are sums of a row's and a column's, by the bytes of the input: levels and products.
void fill_rows(std::span<std::uint8_t> frame, fuzz::Bytes bytes, std::size_t width, Grid grid,
               Random& random) noexcept {
  const std::size_t columns = std::max<std::size_t>(grid.columns, 1);
  const auto at = [&](std::size_t i) { return bytes.empty() ? std::size_t{0} : std::size_t{bytes[i % bytes.size()]}; };
  const std::uint32_t noise = (1U << random.next() % 16) - 1;
  for (std::size_t i = 0; i < frame.size() / width; ++i) {
    const std::size_t row = (grid.column + i) / columns;
    const std::size_t column = (grid.column + i) % columns;
    const std::size_t sum = at(row) * 128 + at(3 * column + 1) * 64 + at(row + 5) * at(column + 7);
    const auto top = static_cast<std::uint16_t>((sum ^ (random.next() & noise)) & 0x7FFF);
    std::uint64_t word = std::uint64_t{top} << (8 * width - (width == 1 ? 8 : 16));
    if (width > 2) word ^= random.next() & 0xFFFF;
    std::memcpy(frame.data() + i * width, &word, width);
  }
}

Grid make_grid(fuzz::Choices& choices, bool small) noexcept {
  Grid grid{choices.take(4), choices.take(4)};
  if (small) grid.columns = 16 + grid.columns % 2048;
  grid.column = grid.columns == 0 ? 0 : grid.column % grid.columns;
  return grid;
}

struct OwnedBase {
  BaseKind kind;
  std::vector<std::uint8_t> elements;
};

// Elements of another width that round to those of the frame, or that they round to, roughly.
OwnedBase other_width(std::span<const std::uint8_t> frame, std::size_t width, Random& random) {
  const std::size_t n = frame.size() / width;
  if (width == 4) {
    OwnedBase base{BaseKind::kNarrower, std::vector<std::uint8_t>(2 * n)};
    for (std::size_t i = 0; i < n; ++i) std::memcpy(base.elements.data() + 2 * i, frame.data() + 4 * i + 2, 2);
    return base;
  }
  OwnedBase base{BaseKind::kWider, std::vector<std::uint8_t>(4 * n)};
  for (std::size_t i = 0; i < n; ++i) {
    const auto below = static_cast<std::uint16_t>(random.next() % 0x8000);
    std::memcpy(base.elements.data() + 4 * i, &below, 2);
    std::memcpy(base.elements.data() + 4 * i + 2, frame.data() + 2 * i, 2);
  }
  return base;
}

// Of every kind that fits, near the frame, and as often equal to it as not.
std::vector<OwnedBase> make_bases(std::span<const std::uint8_t> frame, const fuzz::Element& element, Random& random) {
  std::vector<OwnedBase> bases;
  if (element.octave_bits == 8) bases.push_back(other_width(frame, element.width, random));
  bases.push_back({BaseKind::kSame, {frame.begin(), frame.end()}});
  if (random.next() % 4 == 0) bases.push_back({BaseKind::kSame, fuzz::made_base(frame.size(), frame)});
  for (OwnedBase& base : bases) {
    if (random.next() % 2 != 0) sprinkle(base.elements, random);
  }
  if (random.next() % 2 != 0) std::swap(bases.front(), bases.back());
  return bases;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto workspace = std::make_unique<Workspace>();
  fuzz::Choices choices({data, size});
  const fuzz::Element element = choices.element();
  const std::uint32_t chosen = choices.take(1);
  std::vector<std::uint8_t> frame((1 + choices.take(3) % fuzz::kMaxElements) * element.width);
  const Grid grid = make_grid(choices, (chosen & 0x80) != 0);
  Random random(choices.take(4));
  if ((chosen & 0x20) != 0) {
    fill_rows(frame, choices.rest(), element.width, grid, random);
  } else {
    fill(frame, choices.rest());
  }
  if ((chosen & 0x10) != 0) sprinkle(frame, random);
  const Effort effort{Level{static_cast<int>(chosen % 4 % 3)}, (chosen & 0x08) == 0};
  const std::vector<OwnedBase> owned =
      (chosen & 0x40) != 0 ? make_bases(frame, element, random) : std::vector<OwnedBase>{};
  std::vector<Base> bases;
  for (const OwnedBase& base : owned) bases.push_back({base.kind, base.elements.data()});
  const FrameInput input{frame, element.width, element.octave_bits, grid, effort, bases};

  set_simd(Simd::kScalar);
  // Of different bytes: one that is not written at all is seen too.
  std::vector<std::uint8_t> scalar(encode_bound_bytes(frame.size(), element.width), 0x55);
  std::vector<std::uint8_t> vector(scalar.size());
  const EncodedPayload coded = encode_payload(input, scalar, *workspace);
  for (const Simd kernels : {Simd::kAvx512, Simd::kAvx2}) {
    if (set_simd(kernels) != kernels) continue;
    std::fill(vector.begin(), vector.end(), std::uint8_t{0xAA});
    const EncodedPayload other = encode_payload(input, vector, *workspace);
    fuzz::expect(other.bytes == coded.bytes && other.copy == coded.copy && other.candidate == coded.candidate &&
                     other.modes == coded.modes,
                 "the same choice from scalar and vector kernels");
    fuzz::expect(std::equal(scalar.begin(), scalar.begin() + static_cast<std::ptrdiff_t>(coded.bytes), vector.begin()),
                 "the same payload from scalar and vector kernels");
  }
  const Predictor predictor = coded.candidate.predictor;
  const std::uint8_t* base = needs_base(predictor) ? bases[coded.candidate.base].elements : nullptr;
  if (coded.copy) {
    std::vector<std::uint8_t> found(frame.size());
    copy_base(predictor, base, found);
    fuzz::expect(found == frame, "the frame from its base");
    return 0;
  }
  for (const Base& one : bases) {
    fuzz::expect(frame.size() <= kReferenceBytes || !equals_base(one, frame), "no base that is the frame");
  }
  if (coded.bytes == 0) return 0;

  fuzz::expect(coded.bytes + (base != nullptr ? kReferenceBytes : 0) < frame.size(),
               "a payload that is smaller than the frame");
  const std::vector<std::uint8_t> payload(scalar.begin(), scalar.begin() + static_cast<std::ptrdiff_t>(coded.bytes));
  const PayloadLayout layout{element.width, element.octave_bits, coded.candidate.rotation, predictor, base};
  for (const Simd kernels : {Simd::kAvx512, Simd::kAvx2}) {
    set_simd(kernels);
    fuzz::expect(verify_payload(payload, layout, frame, *workspace), "a payload that verifies");
    std::vector<std::uint8_t> found(frame.size());
    fuzz::expect(decode_payload(payload, layout, found, *workspace).error == PayloadError::kNone,
                 "a payload that decodes");
    fuzz::expect(found == frame, "the frame");
  }
  return 0;
}
