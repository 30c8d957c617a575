// From a batch of bytes to what a detector reads.
#pragma once

#include "core/kernels/normalize_image.h"
#include "data/batch.h"
#include "models/detector.h"

namespace saccade {

// Normalised f32 images on the device, 0 in the padding, with the images' sizes when one of them is padded.
DetectorInput detector_input(const Batch& batch, const kernels::ImageNormalization& norm,
                             Device device = Device::kCpu);

}  // namespace saccade
