// Levels and factors of rows and columns, in the logarithm. Source: docs/format.md, sections 2.3 and 5.2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace s4 {

inline constexpr std::int8_t kUnpredictedRow = -128;
inline constexpr std::size_t kMaxProducts = 8;

// What a frame's elements lie in. columns 0: nothing known. column: that of the first element.
struct Grid {
  std::uint32_t columns = 0;
  std::uint32_t column = 0;

  std::size_t rows(std::size_t n) const noexcept { return columns == 0 ? 0 : (column + n + columns - 1) / columns; }
};

// A frame of floats: width 2, 4 or 8 bytes an element, one octave at this bit of the top 16.
struct Floats {
  const std::uint8_t* words;
  std::size_t n;
  std::size_t width;
  std::size_t octave_bits;
};

// As stored or as made. rows: the levels of all rows, then for each product its row factors; columns the same. Both
// empty: the base only.
struct LevelsView {
  std::uint16_t base;
  std::size_t products;
  std::span<const std::int8_t> rows;
  std::span<const std::int8_t> columns;
};

// The same, as made.
struct Levels {
  std::uint16_t base = 0;
  std::size_t products = 0;
  std::vector<std::int8_t> rows;
  std::vector<std::int8_t> columns;

  std::size_t size() const noexcept { return rows.size() + columns.size(); }
  LevelsView view() const noexcept { return {base, products, rows, columns}; }
};

// False where rows and columns promise nothing.
bool make_levels(const Floats& floats, Grid grid, std::size_t max_products, Levels& levels);

// What is subtracted from the top 16 bits of elements.
class Prediction {
 public:
  // levels are not copied: they must live as long as this.
  Prediction(const LevelsView& levels, Grid grid, std::size_t octave_bits);

  // Of elements first to first + count.
  void get(std::size_t first, std::size_t count, std::uint16_t* out) const noexcept;

 private:
  LevelsView levels_;
  Grid grid_;
  std::size_t octave_bits_;
  std::size_t row_count_;
  std::vector<std::uint16_t> units_;   // of the columns' levels
  std::vector<std::int16_t> factors_;  // of the columns, product by product
};

}  // namespace s4
