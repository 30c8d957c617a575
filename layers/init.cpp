#include "layers/init.h"

#include <cmath>

namespace saccade::init {
namespace {

struct Fans {
  double in, out;
};

Fans fans(const Shape& shape) {
  SACCADE_CHECK(shape.rank() >= 2, "[init] fan-in and fan-out need a rank of 2 or more, got {}",
                shape.to_string());
  double receptive = 1;
  for (int i = 2; i < shape.rank(); ++i) receptive *= static_cast<double>(shape[i]);
  return {static_cast<double>(shape[1]) * receptive, static_cast<double>(shape[0]) * receptive};
}

void fill_uniform(Tensor& t, Rng& rng, double low, double high) {
  float* p = t.data<float>();
  for (int64_t i = 0; i < t.numel(); ++i) p[i] = static_cast<float>(rng.uniform(low, high));
}

}  // namespace

Initializer constant(double value) {
  return [=](Tensor& t, Rng&) { std::fill_n(t.data<float>(), t.numel(), static_cast<float>(value)); };
}

Initializer uniform(double low, double high) {
  return [=](Tensor& t, Rng& rng) { fill_uniform(t, rng, low, high); };
}

Initializer normal(double mean, double std) {
  return [=](Tensor& t, Rng& rng) {
    float* p = t.data<float>();
    for (int64_t i = 0; i < t.numel(); ++i) p[i] = static_cast<float>(mean + std * rng.normal());
  };
}

Initializer truncated_normal(double std) {
  return [=](Tensor& t, Rng& rng) {
    float* p = t.data<float>();
    for (int64_t i = 0; i < t.numel(); ++i) {
      double x;
      do x = std * rng.normal();
      while (std::abs(x) > 2);
      p[i] = static_cast<float>(x);
    }
  };
}

Initializer xavier_uniform(double gain) {
  return [=](Tensor& t, Rng& rng) {
    Fans f = fans(t.shape());
    double bound = gain * std::sqrt(6.0 / (f.in + f.out));
    fill_uniform(t, rng, -bound, bound);
  };
}

Initializer kaiming_normal_fan_out() {
  return [](Tensor& t, Rng& rng) { normal(0, std::sqrt(2.0 / fans(t.shape()).out))(t, rng); };
}

Initializer linear_default(int64_t fan_in) {
  double bound = fan_in > 0 ? 1.0 / std::sqrt(static_cast<double>(fan_in)) : 0;
  return uniform(-bound, bound);
}

Initializer values(std::vector<float> values) {
  return [values = std::move(values)](Tensor& t, Rng&) {
    SACCADE_CHECK(static_cast<int64_t>(values.size()) == t.numel(), "[init] {} values for shape {}",
                  values.size(), t.shape().to_string());
    std::copy(values.begin(), values.end(), t.data<float>());
  };
}

}  // namespace saccade::init
