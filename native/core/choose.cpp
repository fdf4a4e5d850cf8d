#include "choose.hpp"

#include <algorithm>
#include <optional>

#include "histogram.hpp"
#include "windows.hpp"

namespace s4 {
namespace {

constexpr std::size_t kWholeSample = 16384;
constexpr std::size_t kSampleBlock = 128;
constexpr std::size_t kSampleBlocks = 32;
constexpr std::size_t kSampleShift = 13;
constexpr std::size_t kBalancedProducts = 4;

// Runs of successive elements: where each begins in the frame.
struct SampleRuns {
  std::vector<std::size_t> starts;
  std::size_t run = 0;

  std::size_t size() const noexcept { return starts.size() * run; }
};

SampleRuns sample_runs(std::size_t n) {
  SampleRuns runs;
  if (n <= kWholeSample) {
    runs.starts.push_back(0);
    runs.run = n;
    return runs;
  }
  runs.run = kSampleBlock;
  const std::size_t blocks = n / kSampleBlock;
  const std::size_t every = std::max<std::size_t>(1, blocks / kSampleBlocks);
  for (std::size_t g = 0;; ++g) {
    const std::size_t block = every * g + kSampleShift * g % every;
    if (block >= blocks) return runs;
    runs.starts.push_back(block * kSampleBlock);
  }
}

class Chooser {
 public:
  explicit Chooser(const FrameInput& input) : input_(input), runs_(sample_runs(input.elements())) {
    room_.resize(runs_.size() * input.width);
  }

  void choose(FrameCode& best) {
    const bool floats = input_.octave_bits != 0;
    std::uint64_t least = UINT64_MAX;
    Levels none;
    if (!floats || input_.effort.level == Level::kFast) {
      try_candidate(false, floats ? 1 : 0, none, least, best);
      return;
    }
    const bool doubles = input_.width == 8;
    const std::size_t last = input_.effort.level == Level::kSmall || doubles ? 3 : 0;
    const std::size_t first = doubles && input_.effort.level == Level::kBalanced ? 3 : 0;
    if (first == 0) try_candidate(false, 1, none, least, best);
    try_shifts(none, std::max<std::size_t>(first, 1), last, least, best);
    Levels levels;
    const Floats frame{input_.bytes.data(), input_.elements(), input_.width, input_.octave_bits};
    const std::size_t max_products = input_.effort.level == Level::kSmall ? kMaxProducts : kBalancedProducts;
    if (input_.grid.columns == 0 || !make_levels(frame, input_.grid, max_products, levels)) return;
    if (first == 0) try_candidate(true, 1, levels, least, best);
    if (input_.effort.level == Level::kBalanced && !doubles) {
      if (levels.products != 0) try_shifts(levels, 2, 2, least, best);
      return;
    }
    try_shifts(levels, std::max<std::size_t>(first, 1), last, least, best);
  }

 private:
  // Rotations by 1 + j bits, their bases moved so that the exponent's top j bits are seldom set.
  void try_shifts(const Levels& levels, std::size_t first, std::size_t last, std::uint64_t& least, FrameCode& best) {
    if (first > last) return;
    const Counts tops = top_bytes(levels);
    for (std::size_t j = first; j <= last; ++j) {
      Levels moved = levels;
      moved.base = static_cast<std::uint16_t>(levels.base + 256 * best_window(tops, std::size_t{256} >> j).start);
      try_candidate(true, 1 + j, moved, least, best);
    }
  }

  Counts top_bytes(const Levels& levels) {
    split_sample(levels, 1, true);
    Counts counts{};
    add_histogram({room_.data() + (input_.width - 1) * runs_.size(), runs_.size()}, counts);
    return counts;
  }

  void split_sample(const Levels& levels, std::size_t rotation, bool predicted) {
    std::optional<Prediction> prediction;
    if (predicted) prediction.emplace(levels.view(), input_.grid, input_.octave_bits);
    const PlaneLayout layout{input_.width, rotation, predicted ? &*prediction : nullptr};
    PlanePointers planes{};
    for (std::size_t i = 0; i < runs_.starts.size(); ++i) {
      for (std::size_t k = 0; k < input_.width; ++k) planes[k] = room_.data() + k * runs_.size() + i * runs_.run;
      const std::size_t start = runs_.starts[i];
      split_planes(layout, input_.bytes.data() + start * input_.width, start, runs_.run, planes);
    }
  }

  // levels: of a predicted one; without rows and columns its base only.
  void try_candidate(bool predicted, std::size_t rotation, const Levels& levels, std::uint64_t& least,
                     FrameCode& best) {
    split_sample(levels, rotation, predicted);
    const std::size_t n = input_.elements();
    std::uint64_t estimate = predicted ? 12 : 0;
    if (levels.size() != 0) estimate += levels.size() + 16;
    for (std::size_t k = 0; k < input_.width; ++k) {
      Counts counts{};
      add_histogram({room_.data() + k * runs_.size(), runs_.size()}, counts);
      choose_plane_code(counts, n, input_.effort, tried_[k]);
      estimate += tried_[k].estimate + 8;
    }
    if (estimate >= least) return;
    least = estimate;
    best.predicted = predicted;
    best.rotation = rotation;
    best.levels = levels;
    for (std::size_t k = 0; k < input_.width; ++k) best.planes[k] = tried_[k];
  }

  const FrameInput& input_;
  SampleRuns runs_;
  std::vector<std::uint8_t> room_;  // the sample's planes
  std::array<PlaneCode, kMaxPlanes> tried_;
};

}  // namespace

void choose_frame_code(const FrameInput& input, FrameCode& code) { Chooser(input).choose(code); }

}  // namespace s4
