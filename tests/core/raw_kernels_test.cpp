// Kernels that no row of the op table reaches, on the GPU against the CPU: the tuned ones and the generic
// ones, which are their reference. Products of a few f32 operations agree within some roundings.
#include <gtest/gtest.h>

#include <cmath>

#include "core/kernels/batch_norm/batch_norm.h"
#include "core/kernels/copy/copy.h"
#include "core/kernels/match_cost/match_cost.h"
#include "core/kernels/matched_iou/matched_iou.h"
#include "core/kernels/ms_deform_attn/ms_deform_attn.h"
#include "core/kernels/nms/nms.h"
#include "core/kernels/normalize_image/normalize_image.h"
#include "core/kernels/optimizer/optimizer.h"
#include "core/kernels/reduce/reduce.h"
#include "core/kernels/roi_levels/roi_levels.h"
#include "core/kernels/sampled_position_bias/sampled_position_bias.h"
#include "core/kernels/sine_encoding/sine_encoding.h"
#include "core/kernels/softmax/softmax.h"
#include "core/kernels/top_k/top_k.h"
#include "core/runtime/gpu.h"
#include "core/runtime/host_copy.h"
#include "core/tensor/device.h"
#include "core/tensor/execution.h"
#include "core/tensor/integers.h"
#include "core/tensor/philox.h"

namespace saccade {
namespace {

class RawKernels : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda_problem().empty()) GTEST_SKIP() << cuda_problem();
  }
};

constexpr double kRoundings = 1e-6;

Tensor uniform(Rng& rng, const Shape& shape, double low = -1, double high = 1) {
  Tensor t = Tensor::empty(shape, DType::kF32);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(rng.uniform(low, high));
  return t;
}

void expect_near(const Tensor& got, const Tensor& want, double size) {
  ASSERT_EQ(got.shape(), want.shape());
  auto a = got.to_vector<double>(), b = want.to_vector<double>();
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], kRoundings * (size + std::abs(b[i]))) << "element " << i;
}

// Runs f(device), which returns its results, on the CPU and on the GPU with tuned and with generic kernels.
// `size` is that of the terms that a result adds up and that may cancel.
template <class F>
void compare(F&& f, double size = 1) {
  std::vector<Tensor> want = f(Device::kCpu);
  for (bool generic : {false, true}) {
    execution().generic_kernels = generic;
    std::vector<Tensor> got = f(Device::kCuda);
    execution().generic_kernels = false;
    for (size_t i = 0; i < want.size(); ++i) {
      SCOPED_TRACE(testing::Message() << (generic ? "generic" : "tuned") << ", result " << i);
      expect_near(got[i].to(Device::kCpu), want[i], size);
    }
  }
}

// Takes two steps with a ragged tensor, one of several pieces, a single element, and one whose address allows
// no wide access. Every second one has an average that moves with it; all have one that ema_update moves.
std::vector<Tensor> optimize(Device device, const char* type, const kernels::UpdateOptions& options) {
  const kernels::OptimizerSpec& optimizer = kernels::optimizers().find(type);
  Rng rng(5);
  std::vector<kernels::OptimizerItem> items;
  std::vector<Tensor> grads, averages, values;
  for (int64_t n : {77, 20001, 1, 100}) {
    kernels::OptimizerItem item;
    item.value = uniform(rng, {n + 1}).to(device).slice(0, n == 100, n + (n == 100));
    item.grad = uniform(rng, {n}).to(device);
    for (size_t k = 0; k < optimizer.state_names(options).size(); ++k)
      item.state.push_back(uniform(rng, {n}, k == 1 ? 0 : -1, 1).to(device));
    item.learning_rate = 1e-2;
    item.weight_decay = 0.1;
    item.step = 2;
    if (items.size() % 2 == 1) item.average = uniform(rng, {n}).to(device);
    grads.push_back(item.grad);
    values.push_back(item.value);
    averages.push_back(uniform(rng, {n}).to(device));
    items.push_back(item);
  }
  Tensor norm = Tensor::empty({1}, DType::kF64, device);
  for (int step = 0; step < 2; ++step) {
    kernels::gradient_norm(norm, grads, {});
    (*optimizer.update)(norm, 0.1, items, options, 0.25);
    kernels::ema_update(norm, averages, values, 0.25);
  }
  std::vector<Tensor> out{norm};
  for (const auto& item : items) {
    out.push_back(item.value);
    out.insert(out.end(), item.state.begin(), item.state.end());
    if (item.average.defined()) out.push_back(item.average);
  }
  out.insert(out.end(), averages.begin(), averages.end());
  return out;
}

