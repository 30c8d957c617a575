// How to add a layer: nothing to do here. Every attention layer that registers itself
// (layers/attention/*.cpp) is built with a small shape and goes through all checks below:
//   gradients of inputs and parameters in f64 against central differences with a random cotangent; masked
//   tokens change nothing; a batch gives what its samples give alone; the same bits run to run; bf16 near
//   f32; recomputation equal; dropout in training alone, of other elements at each call; on a GPU, where
//   there is one, what the CPU gives.
// A failing case prints the layer's name; run it alone with --gtest_filter=*<name>*.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "autograd/engine.h"
#include "core/tensor/device.h"
#include "layers/attention.h"

namespace saccade {
namespace {

constexpr int64_t kDim = 8, kHeads = 2, kBatch = 2;

Tensor random(const Shape& shape, Rng& rng, double low, double high, DType dtype = DType::kF64) {
  std::vector<double> v(static_cast<size_t>(shape.numel()));
  for (double& x : v) x = rng.uniform(low, high);
  return Tensor::from<double>(shape, v).to(dtype);
}

class AttentionLayer : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const AttentionSpec& spec = attention_layers().find(GetParam());
    one_map_ = spec.inputs == AttentionInputs::kOneMap;
    if (one_map_) {
      levels_ = {{4, 5}};
      queries_ = tokens_ = 20;
    }
    layer_ = spec.make({kDim, kHeads, levels_.size(), 2, 0}, Args());
    layer_->initialize(3);
    // Weights that start at zero would hide errors.
    Rng rng(5);
    for (const NamedTensor& t : layer_->parameters()) {
      Tensor value = t.var.value();
      Tensor noise = random(t.var.shape(), rng, -0.3, 0.3, DType::kF32);
      NoGrad no_grad;
      value.copy_from(add(Var(value), Var(noise)).value());
    }
  }

  AttentionInput make_input(DType dtype, bool needs_grad) {
    Rng rng(11);
    AttentionInput in;
    in.query = Var(random({kBatch, queries_, kDim}, rng, -1, 1, dtype), needs_grad);
    in.key = one_map_ ? in.query : Var(random({kBatch, tokens_, kDim}, rng, -1, 1, dtype), needs_grad);
    in.value = one_map_ ? in.query : Var(random({kBatch, tokens_, kDim}, rng, -1, 1, dtype), needs_grad);
    DType points = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
    in.reference_points =
        Var(random({kBatch, queries_, levels_.size(), 2}, rng, 0.2, 0.8, points), needs_grad);
    in.levels = levels_;
    if (layer_->separates_positions()) {
      in.query_position = Var(random({kBatch, queries_, kDim}, rng, -1, 1, dtype), needs_grad);
      in.key_position = Var(random({kBatch, tokens_, kDim}, rng, -1, 1, dtype), needs_grad);
    }
    return in;
  }

  // Returns the defined tensors of an input, each once.
  std::vector<std::pair<const char*, Var*>> tensors_of(AttentionInput& in) const {
    std::vector<std::pair<const char*, Var*>> all{{"query", &in.query},
                                                  {"reference points", &in.reference_points}};
    if (!one_map_) all.insert(all.end(), {{"key", &in.key}, {"value", &in.value}});
    if (in.query_position.defined())
      all.insert(all.end(), {{"query position", &in.query_position}, {"key position", &in.key_position}});
    return all;
  }

  // The output and the gradients of inputs and parameters, computed on a device and brought to the CPU.
  std::vector<NamedTensor> run_on(Device device, DType compute) {
    ExecutionScope scope;
    execution().compute = compute;
    layer_->to(device);
    AttentionInput in = make_input(DType::kF32, false);
    for (auto [name, v] : tensors_of(in)) *v = Var(v->value().to(device), true);
    if (one_map_) in.key = in.value = in.query;
    std::vector<int64_t> mask(static_cast<size_t>(kBatch * tokens_));
    for (size_t i = 0; i < mask.size(); ++i) mask[i] = i % 7 == 3;
    in.padding_mask = Tensor::from<int64_t>({kBatch, tokens_}, mask).to(DType::kBool).to(device);
    Var out = layer_->forward(in);
    Rng rng(31);
    backward(out, random(out.shape(), rng, -1, 1, out.dtype()).to(device));
    std::vector<NamedTensor> leaves;
    for (auto [name, v] : tensors_of(in)) leaves.push_back({name, *v});
    for (const NamedTensor& t : layer_->parameters()) leaves.push_back(t);
    std::vector<NamedTensor> results{{"output", Var(out.value().to(Device::kCpu))}};
    for (NamedTensor& leaf : leaves) {
      // An input that this layer does not use has no gradient.
      if (leaf.var.grad().defined()) {
        results.push_back({"gradient of " + leaf.name, Var(leaf.var.grad().to(Device::kCpu))});
      }
      leaf.var.clear_grad();
    }
    return results;
  }
  // `tolerance` is relative to the largest element of a result, or to the size of the terms that cancel, such
  // as all of the gradient of a key's bias, which moves the scores of a row alike.
  void expect_cuda_agrees(DType compute, double tolerance) {
    std::vector<NamedTensor> want = run_on(Device::kCpu, compute), got = run_on(Device::kCuda, compute),
                             again = run_on(Device::kCuda, compute);
    ASSERT_EQ(want.size(), got.size());
    ASSERT_EQ(want.size(), again.size());
    for (size_t k = 0; k < want.size(); ++k) {
      EXPECT_EQ(want[k].name, got[k].name);
      EXPECT_EQ(want[k].var.dtype(), got[k].var.dtype()) << want[k].name;
      auto a = want[k].var.value().to_vector<float>(), b = got[k].var.value().to_vector<float>();
      ASSERT_EQ(a.size(), b.size()) << want[k].name;
      float scale = 0.02f;
      for (float x : a) scale = std::max(scale, std::abs(x));
      for (size_t i = 0; i < a.size(); ++i)
        EXPECT_NEAR(a[i], b[i], tolerance * scale) << want[k].name << " element " << i;
      EXPECT_EQ(b, again[k].var.value().to_vector<float>()) << want[k].name << ": a second run";
    }
  }

