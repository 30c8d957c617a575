// `saccade predict` for videos.
#pragma once

#include <vector>

#include "core/files/output_file.h"
#include "train/inference/arguments.h"
#include "train/inference/predictor.h"

namespace saccade {

// Before the long work: throws InputError for video flags without a video, and for flags that make no sense
// with videos. Adds notes about flags without effect.
void check_video_flags(const PredictArguments& arguments, const Predictor& predictor, PredictInputs& inputs);

// Processes the videos in order; reports those that cannot be read. A signal ends the current video, keeping
// everything found so far, and skips the others. Returns the number of videos that have results.
size_t predict_videos(const std::vector<PredictInput>& videos, const PredictArguments& arguments,
                      Predictor& predictor, Workspace& workspace, PictureNames& names, OutputFile& list);

}  // namespace saccade