// There are more parts than fit into one launch, of one chunk and of several, adjacent and apart, at even and
// at odd offsets.
TEST_F(RawKernels, PartsOfABlock) {
  for (int64_t step : {64, 1}) {
    compare([&](Device device) {
      Rng rng(3);
      std::vector<Tensor> parts;
      std::vector<int64_t> begins;
      int64_t end = 0;
      for (int64_t i = 0; i < 100; ++i) {
        parts.push_back(uniform(rng, {i == 40 ? 9000 : i * 3 % 50, 1}).to(device));
        begins.push_back(end);
        end += round_up(parts.back().numel(), step);
      }
      Tensor block = Tensor::full({end + 8}, 5, DType::kF32, device);
      kernels::copy_parts(block, parts, begins);
      return std::vector<Tensor>{block};
    });
  }
}

// Tests every registered optimizer, with all its state and without momentum.
TEST_F(RawKernels, Optimizers) {
  for (const auto& [name, spec] : kernels::optimizers().all()) {
    SCOPED_TRACE(name);
    for (double momentum : {0.9, 0.0})
      compare([&](Device device) { return optimize(device, name.c_str(), {.momentum = momentum}); });
  }
}

// Three processes have parts of a batch, one of them empty: outputs, gradients and statistics are those of
// the whole batch. The sizes take a thread's columns one by one and in packs, with few and many runs of rows.
class BatchNormOfProcesses : public RawKernels,
                             public testing::WithParamInterface<std::pair<int64_t, int64_t>> {};

TEST_P(BatchNormOfProcesses, IsThatOfTheWholeBatch) {
  const int64_t all_rows = GetParam().first, channels = GetParam().second;
  const kernels::BatchNormParams whole{true, Activation::kRelu, 0.1, 1e-5},
      given{false, Activation::kRelu, 0.1, 1e-5};
  const std::vector<std::pair<int64_t, int64_t>> shares{{0, 7}, {7, 7}, {7, all_rows}};
  auto run = [&](Device device, bool shared) {
    Rng rng(7);
    auto put = [&](const Shape& shape, double low = -1) { return uniform(rng, shape, low).to(device); };
    Tensor x = put({all_rows, channels}), dy = put({all_rows, channels}), weight = put({channels}),
           bias = put({channels});
    Tensor running_mean = put({channels}), running_var = put({channels}, 0.5);
    Tensor y = x.empty_like(), dx = x.empty_like(), mean = bias.empty_like(), rstd = bias.empty_like();
    if (!shared) {
      Tensor dweight = bias.empty_like(), dbias = bias.empty_like();
      kernels::batch_norm_forward(x, weight, bias, whole, running_mean, running_var, y, mean, rstd);
      kernels::batch_norm_backward(dy, x, weight, bias, mean, rstd, whole, dx, dweight, dbias);
      return std::vector<Tensor>{y, dx, running_mean, running_var};
    }
    Tensor moments = Tensor::empty({3, 3, channels}, DType::kF64, device),
           rows = Tensor::empty({channels}, DType::kF64, device);
    Tensor variance = bias.empty_like(), joined = bias.empty_like(),
           sums = Tensor::empty({3, 2, channels}, DType::kF32, device);
    for (size_t r = 0; r < 3; ++r) {
      Tensor own = moments.select(0, static_cast<int64_t>(r));
      kernels::batch_norm_moments(x.slice(0, shares[r].first, shares[r].second), own);
    }
    kernels::batch_norm_join(moments, 0.1, running_mean, running_var, joined, variance, rows);
    auto part = [&](const Tensor& t, size_t r) { return t.slice(0, shares[r].first, shares[r].second); };
    for (size_t r = 0; r < 3; ++r) {
      Tensor out = part(y, r), later, own = sums.select(0, static_cast<int64_t>(r));
      Tensor dbias = own.select(0, 0), dweight = own.select(0, 1);
      kernels::batch_norm_forward(part(x, r), weight, bias, given, joined, variance, out, mean, rstd);
      kernels::batch_norm_backward(part(dy, r), part(x, r), weight, bias, mean, rstd, given, later, dweight,
                                   dbias);
    }
    for (size_t r = 0; r < 3; ++r) {
      Tensor in = part(dx, r);
      kernels::batch_norm_backward_of_all(part(dy, r), part(x, r), weight, bias, mean, rstd, sums, rows,
                                          given.act, in);
    }
    return std::vector<Tensor>{y, dx, running_mean, running_var};
  };
  const std::vector<Tensor> want = run(Device::kCpu, false), got = run(Device::kCpu, true);
  for (size_t i = 0; i < want.size(); ++i) expect_near(got[i], want[i], 1);
  compare([&](Device device) { return run(device, true); });
}
INSTANTIATE_TEST_SUITE_P(Sizes, BatchNormOfProcesses,
                         testing::Values(std::pair{11, 5}, std::pair{150, 64}, std::pair{700, 17},
                                         std::pair{9, 512}));

