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
    choose_alone(best);
    choose_bases(best);
  }

 private:
  void choose_alone(FrameCode& best) {
    const bool floats = input_.octave_bits != 0;
    const Levels none;
    if (!floats || input_.effort.level == Level::kFast) {
      try_candidate({Predictor::kNone, floats ? 1U : 0U}, none, best);
      return;
    }
    const bool doubles = input_.width == 8;
    const std::size_t last = input_.effort.level == Level::kSmall || doubles ? 3 : 0;
    const std::size_t first = doubles && input_.effort.level == Level::kBalanced ? 3 : 0;
    if (first == 0) try_candidate({Predictor::kNone, 1}, none, best);
    try_shifts(none, std::max<std::size_t>(first, 1), last, best);
    Levels levels;
    const Floats frame{input_.bytes.data(), input_.elements(), input_.width, input_.octave_bits};
    const std::size_t max_products = input_.effort.level == Level::kSmall ? kMaxProducts : kBalancedProducts;
    if (input_.grid.columns == 0 || !make_levels(frame, input_.grid, max_products, levels)) return;
    if (first == 0) try_candidate({Predictor::kLevels, 1}, levels, best);
    if (input_.effort.level == Level::kBalanced && !doubles) {
      if (levels.products != 0) try_shifts(levels, 2, 2, best);
      return;
    }
    try_shifts(levels, std::max<std::size_t>(first, 1), last, best);
  }

  void choose_bases(FrameCode& best) {
    const Levels none;
    const std::size_t rotation = input_.octave_bits != 0 ? 1 : 0;
    for (std::size_t k = 0; k < input_.bases.size(); ++k) {
      switch (input_.bases[k].kind) {
        case BaseKind::kSame:
          try_candidate({Predictor::kXor, rotation, k}, none, best);
          try_candidate({Predictor::kDifference, 0, k}, none, best);
          break;
        case BaseKind::kWider: try_candidate({Predictor::kNarrowed, rotation, k}, none, best); break;
        case BaseKind::kNarrower: try_candidate({Predictor::kWidened, 0, k}, none, best); break;
      }
    }
  }

  // Rotations by 1 + j bits, their bases moved so that the exponent's top j bits are seldom set.
  void try_shifts(const Levels& levels, std::size_t first, std::size_t last, FrameCode& best) {
    if (first > last) return;
    const Counts tops = top_bytes(levels);
    for (std::size_t j = first; j <= last; ++j) {
      Levels moved = levels;
      moved.base = static_cast<std::uint16_t>(levels.base + 256 * best_window(tops, std::size_t{256} >> j).start);
      try_candidate({Predictor::kLevels, 1 + j}, moved, best);
    }
  }

  Counts top_bytes(const Levels& levels) {
    split_sample({Predictor::kLevels, 1}, levels);
    Counts counts{};
    add_histogram({room_.data() + (input_.width - 1) * runs_.size(), runs_.size()}, counts);
    return counts;
  }

  void split_sample(const Candidate& candidate, const Levels& levels) {
    std::optional<Prediction> prediction;
    if (candidate.predictor == Predictor::kLevels) {
      prediction.emplace(levels.view(), input_.grid, input_.octave_bits);
    }
    const PlaneLayout layout = planes_layout(input_, candidate, prediction ? &*prediction : nullptr);
    PlanePointers planes{};
    for (std::size_t i = 0; i < runs_.starts.size(); ++i) {
      for (std::size_t k = 0; k < input_.width; ++k) planes[k] = room_.data() + k * runs_.size() + i * runs_.run;
      const std::size_t start = runs_.starts[i];
      split_planes(layout, input_.bytes.data() + start * input_.width, start, runs_.run, planes);
    }
  }

  // levels: of one that predicts them; without rows and columns their base only.
  void try_candidate(const Candidate& candidate, const Levels& levels, FrameCode& best) {
    split_sample(candidate, levels);
    const std::size_t n = input_.elements();
    std::uint64_t estimate = 0;
    if (candidate.predictor == Predictor::kLevels) estimate = kPredictorBytes;
    if (needs_base(candidate.predictor)) estimate = kReferenceBytes;
    if (levels.size() != 0) estimate += levels.size() + 16;
    for (std::size_t k = 0; k < input_.width; ++k) {
      Counts counts{};
      add_histogram({room_.data() + k * runs_.size(), runs_.size()}, counts);
      choose_plane_code(counts, n, plane_effort(input_, candidate), tried_[k]);
      estimate += tried_[k].estimate + 8;
    }
    if (estimate >= least_) return;
    least_ = estimate;
    best.candidate = candidate;
    best.levels = levels;
    for (std::size_t k = 0; k < input_.width; ++k) best.planes[k] = tried_[k];
  }

  const FrameInput& input_;
  SampleRuns runs_;
  std::vector<std::uint8_t> room_;  // the sample's planes
  std::array<PlaneCode, kMaxPlanes> tried_;
  std::uint64_t least_ = UINT64_MAX;
};

}  // namespace

PlaneLayout planes_layout(const FrameInput& input, const Candidate& candidate, const Prediction* levels) noexcept {
  PlaneLayout layout{input.width, candidate.rotation, levels};
  if (needs_base(candidate.predictor)) {
    layout.base = {candidate.predictor, input.octave_bits != 0, input.bases[candidate.base].elements};
  }
  return layout;
}

void choose_frame_code(const FrameInput& input, FrameCode& code) { Chooser(input).choose(code); }

}  // namespace s4
