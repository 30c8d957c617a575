// A model as an ONNX file (docs/onnx.md).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/kernels/normalize_image/normalize_image.h"
#include "train/export/outputs.h"

namespace saccade {

// What `images` holds.
enum class OnnxInput {
  kNormalized,  // f32 [N, 3, H, W], as the model reads them
  kUnit,        // f32 [N, 3, H, W] from 0 to 1
  kBytes,       // u8 [N, H, W, 3]
};

struct ExportOptions {
  int64_t height = 0, width = 0;  // of the images
  int64_t batch = 1;              // images at a time; 0: any number
  OnnxInput input = OnnxInput::kNormalized;
  kernels::ImageNormalization normalization;
  // What the file says about itself beside what this header's fields and its outputs tell.
  std::vector<std::pair<std::string, std::string>> metadata;
  std::string version;  // of the producer
};

struct ExportedModel {
  std::string file;  // an onnx.ModelProto
  int64_t nodes = 0;
  std::vector<std::string> outputs;  // their names
};

// The model in evaluation mode, on the CPU, in f32. Throws Error naming the op that has no lowering
// (train/export/lowering.h) or what else cannot be written, InputError where the model cannot read images of
// this size or the file would be larger than protobuf's 2 GiB.
ExportedModel export_model(Module& model, const ModelOutputs& outputs, const ExportOptions& options);

}  // namespace saccade