// Neither the weights nor the averages move when a gradient or a loss is not finite.
TEST_F(RawKernels, NonFiniteStepsChangeNothing) {
  for (bool in_loss : {false, true}) {
    compare([&](Device device) {
      Rng rng(9);
      Tensor grad = uniform(rng, {100}), loss = Tensor::full({3}, 1);
      (in_loss ? loss : grad).data<float>()[2] = INFINITY;
      kernels::OptimizerItem item{uniform(rng, {100}).to(device),
                                  grad.to(device),
                                  {uniform(rng, {100}).to(device), uniform(rng, {100}, 0, 1).to(device)},
                                  0.1,
                                  0.1,
                                  1,
                                  uniform(rng, {100}).to(device)};
      std::vector<kernels::OptimizerItem> items{item};
      std::vector<Tensor> grads{item.grad}, guards{loss.to(device)}, averages{uniform(rng, {100}).to(device)},
          before{item.value.clone(), item.state[0].clone(), averages[0].clone(), item.average.clone()},
          values{item.state[0]};
      Tensor norm = Tensor::empty({1}, DType::kF64, device);
      kernels::gradient_norm(norm, grads, guards);
      EXPECT_FALSE(std::isfinite(norm.item()));
      (*kernels::optimizers().find("adamw").update)(norm, 0.1, items, {}, 0.25);
      items[0].state.pop_back();
      (*kernels::optimizers().find("sgd").update)(norm, 0.1, items, {}, 0.25);
      kernels::ema_update(norm, averages, values, 0.25);
      EXPECT_EQ(item.value.to_vector<float>(), before[0].to_vector<float>());
      EXPECT_EQ(item.state[0].to_vector<float>(), before[1].to_vector<float>());
      EXPECT_EQ(averages[0].to_vector<float>(), before[2].to_vector<float>());
      EXPECT_EQ(item.average.to_vector<float>(), before[3].to_vector<float>());
      return std::vector<Tensor>{item.value, item.state[0], averages[0], item.average};
    });
  }
}

// The number of launches does not depend on the number of tensors.
TEST_F(RawKernels, OptimizerLaunchesDoNotGrow) {
  auto launches = [](size_t count) {
    std::vector<kernels::OptimizerItem> items;
    std::vector<Tensor> grads, averages, values;
    auto ones = [] { return Tensor::full({5}, 1, DType::kF32, Device::kCuda); };
    for (size_t i = 0; i < count; ++i) {
      items.push_back({ones(), ones(), {ones(), ones()}, 0.1, 0.1, 1, ones()});
      grads.push_back(items.back().grad);
      averages.push_back(ones());
      values.push_back(items.back().value);
    }
    Tensor norm = Tensor::empty({1}, DType::kF64, Device::kCuda);
    const int64_t before = cuda_statistics().launches;
    kernels::gradient_norm(norm, grads, {});
    (*kernels::optimizers().find("adamw").update)(norm, 0.1, items, {}, 0.25);
    kernels::ema_update(norm, averages, values, 0.25);
    return cuda_statistics().launches - before;
  };
  EXPECT_EQ(launches(1), launches(100));
  EXPECT_EQ(launches(1), 7);  // three lists of pieces and four kernels
}

