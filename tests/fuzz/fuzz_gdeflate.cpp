// Hostile GDeflate pages: no fault of memory, and every byte of a page that decodes is written.
//
// An input: bytes of the page less one (2 bytes), words of the page.
#include <algorithm>
#include <memory>
#include <vector>

#include "core/gdeflate.hpp"
#include "input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto tables = std::make_unique<s4::GDeflateTables>();
  s4::fuzz::Choices choices({data, size});
  const std::size_t n = 1 + choices.take(2);
  // What the block table lets through: whole words, and at least one a lane. A copy of just its size.
  std::vector<std::uint8_t> stored(choices.rest().begin(), choices.rest().end());
  stored.resize(std::max(stored.size() / s4::kWordBytes * s4::kWordBytes, s4::kPageHeadBytes));

  std::vector<std::uint8_t> first(n, 0x55);
  std::vector<std::uint8_t> second(n, 0xAA);
  const s4::PlaneError found = s4::decode_gdeflate_page(stored, *tables, first);
  s4::fuzz::expect(found == s4::decode_gdeflate_page(stored, *tables, second), "the same fault again");
  if (found == s4::PlaneError::kNone) s4::fuzz::expect(first == second, "every byte written");
  return 0;
}