  std::shared_ptr<Attention> layer_;
  bool one_map_ = false;
  FeatureLevels levels_{{4, 5}, {2, 3}};
  int64_t queries_ = 5, tokens_ = 26;
};

double dot(const Tensor& a, const Tensor& b) {
  auto x = a.to_vector<double>(), y = b.to_vector<double>();
  double s = 0;
  for (size_t i = 0; i < x.size(); ++i) s += x[i] * y[i];
  return s;
}

TEST_P(AttentionLayer, GradientsAreRight) {
  layer_->to(DType::kF64);
  AttentionInput in = make_input(DType::kF64, true);
  Rng rng(17);
  Var out = layer_->forward(in);
  Tensor cotangent = random(out.shape(), rng, -1, 1);
  backward(out, cotangent);
  Vars leaves;
  for (auto [name, v] : tensors_of(in)) leaves.push_back(*v);
  for (const NamedTensor& t : layer_->parameters()) leaves.push_back(t.var);
  for (size_t k = 0; k < leaves.size(); ++k) {
    Var leaf = leaves[k];
    if (!leaf.grad().defined()) continue;  // an input that this layer does not use
    auto analytic = leaf.grad().to_vector<double>();
    double* p = leaf.value().data<double>();
    for (int64_t i = 0; i < leaf.value().numel(); i += std::max<int64_t>(1, leaf.value().numel() / 7)) {
      NoGrad no_grad;
      double x = p[i], h = 1e-6;
      p[i] = x + h;
      double up = dot(layer_->forward(in).value(), cotangent);
      p[i] = x - h;
      double down = dot(layer_->forward(in).value(), cotangent);
      p[i] = x;
      // Central differences of f64: truncation h^2 and cancellation 1e-16 / h leave about 1e-9 of slack.
      EXPECT_NEAR((up - down) / (2 * h), analytic[static_cast<size_t>(i)],
                  1e-7 + 1e-6 * std::abs(analytic[static_cast<size_t>(i)]))
          << "leaf " << k << " element " << i;
    }
  }
  EXPECT_TRUE(in.query.grad().defined());
  EXPECT_TRUE(in.value.grad().defined());
  for (const NamedTensor& t : layer_->parameters()) EXPECT_TRUE(t.var.grad().defined()) << t.name;
}

TEST_P(AttentionLayer, DropsInTrainingAlone) {
  Args args;
  const auto dropping =
      attention_layers().find(GetParam()).make({kDim, kHeads, levels_.size(), 2, 0.5}, args);
  const std::vector<NamedTensor> to = dropping->named_tensors(), from = layer_->named_tensors();
  ASSERT_EQ(to.size(), from.size());
  for (size_t i = 0; i < to.size(); ++i) {
    Tensor value = to[i].var.value();
    value.copy_from(from[i].var.value());
  }
  const auto outputs = [&](Attention& layer, bool training) {
    layer.set_training(training);
    ExecutionScope scope;
    execution().rng_key = 7;
    const auto output = [&] {
      return layer.forward(make_input(DType::kF32, false)).value().to_vector<float>();
    };
    const auto first = output();
    EXPECT_EQ(output() != first, training && &layer == dropping.get() && args.readings().contains("dropout"))
        << "each call of a step drops others";
    return first;
  };
  const auto plain = outputs(*layer_, true);
  EXPECT_EQ(outputs(*layer_, false), plain);
  EXPECT_EQ(outputs(*dropping, false), plain);
  EXPECT_EQ(outputs(*dropping, true) != plain, args.readings().contains("dropout"));
}

TEST_P(AttentionLayer, MaskedTokensChangeNothing) {
  if (one_map_) GTEST_SKIP() << "this layer takes whole maps, padding included";
  AttentionInput in = make_input(DType::kF32, false);
  std::vector<int64_t> mask(static_cast<size_t>(kBatch * tokens_));
  for (size_t i = 0; i < mask.size(); ++i) mask[i] = i % 4 == 1;
  in.padding_mask = Tensor::from<int64_t>({kBatch, tokens_}, mask).to(DType::kBool);
  auto before = layer_->forward(in).value().to_vector<float>();
  for (Var v : {in.key, in.value, in.key_position}) {
    if (!v.defined()) continue;
    float* p = v.value().data<float>();
    for (size_t i = 0; i < mask.size(); ++i)
      if (mask[i])
        for (int64_t c = 0; c < kDim; ++c) p[static_cast<int64_t>(i) * kDim + c] = 1e3f;
  }
  EXPECT_EQ(before, layer_->forward(in).value().to_vector<float>());
}