// Sources of uploads may be changed at once, and no upload waits; the host waits once for all copies back.
TEST_F(RawKernels, CopiesWaitOnlyWhenSomebodyLooks) {
  constexpr int64_t kSizes[] = {1, 300, 70000, 5000000};  // shared pages, a block, several blocks
  auto numbers = [](int64_t n, float first) {
    std::vector<float> x(static_cast<size_t>(n), first);
    x.back() = first + 1;
    return x;
  };
  const int64_t before = cuda_statistics().host_syncs;
  std::vector<Tensor> tensors;
  for (int64_t n : kSizes) {
    for (float first : {1.0f, 2.0f}) {
      Tensor x = Tensor::from(Shape{n}, numbers(n, first)),
             y = Tensor::empty({n}, DType::kF32, Device::kCuda);
      kernels::start_upload(x, &y);
      tensors.push_back(x.to(Device::kCuda));
      tensors.push_back(y);
      x.fill(0);
    }
  }
  std::vector<HostCopy> copies;
  for (const Tensor& t : tensors) copies.emplace_back(t);
  EXPECT_EQ(cuda_statistics().host_syncs, before);
  // When the last copy has arrived, all have. A real GPU may be done before this line.
  const int64_t fewest = cuda_is_emulated() ? 1 : 0;
  for (size_t i = copies.size(); i-- > 0;) {
    const auto want = numbers(copies[i].numel(), i / 2 % 2 ? 2.0f : 1.0f);
    EXPECT_TRUE(std::equal(want.begin(), want.end(), copies[i].data<float>())) << "copy " << i;
    EXPECT_GE(cuda_statistics().host_syncs, before + fewest);
    EXPECT_LE(cuda_statistics().host_syncs, before + 1);
  }
  EXPECT_THROW(copies[0].data<double>(), Error);
}

TEST_F(RawKernels, StacksScalars) {
  compare([](Device device) {
    std::vector<Tensor> scalars;
    for (int i = 0; i < 70; ++i) scalars.push_back(Tensor::full(i % 2 ? Shape{} : Shape{1}, i).to(device));
    Tensor out = Tensor::empty({70}, DType::kF32, device);
    kernels::stack_scalars(out, scalars);
    return std::vector<Tensor>{out};
  });
}

TEST_F(RawKernels, MatchCost) {
  compare(
      [](Device device) {
        Rng rng(6);
        Tensor scores = uniform(rng, {2, 70, 5}, -3, 3), boxes = uniform(rng, {2, 70, 4}, 0.1, 0.5),
               truth = uniform(rng, {3, 4}, 0.1, 0.5);
        Tensor images = Tensor::from(Shape{3}, std::vector<int64_t>{0, 1, 1}),
               labels = Tensor::from(Shape{3}, std::vector<int64_t>{4, 0, 2});
        std::vector<Tensor> out;
        for (bool probabilities : {false, true}) {
          Tensor cost = Tensor::empty({3, 70}, DType::kF32, device);
          kernels::match_cost(scores.to(device), boxes.to(device), images.to(device), labels.to(device),
                              truth.to(device), {2, 5, 2, 0.25, 2, probabilities}, cost);
          out.push_back(cost);
        }
        return out;
      },
      8);  // 5 times a distance of up to 1.6
}

TEST_F(RawKernels, MatchedIou) {
  compare([](Device device) {
    Rng rng(7);
    Tensor boxes = uniform(rng, {5, 4}, 0.2, 0.6), truth = uniform(rng, {5, 4}, 0.2, 0.6);
    boxes.slice(0, 1, 2).fill(0);  // two boxes without area
    truth.slice(0, 1, 2).fill(0);
    Tensor rows = Tensor::from<int64_t>({5}, std::vector<int64_t>{7, 0, 3, 1, 8});
    Tensor quality = Tensor::zeros({9}, DType::kF32, device);
    kernels::matched_iou(boxes.to(device), truth.to(device), rows.to(device), quality);
    return std::vector<Tensor>{quality};
  });
}

