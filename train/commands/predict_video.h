// `saccade predict` of videos.
#pragma once

#include <vector>

#include "core/files/output_file.h"
#include "train/inference/arguments.h"
#include "train/inference/predictor.h"

namespace saccade {

// Before the long work: throws InputError for flags of videos without one,
// and for what makes no sense with videos.
void check_video_flags(const PredictArguments& arguments, const Predictor& predictor,
                       const std::vector<PredictInput>& inputs);

// Works through the videos in their order; what cannot be read is reported. A signal ends the one at hand
// with all that was found so far, and leaves out the others. Returns of how many there are results.
size_t predict_videos(const std::vector<PredictInput>& videos, const PredictArguments& arguments,
                      Predictor& predictor, Workspace& workspace, PictureNames& names, OutputFile& list);

}  // namespace saccade
