// Recomputing the encoder's activations changes memory, not numbers.
#include <gtest/gtest.h>

#include "autograd/engine.h"
#include "models/build.h"
#include "models/detection/set_output.h"
#include "tests/models/schema_args.h"

namespace saccade {
namespace {

std::shared_ptr<Detector> tiny_model(double dropout) {
  Args model = test::schema_args("deformable_detr");
  Args& backbone = model.section("backbone");
  backbone.set("blocks", std::vector<int64_t>{1, 1, 1, 1});
  backbone.set("width", int64_t{8});
  Args& t = model.section("transformer");
  for (auto [key, value] : {std::pair{"hidden_dim", 16},
                            {"heads", 2},
                            {"encoder_layers", 2},
                            {"decoder_layers", 1},
                            {"ffn_dim", 32},
                            {"queries", 5},
                            {"levels", 3}})
    t.set(key, int64_t{value});
  t.set("dropout", dropout);
  auto detector = test::build_detector(model, 3);
  detector->initialize(4);
  detector->set_training(true);
  return detector;
}

// Returns the gradients of all parameters, and the memory that the forward pass left in use.
std::pair<std::vector<float>, int64_t> gradients(bool recompute) {
  auto model = tiny_model(0.1);
  if (recompute) model->set_recompute({"encoder\\.layers"});
  ExecutionScope scope;
  execution().rng_key = 9;
  Rng rng(2);
  std::vector<float> pixels(2 * 64 * 64 * 3);
  for (float& p : pixels) p = static_cast<float>(rng.normal());
  int64_t before = allocator(Device::kCpu).stats().active_bytes;
  SetOutput output =
      set_output(*model->forward({.images = Var(Tensor::from<float>({2, 64, 64, 3}, pixels))}));
  int64_t kept = allocator(Device::kCpu).stats().active_bytes - before;
  const LayerPrediction& last = output.layers.back();
  backward(add(sum(square(last.logits)), sum(square(last.boxes))));
  std::vector<float> all;
  for (const NamedTensor& n : model->parameters()) {
    if (!n.var.grad().defined()) continue;
    auto g = n.var.grad().to_vector<float>();
    all.insert(all.end(), g.begin(), g.end());
  }
  return {all, kept};
}

TEST(Recompute, GivesTheSameBitsInLessMemory) {
  auto [plain, plain_memory] = gradients(false);
  auto [again, less_memory] = gradients(true);
  EXPECT_EQ(plain, again);
  EXPECT_LT(less_memory, plain_memory);
}

TEST(Recompute, ARegexWithoutAModuleIsAnError) {
  EXPECT_THROW(tiny_model(0)->set_recompute({"backbone"}), InputError);
  EXPECT_THROW(tiny_model(0)->set_recompute({"("}), InputError);
}

}  // namespace
}  // namespace saccade