TEST_P(AttentionLayer, ABatchGivesWhatItsSamplesGive) {
  AttentionInput in = make_input(DType::kF32, false);
  auto both = layer_->forward(in).value();
  for (int64_t n = 0; n < kBatch; ++n) {
    AttentionInput one = in;
    for (auto [name, v] : tensors_of(one)) *v = slice(*v, 0, n, n + 1);
    if (one_map_) one.key = one.value = one.query;
    auto alone = layer_->forward(one).value().to_vector<float>();
    auto together = both.slice(0, n, n + 1).to_vector<float>();
    for (size_t i = 0; i < alone.size(); ++i)
      EXPECT_NEAR(alone[i], together[i], 1e-5);  // other blocking of the products
  }
}

TEST_P(AttentionLayer, RunsGiveTheSameBits) {
  auto run = [&] {
    AttentionInput in = make_input(DType::kF32, true);
    Var out = layer_->forward(in);
    Rng rng(23);
    backward(out, random(out.shape(), rng, -1, 1, DType::kF32));
    auto bits = out.value().to_vector<float>();
    for (const NamedTensor& t : layer_->parameters()) {
      auto g = t.var.grad().to_vector<float>();
      bits.insert(bits.end(), g.begin(), g.end());
      Var(t.var).clear_grad();
    }
    return bits;
  };
  EXPECT_EQ(run(), run());
}

TEST_P(AttentionLayer, Bf16StaysNearF32) {
  AttentionInput in = make_input(DType::kF32, false);
  auto exact = layer_->forward(in).value().to_vector<float>();
  ExecutionScope scope;
  execution().compute = DType::kBF16;
  auto rounded = layer_->forward(in).value().to_vector<float>();
  double worst = 0, scale = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(exact[i]) - rounded[i]));
    scale = std::max(scale, std::abs(static_cast<double>(exact[i])));
  }
  // bf16 keeps 8 bits: 2^-8 per operation, a few operations deep. Below the floor bf16 was not used at all.
  EXPECT_LT(worst, 0.05 * scale);
  EXPECT_GT(worst, 1e-5 * scale);
}

TEST_P(AttentionLayer, RecomputationGivesTheSameGradients) {
  auto run = [&](bool recompute) {
    AttentionInput in = make_input(DType::kF32, true);
    auto body = [&](const Vars& v) {
      AttentionInput inner = in;
      inner.query = v[0];
      inner.value = v[1];
      if (one_map_) inner.key = inner.value = inner.query;
      return layer_->forward(inner);
    };
    Var out = recompute ? recomputed(body, {in.query, in.value}) : body({in.query, in.value});
    Rng rng(29);
    backward(out, random(out.shape(), rng, -1, 1, DType::kF32));
    auto bits = in.query.grad().to_vector<float>();
    for (const NamedTensor& t : layer_->parameters()) {
      auto g = t.var.grad().to_vector<float>();
      bits.insert(bits.end(), g.begin(), g.end());
      Var(t.var).clear_grad();
    }
    return bits;
  };
  EXPECT_EQ(run(false), run(true));
}

// Both devices compute in f32 and add up in their own order, some ten operations deep.
TEST_P(AttentionLayer, CudaGivesWhatTheCpuGives) {
  if (!cuda_problem().empty()) GTEST_SKIP() << cuda_problem();
  expect_cuda_agrees(DType::kF32, 1e-5);
}

// bf16 keeps 8 bits, and each device may round differently, as in Bf16StaysNearF32.
TEST_P(AttentionLayer, CudaStaysNearTheCpuInBf16) {
  if (!cuda_problem().empty()) GTEST_SKIP() << cuda_problem();
  expect_cuda_agrees(DType::kBF16, 0.05);
}

INSTANTIATE_TEST_SUITE_P(Registered, AttentionLayer, testing::ValuesIn(attention_layers().names()),
                         [](const auto& layer) { return layer.param; });

TEST(AttentionRegistry, HasOneLayerPerFile) {
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SACCADE_SOURCE_DIR "/layers/attention"))
    files += entry.path().extension() == ".cpp";
  size_t layers = 0;  // besides the one of the tutorial, which is built into this program only
  for (const std::string& name : attention_layers().names())
    layers += std::string(attention_layers().find(name).file).find("layers/attention/") != std::string::npos;
  EXPECT_EQ(files, layers);
  EXPECT_EQ(attention_layers().names().size(), layers + 1);
}

TEST(AttentionRegistry, ListsTheKnownLayers) {
  try {
    attention_layers().find("no_such_layer");
    FAIL();
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("ms_deform_attn"), std::string::npos);
  }
}

}  // namespace
}  // namespace saccade
