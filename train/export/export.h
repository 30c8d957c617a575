// Exports a model as an ONNX file (docs/onnx.md).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/kernels/normalize_image/normalize_image.h"
#include "layers/module.h"
#include "train/export/graph.h"

namespace saccade {

// Writes the outputs of an exported model: each task adds its own (train/tasks/onnx_outputs.h) at the end of
// the graph under construction.
class OutputWriter {
 public:
  OutputWriter(OnnxGraph& graph, OnnxGraph::Axis batch) : graph_(graph), batch_(std::move(batch)) {}
  OnnxGraph& graph() { return graph_; }
  // Adds a further input, or an output, with these sizes after the batch axis.
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
  // Returns the model's raw outputs for normalised images [N, H, W, 3], by name.
  virtual std::vector<std::pair<std::string, Tensor>> run(Module& model, const Tensor& images) const = 0;
  // Writes the outputs of the file. `raw`: the outputs of run, by their names in the graph.
  struct Raw {
    std::string name;
    Shape shape;
  };
  virtual void lower(OutputWriter& writer, const std::vector<Raw>& raw) const = 0;
  // Returns the metadata that the file holds about them.
  virtual std::vector<std::pair<std::string, std::string>> metadata() const = 0;
  // Returns what the reader of the file must still do, as one line; empty if nothing.
  virtual std::string note() const { return ""; }
};

// The meaning of the input `images`.
enum class OnnxInput {
  kNormalized,  // f32 [N, 3, H, W], normalised as the model reads them
  kUnit,        // f32 [N, 3, H, W] from 0 to 1
  kBytes,       // u8 [N, H, W, 3]
};

struct ExportOptions {
  int64_t height = 0, width = 0;  // of the images
  int64_t batch = 1;              // images at a time; 0: any number
  OnnxInput input = OnnxInput::kNormalized;
  kernels::ImageNormalization normalization;
  // Metadata of the file in addition to the fields of this header and what the outputs provide.
  std::vector<std::pair<std::string, std::string>> metadata;
  std::string version;  // of the producer
};

struct ExportedModel {
  std::string file;  // an onnx.ModelProto
  int64_t nodes = 0;
  std::vector<std::string> outputs;  // their names
};

// Exports the model in evaluation mode, on the CPU, in f32. Throws Error naming the op that has no lowering
// (train/export/lowering.h) or whatever else cannot be written, and InputError if the model cannot read
// images of this size or the file would be larger than protobuf's 2 GiB.
ExportedModel export_model(Module& model, const ModelOutputs& outputs, const ExportOptions& options);

}  // namespace saccade