TEST_F(RawKernels, DeformableLocations) {
  compare([](Device device) {
    Rng rng(7);
    FeatureLevels levels{{4, 5}, {2, 3}};
    std::vector<Tensor> out;
    for (int64_t r : {2, 4}) {
      Tensor locations = Tensor::empty({1, 3, 2, 2, 4, 2}, DType::kF32, device),
             weights = Tensor::empty({1, 3, 2, 2, 4}, DType::kF32, device);
      kernels::ms_deform_locations(uniform(rng, {1, 3, 2, r}, 0, 1).to(device),
                                   uniform(rng, {1, 3, 2, 2, 4, 2}).to(device),
                                   uniform(rng, {1, 3, 2, 8}).to(device), levels, locations, weights);
      out.insert(out.end(), {locations, weights});
    }
    return out;
  });
}

// Many scores are equal, also where the selection ends; there are zeros of both signs, infinities and NaN.
TEST_F(RawKernels, TopK) {
  for (auto [columns, picks] : {std::pair{1, 1}, {700, 1}, {700, 300}, {700, 700}, {5, 4}}) {
    SCOPED_TRACE(testing::Message() << picks << " of " << columns);
    compare([columns = int64_t{columns}, picks = int64_t{picks}](Device device) {
      Rng rng(12);
      Tensor scores = uniform(rng, {3, columns}, -30, 30);
      float* s = scores.data<float>();
      for (int64_t i = 0; i < 2 * columns; ++i) s[i] = std::round(s[i] / 8);
      for (int64_t i = columns; i < 2 * columns; i += 3) s[i] = NAN;
      s[3 * columns - 1] = INFINITY;
      Tensor indices = Tensor::empty({3, picks}, DType::kI64, device);
      kernels::top_k(scores.to(device), indices);
      return std::vector<Tensor>{indices};
    });
  }
}

// The GPU splits these rows into parts, once and twice, and the last part is shorter than what is picked.
TEST_F(RawKernels, TopKOfLongRows) {
  for (auto [columns, picks] : {std::pair{70000, 30}, {163841, 8000}}) {
    SCOPED_TRACE(testing::Message() << picks << " of " << columns);
    Rng rng(12);
    Tensor scores = uniform(rng, {2, columns}, -30, 30);
    float* s = scores.data<float>();
    for (int64_t i = 0; i < columns; ++i) s[i] = std::round(s[i]);
    for (int64_t i = columns; i < 2 * columns; i += 2) s[i] = NAN;
    Tensor want = Tensor::empty({2, picks}, DType::kI64), got = want.to(Device::kCuda).empty_like();
    kernels::top_k(scores, want);
    kernels::top_k(scores.to(Device::kCuda), got);
    EXPECT_EQ(got.to_vector<int64_t>(), want.to_vector<int64_t>());
  }
}

TEST_F(RawKernels, RowMax) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF64})
    for (int64_t columns : {1, 5, 91})
      compare([&](Device device) {
        Rng rng(13);
        Tensor x = uniform(rng, {2, 9, columns}).to(dtype).to(device);
        Tensor y = Tensor::empty({2, 9}, dtype == DType::kF64 ? dtype : DType::kF32, device);
        kernels::row_max(x, y);
        return std::vector<Tensor>{y};
      });
}

TEST_F(RawKernels, SineEncoding) {
  compare([](Device device) {
    Rng rng(14);
    Tensor y = Tensor::empty({2, 4, 10}, DType::kF32, device);
    kernels::sine_encoding(uniform(rng, {2, 4}, 0, 1).to(device), 20, y);
    return std::vector<Tensor>{y};
  });
}

