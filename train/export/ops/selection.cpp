// What models compute without gradients: which tokens become queries, and the sine encodings of their boxes.
#include <cmath>
#include <numbers>

#include "train/export/lowering.h"

namespace saccade {
namespace {

// logits [N, S, columns] -> the indices [N, K] of the tokens whose best class scores highest. TopK leaves the
// order of equal scores undefined; ours is by rising index.
SACCADE_LOWERING(best_tokens) {
  const int64_t classes = l.integer("classes"), count = l.result_shape()[1];
  std::string logits = l.input(0);
  if (classes < l.shape(0)[2]) logits = l.slice(logits, 2, 0, classes);
  const std::string best =
      l.node("ReduceMax", {logits}, {{"axes", std::vector<int64_t>{2}}, {"keepdims", 0}});
  const std::string values = l.graph().node("TopK", {best, l.graph().ints({count}, "count")},
                                            {{"axis", -1}, {"largest", 1}, {"sorted", 1}}, 2);
  l.result(values + ":1");
}

// x [.., K] -> [.., K C]: sines and cosines of each number, alternating.
SACCADE_LOWERING(sine_encoding, true) {
  const int64_t channels = l.integer("channels"), pairs = channels / 2;
  const double temperature = l.number("temperature");
  std::vector<float> turns;
  for (int64_t i = 0; i < pairs; ++i)
    turns.push_back(static_cast<float>(
        2 * std::numbers::pi /
        std::pow(temperature, 2 * static_cast<double>(i) / static_cast<double>(channels))));
  const Shape& x = l.shape(0);
  const std::vector<int64_t> last{x.rank()}, after{x.rank() + 1};
  const std::string angles =
      l.node("Mul", {l.node("Unsqueeze", {l.input(0), l.graph().ints(last, "axes")}),
                     l.graph().constant(Tensor::from<float>({pairs}, turns), "turns")});
  auto part = [&](const char* function) {
    return l.node("Unsqueeze", {l.node(function, {angles}), l.graph().ints(after, "axes")});
  };
  std::vector<int64_t> sizes{0};
  for (int axis = 1; axis + 1 < x.rank(); ++axis) sizes.push_back(x[axis]);
  sizes.push_back(x[-1] * channels);
  l.result(l.reshape(l.node("Concat", {part("Sin"), part("Cos")}, {{"axis", -1}}), sizes));
}

}  // namespace
}  // namespace saccade
