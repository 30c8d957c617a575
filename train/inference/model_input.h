// Converts a batch of bytes to a model's input.
#pragma once

#include "core/kernels/normalize_image/normalize_image.h"
#include "data/loading/batch.h"
#include "models/detector.h"

namespace saccade {

// [N, H, W, 3] f32, 0 in the padding.
Var normalized_images(const Batch& batch, const kernels::ImageNormalization& norm,
                      Device device = Device::kCpu);

// Returns normalised f32 images on the device, 0 in the padding, with their sizes if one is padded.
DetectorInput detector_input(const Batch& batch, const kernels::ImageNormalization& norm,
                             Device device = Device::kCpu);

}  // namespace saccade
