// A model as an ONNX file (docs/onnx.md).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/kernels/normalize_image/normalize_image.h"
#include "layers/module.h"
#include "train/export/graph.h"

namespace saccade {

// What comes out of an exported model: each task says it of its own (train/tasks/onnx_outputs.h) at the end
// of the graph under construction.
class OutputWriter {
 public:
  OutputWriter(OnnxGraph& graph, OnnxGraph::Axis batch) : graph_(graph), batch_(std::move(batch)) {}
  OnnxGraph& graph() { return graph_; }
  // A further input, and an output, of this size behind the batch.
  void input(const std::string& name, DType dtype, const std::vector<int64_t>& size) {
    graph_.input(name, dtype, axes(size));
  }
  void output(const std::string& name, const std::string& from, DType dtype,
              const std::vector<int64_t>& size) {
    graph_.output(name, from, dtype, axes(size));
    names_.push_back(name);
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<OnnxGraph::Axis> axes(const std::vector<int64_t>& size) const {
    std::vector<OnnxGraph::Axis> all{batch_};
    for (int64_t length : size) all.push_back({length});
    return all;
  }

  OnnxGraph& graph_;
  OnnxGraph::Axis batch_;
  std::vector<std::string> names_;
};

class ModelOutputs {
 public:
  virtual ~ModelOutputs() = default;
  // What the model itself makes of normalised images [N, H, W, 3], by name.
  virtual std::vector<std::pair<std::string, Tensor>> run(Module& model, const Tensor& images) const = 0;
  // Writes the outputs of the file. `raw`: those of run, as the graph knows them.
  struct Raw {
    std::string name;
    Shape shape;
  };
  virtual void lower(OutputWriter& writer, const std::vector<Raw>& raw) const = 0;
  // What the file says about them.
  virtual std::vector<std::pair<std::string, std::string>> metadata() const = 0;
  // What is left to who reads the file, a line; "": nothing.
  virtual std::string note() const { return ""; }
};

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
  // What the file says about itself besides what this header's fields and its outputs tell.
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
