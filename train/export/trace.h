// Traces what a model does with images as a list of ops: one run is observed, and a second one with other
// images (for a batch of any size, more of them) shows what depends on the images and which axes grow with
// the batch.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "autograd/scope.h"

namespace saccade {

// A tensor of the traced run.
struct TracedValue {
  Shape shape;
  DType dtype = DType::kF32;
  bool depends = false;     // on the images; a value that does not has a `constant`
  bool made_by_op = false;  // otherwise it existed before the run, or a kernel made it
  Tensor constant;
  uint64_t checksum = 0;    // of the constant when it was first read
  std::vector<bool> grows;  // [rank]: whether the axis is proportional to the batch
};

struct TracedOp {
  std::string name;
  const void* module = nullptr;
  std::vector<int> inputs;  // indices of values; -1: undefined
  OpAttributes attributes;
  std::vector<std::pair<std::string, int>> tensors;  // the attributes that are tensors, as indices of values
  int output = -1;
};

struct Trace {
  int64_t batch = 0;                // the number of images in the run
  std::vector<TracedValue> values;  // value 0: the images [N, H, W, 3]
  std::vector<TracedOp> ops;        // in order of execution, without those that no output needs
  std::vector<int> outputs;
};

// Runs a model on images and returns its outputs.
using TracedRun = std::function<std::vector<Tensor>(const Tensor& images)>;

// Traces run(images), with images [N, H, W, 3], and compares it with run(others), which has as many images
// or, from two on, twice as many (with one image, repeating something for every image would be no op). The
// model must have run before, so that everything it keeps between runs exists. Throws Error if the two runs
// use different ops or attributes, or if a tensor that an op reads but no op made differs or is overwritten:
// it then depends on the images, or on their number, in a way that cannot be written down.
Trace trace_model(const TracedRun& run, const Tensor& images, const Tensor& others);

}  // namespace saccade