TEST_F(RawKernels, NormalizeImage) {
  compare([](Device device) {
    std::vector<Tensor> out;
    for (int64_t width : {7, 8}) {  // with and without a rest of a pack
      Tensor images = Tensor::empty({2, 5, width, 3}, DType::kU8);
      for (int64_t i = 0; i < images.numel(); ++i) images.data<uint8_t>()[i] = static_cast<uint8_t>(i * 37);
      for (const Tensor& sizes :
           {Tensor(), Tensor::from<int64_t>({2, 2}, std::vector<int64_t>{5, 4, 3, width})})
        for (DType dtype : {DType::kF32, DType::kBF16}) {
          Tensor y = Tensor::empty(images.shape(), dtype, device);
          kernels::normalize_image(images.to(device), sizes.defined() ? sizes.to(device) : sizes, {}, y);
          out.push_back(y);
        }
    }
    return out;
  });
}

TEST_F(RawKernels, Counts) {
  compare([](Device device) {
    Rng rng(8);
    Tensor x = uniform(rng, {3000});
    x.data<float>()[17] = NAN;
    x.data<float>()[2999] = -INFINITY;
    Tensor count = Tensor::empty({1}, DType::kF64, device);
    kernels::count_nonfinite(x.to(device), count);
    return std::vector<Tensor>{count};
  });
}

// The rows begin with minus infinities, hold nothing else, or hold a NaN.
TEST_F(RawKernels, SoftmaxOfSpecialNumbers) {
  constexpr double kNan = -7;  // stands for it, so that results can be compared
  for (int64_t n : {4, 70, 260, 600, 601}) {
    SCOPED_TRACE(n);
    compare([&](Device device) {
      Rng rng(9);
      Tensor x = uniform(rng, {4, n});
      for (int64_t i = 0; i < n; ++i) {
        if (i < n - 3) x.data<float>()[i] = -INFINITY;
        x.data<float>()[n + i] = -INFINITY;
      }
      x.data<float>()[3 * n - 1] = NAN;
      Tensor y = x.to(device).empty_like();
      kernels::softmax(x.to(device), y);
      auto values = y.to_vector<double>();
      for (double& value : values) value = std::isnan(value) ? kNan : value;
      EXPECT_LT(std::abs(values[0]), 1e-40);
      EXPECT_EQ(values[static_cast<size_t>(n)], kNan);
      EXPECT_EQ(values[static_cast<size_t>(2 * n)], kNan);
      return std::vector<Tensor>{Tensor::from({4, n}, values)};
    });
  }
}

// The table has more cells than a block of the GPU holds in shared memory.
TEST_F(RawKernels, PositionBiasOfALargeTable) {
  Rng rng(14);
  const Tensor table = uniform(rng, {4, 81, 79}), query = uniform(rng, {1, 60, 2}),
               key = uniform(rng, {2, 2, 50, 2}), dbias = uniform(rng, {2, 4, 60, 50});
  compare(
      [&](Device device) {
        Tensor dtable = Tensor::empty(table.shape(), DType::kF32, device), dquery, dkey;
        kernels::sampled_position_bias_backward(table.to(device), query.to(device), key.to(device),
                                                dbias.to(device), dtable, dquery, dkey);
        return std::vector<Tensor>{dtable};
      },
      40);  // in cells: a position is rounded
}

// The boxes overlap one another, in three groups and one that takes no part; their levels are tested as well.
TEST_F(RawKernels, Nms) {
  constexpr int64_t kImages = 2, kBoxes = 1100;
  Rng rng(13);
  Tensor boxes = uniform(rng, {kImages, kBoxes, 4}, 0, 60), scores = uniform(rng, {kImages, kBoxes});
  Tensor groups = Tensor::empty({kImages, kBoxes}, DType::kI64);
  for (int64_t i = 0; i < kImages * kBoxes; ++i) {
    float* b = boxes.data<float>() + 4 * i;
    b[2] += b[0], b[3] += b[1];
    groups.data<int64_t>()[i] = rng.below(4) - 1;
  }
  compare([&](Device device) {
    Tensor keep = Tensor::empty({kImages, kBoxes}, DType::kBool, device);
    kernels::nms(boxes.to(device), scores.to(device), groups.to(device), 0.4, keep);
    Tensor level = Tensor::empty({kImages * kBoxes}, DType::kI64, device);
    kernels::roi_levels(boxes.reshape({kImages * kBoxes, 4}).to(device), 14, 4, level);
    return std::vector<Tensor>{keep, level};
  });
}

}  // namespace
}  // namespace saccade
