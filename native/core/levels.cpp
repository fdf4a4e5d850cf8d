#include "levels.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "level_kernels.hpp"

namespace s4 {
namespace {

constexpr std::size_t kMinColumns = 16;
constexpr std::size_t kMaxColumns = 1U << 16;
constexpr std::size_t kMinRows = 8;
constexpr std::size_t kSampledRows = 64;
constexpr std::size_t kQuarter = 4;
constexpr std::int64_t kLimit = 127;
constexpr int kIterations = 2;
// A product is kept where it explains this part of what is left: its factors cost some 0.03 bits an element.
constexpr std::int64_t kLeastShare = 12;

constexpr std::int64_t floor_div(std::int64_t a, std::int64_t b) noexcept {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

std::int8_t limited(std::int64_t level) noexcept {
  return static_cast<std::int8_t>(std::clamp<std::int64_t>(level, -kLimit, kLimit));
}

// dot: 16 times the sum of x * b. squares: the sum of b * b.
std::int8_t factor_of(std::int64_t dot, std::int64_t squares) noexcept {
  return squares == 0 ? std::int8_t{0} : limited(floor_div(dot + squares / 2, squares));
}

// Largest value to 127. False where all are 0.
template <typename Value>
bool normalise_factors(const Value* from, std::size_t count, std::int16_t* to) noexcept {
  std::int32_t greatest = 0;
  for (std::size_t j = 0; j < count; ++j) greatest = std::max<std::int32_t>(greatest, std::abs(std::int32_t{from[j]}));
  if (greatest == 0) return false;
  // Exact: the quotient of whole numbers below 2^53 is never rounded up to a whole number that it does not reach.
  const double divisor = 2.0 * greatest;
  for (std::size_t j = 0; j < count; ++j) {
    const double quotient = (254.0 * from[j] + greatest) / divisor;
    const auto towards_zero = static_cast<std::int32_t>(quotient);
    to[j] = static_cast<std::int16_t>(towards_zero - (towards_zero > quotient));
  }
  return true;
}

class LevelMaker {
 public:
  LevelMaker(const Floats& floats, Grid grid, std::size_t whole, Levels& levels)
      : floats_(floats),
        c_(grid.columns),
        column_(grid.column),
        rows_(grid.rows(floats.n)),
        whole_(whole),
        octave_(std::int64_t{1} << floats.octave_bits),
        kernels_(level_kernels()),
        levels_(levels) {}

  bool make(std::size_t max_products) {
    if (!make_columns()) return false;
    make_products(max_products);
    make_rows();
    return true;
  }

 private:
  // Of whole row number row.
  const std::uint8_t* whole_row(std::size_t row) const noexcept {
    const std::size_t skipped = column_ == 0 ? 0 : c_ - column_;
    return floats_.words + (skipped + row * c_) * floats_.width;
  }

  // Steps 1 to 3.
  bool make_columns() {
    const std::size_t step = std::max<std::size_t>(1, whole_ / kSampledRows);
    // Most frames that promise nothing show it in a quarter of the rows.
    if (look_at(kQuarter * step) && !promises()) return false;
    if (!look_at(step) || !promises()) return false;
    const std::int64_t unit = octave_ / 8;
    levels_.columns.resize(c_);
    for (std::size_t j = 0; j < c_; ++j) levels_.columns[j] = limited(floor_div(offsets_[j] + unit / 2, unit));
    return true;
  }

  // Means of every step-th whole row, and of what columns differ from them. False where too few rows are left.
  bool look_at(std::size_t step) {
    sampled_.clear();
    means_.clear();
    sums_.assign(c_, 0);
    sum_of_means_ = 0;
    for (std::size_t row = 0; row < whole_; row += step) {
      const std::uint8_t* words = whole_row(row);
      const RowSum found = kernels_.sum_tops(words, floats_.width, c_);
      if (found.equal) continue;
      sampled_.push_back(words);
      means_.push_back(static_cast<std::int64_t>(found.sum / c_));
      sum_of_means_ += means_.back();
      kernels_.add_tops(words, floats_.width, c_, sums_.data());
    }
    return sampled_.size() >= kMinRows;
  }

  // Whether they differ enough; makes offsets_.
  bool promises() {
    const auto v = static_cast<std::int64_t>(sampled_.size());
    center_ = floor_div(sum_of_means_, v);
    std::int64_t row_spread = 0;
    for (const std::int64_t r : means_) row_spread += (r - center_) * (r - center_);
    std::int64_t column_spread = 0;
    offsets_.resize(c_);
    for (std::size_t j = 0; j < c_; ++j) {
      const std::int64_t d = floor_div(std::int64_t{sums_[j]} - sum_of_means_, v);
      column_spread += d * d;
      offsets_[j] = static_cast<std::int32_t>(d);
    }
    return column_spread / static_cast<std::int64_t>(c_) + row_spread / v >= octave_ / 2 * (octave_ / 2);
  }

  // Step 4: column factors, from the sampled rows.
  void make_products(std::size_t max_products) {
    levels_.products = 0;
    const std::size_t v = sampled_.size();
    if (max_products == 0 || 2 * (rows_ + c_) * 8 > floats_.n) return;
    std::vector<std::int16_t> e(v * c_);
    std::vector<std::int64_t> energies(v);
    for (std::size_t i = 0; i < v; ++i) {
      kernels_.residuals(sampled_[i], floats_.width, c_, static_cast<std::int32_t>(means_[i]), offsets_.data(),
                         floats_.octave_bits, &e[i * c_]);
      energies[i] = kernels_.energy(&e[i * c_], c_);
    }
    std::vector<std::int16_t> left(v * c_);
    std::vector<std::int16_t> b(c_);
    std::vector<std::int32_t> sums(c_);
    while (levels_.products < max_products && (2 + levels_.products) * (rows_ + c_) * 8 <= floats_.n) {
      std::int64_t before = 0;
      for (const std::int64_t energy : energies) before += energy;
      const auto start =
          static_cast<std::size_t>(std::max_element(energies.begin(), energies.end()) - energies.begin());
      if (!normalise_factors(&e[start * c_], c_, b.data())) return;
      for (int iteration = 0; iteration < kIterations; ++iteration) {
        const std::int64_t squares = kernels_.dot(b.data(), b.data(), c_);
        std::fill(sums.begin(), sums.end(), 0);
        for (std::size_t i = 0; i < v; ++i) {
          kernels_.add_scaled(sums.data(), factor_of(16 * kernels_.dot(&e[i * c_], b.data(), c_), squares), &e[i * c_],
                              c_);
        }
        if (!normalise_factors(sums.data(), c_, b.data())) return;
      }
      const std::int64_t squares = kernels_.dot(b.data(), b.data(), c_);
      std::int64_t after = 0;
      left = e;
      for (std::size_t i = 0; i < v; ++i) {
        std::int16_t* x = &left[i * c_];
        kernels_.subtract_product(x, factor_of(16 * kernels_.dot(x, b.data(), c_), squares), b.data(), c_);
        energies[i] = kernels_.energy(x, c_);
        after += energies[i];
      }
      if ((before - after) * kLeastShare < before) return;
      std::swap(e, left);
      factors_.insert(factors_.end(), b.begin(), b.end());
      for (const std::int16_t factor : b) levels_.columns.push_back(static_cast<std::int8_t>(factor));
      ++levels_.products;
    }
  }

  // G: sums of the products of column factors, k and l, over some columns.
  using Gram = std::array<std::array<std::int64_t, kMaxProducts>, kMaxProducts>;

  // Steps 5 to 7, one row after another.
  void make_rows() {
    const std::int64_t unit = octave_ / 8;
    for (std::size_t j = 0; j < c_; ++j) offsets_[j] = static_cast<std::int32_t>(unit * levels_.columns[j]);
    const auto sum_offsets = [&](std::size_t from, std::size_t to) {
      std::int64_t sum = 0;
      for (std::size_t j = from; j < to; ++j) sum += offsets_[j];
      return sum;
    };
    const std::int64_t whole_offsets = sum_offsets(0, c_);
    const std::size_t products = levels_.products;
    levels_.rows.assign((1 + products) * rows_, 0);
    Gram whole;
    make_gram(0, c_, whole);
    std::vector<std::int16_t> x(c_);
    for_rows([&](std::size_t row, const std::uint8_t* words, std::size_t column, std::size_t count) {
      const RowSum found = kernels_.sum_tops(words, floats_.width, count);
      if (found.equal) {
        levels_.rows[row] = kUnpredictedRow;
        return;
      }
      const bool is_whole = count == c_;
      const std::int64_t expected = is_whole ? whole_offsets : sum_offsets(column, column + count);
      const auto elements = static_cast<std::int64_t>(count);
      const std::int64_t mean = floor_div(static_cast<std::int64_t>(found.sum) - expected, elements);
      levels_.rows[row] = limited(floor_div(mean - center_ + unit / 2, unit));
      if (products == 0) return;
      const std::int64_t level = center_ + unit * levels_.rows[row];
      kernels_.residuals(words, floats_.width, count, static_cast<std::int32_t>(level), offsets_.data() + column,
                         floats_.octave_bits, x.data());
      Gram part;
      if (!is_whole) make_gram(column, count, part);
      make_row_factors(row, x.data(), column, count, is_whole ? whole : part);
    });
    levels_.base = static_cast<std::uint16_t>((center_ - octave_ / 2) & ~std::int64_t{1});
  }

  void make_gram(std::size_t column, std::size_t count, Gram& gram) const noexcept {
    for (std::size_t k = 0; k < levels_.products; ++k) {
      for (std::size_t l = 0; l <= k; ++l) gram[k][l] = kernels_.dot(factor(k) + column, factor(l) + column, count);
    }
  }

  void make_row_factors(std::size_t row, const std::int16_t* x, std::size_t column, std::size_t count,
                        const Gram& gram) noexcept {
    for (std::size_t k = 0; k < levels_.products; ++k) {
      std::int64_t dot = 16 * kernels_.dot(x, factor(k) + column, count);
      for (std::size_t l = 0; l < k; ++l) dot -= levels_.rows[(1 + l) * rows_ + row] * gram[k][l];
      levels_.rows[(1 + k) * rows_ + row] = factor_of(dot, gram[k][k]);
    }
  }

  const std::int16_t* factor(std::size_t k) const noexcept { return factors_.data() + k * c_; }

  template <typename Work>
  void for_rows(Work work) {
    std::size_t at = 0;
    for (std::size_t row = 0; row < rows_; ++row) {
      const std::size_t column = row == 0 ? column_ : 0;
      const std::size_t count = std::min(c_ - column, floats_.n - at);
      work(row, floats_.words + at * floats_.width, column, count);
      at += count;
    }
  }

  const Floats& floats_;
  std::size_t c_;
  std::size_t column_;
  std::size_t rows_;
  std::size_t whole_;
  std::int64_t octave_;
  const LevelKernels& kernels_;
  Levels& levels_;
  std::vector<const std::uint8_t*> sampled_;  // rows
  std::vector<std::int64_t> means_;           // of the sampled rows
  std::vector<std::uint32_t> sums_;           // of the columns, over the sampled rows
  std::int64_t sum_of_means_ = 0;
  std::int64_t center_ = 0;            // mean of the sampled rows' means
  std::vector<std::int32_t> offsets_;  // of the columns
  std::vector<std::int16_t> factors_;  // of the columns, product by product
};

}  // namespace

bool make_levels(const Floats& floats, Grid grid, std::size_t max_products, Levels& levels) {
  const std::size_t c = grid.columns;
  if (c < kMinColumns || c > kMaxColumns) return false;
  const std::size_t skipped = grid.column == 0 ? 0 : c - grid.column;
  if (skipped >= floats.n) return false;
  const std::size_t whole = (floats.n - skipped) / c;
  if (whole < kMinRows || (grid.rows(floats.n) + c) * 8 > floats.n) return false;
  return LevelMaker(floats, grid, whole, levels).make(max_products);
}

Prediction::Prediction(const LevelsView& levels, Grid grid, std::size_t octave_bits)
    : levels_(levels), grid_(grid), octave_bits_(octave_bits), row_count_(levels.rows.size() / (1 + levels.products)) {
  if (levels.columns.empty()) return;
  const std::size_t c = levels.columns.size() / (1 + levels.products);
  units_.resize(c);
  for (std::size_t j = 0; j < c; ++j) {
    units_[j] = static_cast<std::uint16_t>(static_cast<std::uint32_t>(levels.columns[j]) << (octave_bits - 3));
  }
  factors_.assign(levels.columns.begin() + static_cast<std::ptrdiff_t>(c), levels.columns.end());
}

void Prediction::get(std::size_t first, std::size_t count, std::uint16_t* out) const noexcept {
  if (units_.empty()) {
    std::fill_n(out, count, levels_.base);
    return;
  }
  const LevelKernels& kernels = level_kernels();
  const std::size_t c = grid_.columns;
  std::size_t row = (grid_.column + first) / c;
  std::size_t column = (grid_.column + first) % c;
  while (count > 0) {
    const std::size_t run = std::min(count, c - column);
    const std::int8_t level = levels_.rows[row];
    if (level == kUnpredictedRow) {
      std::fill_n(out, run, std::uint16_t{0});
    } else {
      const std::uint32_t units = static_cast<std::uint32_t>(level) << (octave_bits_ - 3);
      std::array<std::int16_t, kMaxProducts> factors{};
      for (std::size_t k = 0; k < levels_.products; ++k) factors[k] = levels_.rows[(1 + k) * row_count_ + row];
      kernels.predict(static_cast<std::uint16_t>(levels_.base + units), units_.data() + column, levels_.products,
                      factors.data(), factors_.empty() ? nullptr : factors_.data() + column, c, 12 - octave_bits_, run,
                      out);
    }
    out += run;
    count -= run;
    column = 0;
    ++row;
  }
}

}  // namespace s4
