#include "layers/init.h"

#include <cmath>
#include <span>

namespace saccade::init {
namespace {

struct Fans {
  double in, out;
};

Fans fans(const Shape& shape) {
  SACCADE_CHECK(shape.rank() >= 2, "[init] fan-in and fan-out need a rank of 2 or more, got {}", shape);
  double receptive = 1;
  for (int i = 2; i < shape.rank(); ++i) receptive *= static_cast<double>(shape[i]);
  return {static_cast<double>(shape[1]) * receptive, static_cast<double>(shape[0]) * receptive};
}

template <class Draw>
void fill(Tensor& t, const Draw& draw) {
  for (float& x : std::span(t.data<float>(), static_cast<size_t>(t.numel()))) x = static_cast<float>(draw());
}

}  // namespace

Initializer constant(double value) {
  return [=](Tensor& t, Rng&) { std::fill_n(t.data<float>(), t.numel(), static_cast<float>(value)); };
}

Initializer uniform(double low, double high) {
  return [=](Tensor& t, Rng& rng) { fill(t, [&] { return rng.uniform(low, high); }); };
}

Initializer normal(double mean, double std) {
  return [=](Tensor& t, Rng& rng) { fill(t, [&] { return mean + std * rng.normal(); }); };
}

Initializer truncated_normal(double std) {
  return [=](Tensor& t, Rng& rng) {
    fill(t, [&] {
      double x;
      do x = std * rng.normal();
      while (std::abs(x) > 2);
      return x;
    });
  };
}

Initializer xavier_uniform(double gain) {
  return [=](Tensor& t, Rng& rng) {
    Fans f = fans(t.shape());
    double bound = gain * std::sqrt(6.0 / (f.in + f.out));
    uniform(-bound, bound)(t, rng);
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
                  values.size(), t.shape());
    std::copy(values.begin(), values.end(), t.data<float>());
  };
}

}  // namespace saccade::init
