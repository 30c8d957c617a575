#include "train/commands/cli/cli.h"

#include <fmt/format.h>

#include "train/video/video.h"

namespace saccade {

// The macros are defined for this file alone, so that a commit recompiles nothing else (CMakeLists.txt).
std::string version_text() {
  return fmt::format(
      "saccade {} (commit {})\nCPU: oneDNN, -march={}, compiled by {} {}\nCUDA: {}\nVideos: {}",
      SACCADE_VERSION, SACCADE_COMMIT, SACCADE_MARCH, SACCADE_COMPILER, __VERSION__, SACCADE_CUDA_FOUND,
      video_support());
}

}  // namespace saccade
