// Initialisers: they set the first values of a parameter. Fan-in and fan-out follow PyTorch: for a weight
// [out, in, ...], fan_in = in * prod(...) and fan_out = out * prod(...).
#pragma once

#include <functional>

#include "core/tensor/philox.h"
#include "core/tensor/tensor.h"

namespace saccade {

// Fills a contiguous f32 CPU tensor from the generator.
using Initializer = std::function<void(Tensor& t, Rng& rng)>;

namespace init {
Initializer constant(double value);
Initializer uniform(double low, double high);
Initializer normal(double mean, double std);
Initializer truncated_normal(double std);       // cut at +-2 (PyTorch's trunc_normal_ defaults), mean 0
Initializer xavier_uniform(double gain = 1.0);  // U(+-gain sqrt(6 / (fan_in + fan_out)))
Initializer kaiming_normal_fan_out();           // N(0, 2 / fan_out): torchvision's ResNet convolutions
// PyTorch's default for Linear and Conv2d weights and biases: U(+-1/sqrt(fan_in)).
Initializer linear_default(int64_t fan_in);
Initializer values(std::vector<float> values);  // literal values
}  // namespace init

}  // namespace saccade
