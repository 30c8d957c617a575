// What a model does with images, as a list of ops: one run is watched, a second one with other images (and,
// for a batch of any size, with more of them) tells what depends on the images and which axes grow with the
// batch.
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
  bool depends = false;     // on the images; the others have a `constant`
  bool made_by_op = false;  // else it was there before, or a kernel made it
  Tensor constant;
  uint64_t checksum = 0;    // of the constant when it was first read
  std::vector<bool> grows;  // [rank]: this axis is proportional to the batch
};

struct TracedOp {
  std::string name;
  const void* module = nullptr;
  std::vector<int> inputs;  // values; -1: undefined
  OpAttributes attributes;
  std::vector<std::pair<std::string, int>> tensors;  // the attributes that are tensors, as values
  int output = -1;
};

struct Trace {
  int64_t batch = 0;                // images of the run
  std::vector<TracedValue> values;  // value 0: the images [N, H, W, 3]
  std::vector<TracedOp> ops;        // in order of execution; those that no output needs are left out
  std::vector<int> outputs;
};

// Runs a model on images and returns its outputs.
using TracedRun = std::function<std::vector<Tensor>(const Tensor& images)>;

// Traces run(images), images [N, H, W, 3], and holds it against run(others), of as many or, from two on, of
// twice as many images (of one image, what repeats something for every image would be no op). The model must
// have run before: what it keeps from run to run is there. Throws Error when the two runs take different ops,
// or ops with other attributes, or when a tensor that an op reads, and that none made, differs or is
// overwritten: it depends on the images, or on how many there are, in a way that cannot be written down.
Trace trace_model(const TracedRun& run, const Tensor& images, const Tensor& others);

}  // namespace saccade
