// Tests denoising: what the queries are made of, which queries see which, and that every batch trains.
#include "models/detection/denoising.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "autograd/engine.h"
#include "core/tensor/philox.h"
#include "models/detection/set_output.h"
#include "tests/models/schema_args.h"
#include "tests/objects.h"

namespace saccade {
namespace {

constexpr int64_t kClasses = 5;

Target target_of(int64_t id, int objects) {
  Rng rng(static_cast<uint64_t>(id) + 100);
  Target t;
  t.image_id = id;
  for (int i = 0; i < objects; ++i) {
    const int64_t label = rng.below(kClasses);
    std::array<float, 4> box;
    for (size_t k = 0; k < 4; ++k)
      box[k] = static_cast<float>(k < 2 ? rng.uniform(0.4, 0.6) : rng.uniform(0.1, 0.2));
    test::add_object(t, label, box);
  }
  return t;
}

DenoisingQueries made(const std::vector<Target>& targets, const DenoisingOptions& options,
                      uint64_t step = 1) {
  ExecutionScope scope;
  execution().rng_key = step;
  return make_denoising(targets, kClasses, options, Device::kCpu);
}

TEST(Denoising, GroupsByHand) {
  const std::vector<Target> targets{target_of(1, 0), target_of(2, 3), target_of(3, 1)};
  DenoisingQueries q =
      made(targets, {.queries = 10, .label_noise = 0, .box_noise = 0.5, .padding_box = 0.5f});
  EXPECT_EQ(q.groups, 3);  // for the 3 objects of the second image
  EXPECT_EQ(q.size, 6);    // near and far
  ASSERT_EQ(q.labels.shape(), Shape({3, 18}));
  ASSERT_EQ(q.boxes.shape(), Shape({3, 18, 4}));
  auto labels = q.labels.to_vector<int64_t>();
  auto boxes = q.boxes.to_vector<float>();
  for (int64_t n = 0; n < 3; ++n) {
    const Target& t = targets[static_cast<size_t>(n)];
    const Objects objects({t});
    for (int64_t i = 0; i < 18; ++i) {
      SCOPED_TRACE(testing::Message() << "image " << n << ", query " << i);
      const auto at = static_cast<size_t>(n * 18 + i);
      const auto object = static_cast<size_t>(i % 3);
      const bool is_object = object < t.instances.size(), negative = i % 6 >= 3;
      EXPECT_EQ(q.padding.data<bool>()[at], !is_object);
      EXPECT_EQ(labels[at], is_object ? t.instances[object].label : kClasses);
      for (int axis = 0; axis < 2; ++axis) {
        const float *box = boxes.data() + 4 * at + axis, *truth = objects.boxes.data() + 4 * object + axis;
        if (!is_object) {
          EXPECT_EQ(box[0], 0.5f);
          EXPECT_EQ(box[2], 0.5f);
          continue;
        }
        for (float side : {-0.5f, 0.5f}) {  // by how many half sides the edge has moved
          const float moved = (box[0] + side * box[2] - truth[0] - side * truth[2]) / (0.5f * truth[2]);
          EXPECT_LE(std::abs(moved), (negative ? 1.0f : 0.5f) + 1e-5f);
          EXPECT_GE(std::abs(moved), (negative ? 0.5f : 0.0f) - 1e-5f);
        }
      }
    }
  }
  std::vector<std::vector<int64_t>> pairs, expected;
  for (const MatchedPair& m : q.pairs) pairs.push_back({m.image, m.query, m.object});
  for (int64_t g = 0; g < 3; ++g)
    for (int64_t i = 0; i < 3; ++i) expected.push_back({1, 6 * g + i, i});
  for (int64_t g = 0; g < 3; ++g) expected.push_back({2, 6 * g, 0});
  EXPECT_EQ(pairs, expected);
}

TEST(Denoising, BatchesWithoutAndWithManyObjects) {
  const DenoisingOptions options{.queries = 100, .label_noise = 0.5, .box_noise = 1};
  EXPECT_EQ(made({}, options).count(), 0);
  EXPECT_EQ(made({target_of(1, 0), target_of(2, 0)}, options).count(), 0);
  DenoisingQueries crowd = made({target_of(1, 150)}, options);
  EXPECT_EQ(crowd.groups, 1);
  EXPECT_EQ(crowd.count(), 300);
  EXPECT_FALSE(crowd.padding.defined());
  for (float x : crowd.boxes.to_vector<float>()) EXPECT_TRUE(x >= 0 && x <= 1) << x;
}

// Returns an image's near and far queries of an object in a group, each as (label, box).
std::vector<double> query_of(const DenoisingQueries& q, int64_t image, int64_t group, int64_t object) {
  std::vector<double> out;
  for (int64_t query : {group * q.size + object, group * q.size + q.size / 2 + object}) {
    out.push_back(
        static_cast<double>(q.labels.select(0, image).to_vector<int64_t>()[static_cast<size_t>(query)]));
    for (double x : q.boxes.select(0, image).select(0, query).to_vector<double>()) out.push_back(x);
  }
  return out;
}

TEST(Denoising, TheRestOfTheBatchChangesNothing) {
  const DenoisingOptions options{.queries = 8, .label_noise = 1, .box_noise = 1};
  const Target a = target_of(7, 2), b = target_of(8, 4), c = target_of(9, 0);
  const DenoisingQueries alone = made({a}, options), pair = made({a, b}, options),
                         turned = made({c, b, a}, options);
  ASSERT_EQ(alone.groups, 4);
  ASSERT_EQ(pair.groups, 2);
  std::set<std::vector<double>> all;
  for (int64_t group = 0; group < 2; ++group) {
    for (int64_t object = 0; object < 2; ++object) {
      const auto want = query_of(alone, 0, group, object);
      EXPECT_EQ(query_of(pair, 0, group, object), want);
      EXPECT_EQ(query_of(turned, 2, group, object), want);
      EXPECT_NE(query_of(made({a}, options, 2), 0, group, object), want);  // another step
      all.insert(want);
    }
  }
  EXPECT_EQ(all.size(), 4u);
}

// A label is drawn again with half the probability, and then each class is equally likely.
TEST(Denoising, LabelNoise) {
  std::vector<int64_t> counts(kClasses);
  Target t = target_of(1, 4000);
  for (Instance& i : t.instances) i.label = 2;
  DenoisingQueries q = made({t}, {.queries = 1, .label_noise = 0.5, .box_noise = 0});
  for (int64_t label : q.labels.to_vector<int64_t>()) ++counts.at(static_cast<size_t>(label));
  for (int64_t k = 0; k < kClasses; ++k)
    EXPECT_NEAR(static_cast<double>(counts[static_cast<size_t>(k)]) / 8000, k == 2 ? 0.8 : 0.05, 0.015);
  auto boxes = q.boxes.to_vector<float>();
  const Objects objects({t});
  for (size_t i = 0; i < objects.boxes.size(); ++i) EXPECT_NEAR(boxes[i], objects.boxes[i], 1e-6);
}

TEST(Denoising, WrongTargetsAreNamed) {
  Target t = target_of(12, 2);
  t.instances[1].label = kClasses;
  EXPECT_THROW(made({t}, {.queries = 10}), Error);
}

// When one query's input changes, the outputs that change are those of the queries that see it.
void expect_groups_apart(int64_t others) {
  constexpr int64_t kGroups = 3, kSize = 2, kDim = 8;
  const int64_t all = kGroups * kSize + others;
  auto layer = make_attention(Args("self"), "multi_head_attention", {.dim = kDim, .heads = 2});
  layer->initialize(3);
  Rng rng(4);
  Tensor x = Tensor::empty({2, all, kDim});
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>(rng.normal());
  const AttentionMask leading = mask_of_groups(kGroups, kSize, all, Device::kCpu);
  auto run = [&](const Tensor& tokens, const AttentionMask& mask) {
    Var q(tokens);
    return layer->forward({.query = q, .key = q, .value = q, .mask = mask}).value();
  };
  const Tensor before = run(x, leading);
  for (int64_t changed = 0; changed < all; ++changed) {
    Tensor other = x.clone();
    other.select(0, 1).select(0, changed).fill(0.5);
    const Tensor after = run(other, leading);
    EXPECT_EQ(after.select(0, 0).to_vector<float>(), before.select(0, 0).to_vector<float>());
    for (int64_t i = 0; i < all; ++i) {
      auto group = [&](int64_t query) { return query < kGroups * kSize ? query / kSize : -1; };
      const bool sees = group(changed) == -1 || group(changed) == group(i);
      EXPECT_EQ(after.select(0, 1).select(0, i).to_vector<float>() !=
                    before.select(0, 1).select(0, i).to_vector<float>(),
                sees)
          << "query " << i << " of " << changed;
    }
  }
  // The other queries behave as if there were no groups.
  const Tensor rest = x.slice(1, kGroups * kSize, all).contiguous();
  auto got = before.slice(1, kGroups * kSize, all).contiguous().to_vector<float>();
  auto want = run(rest, {}).to_vector<float>();
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6);
}

TEST(Denoising, WhoSeesWhom) {
  for (const int64_t others : {4, 1}) expect_groups_apart(others);
}

// ---- models -----------------------------------------------------------------------------------------------

Args tiny(const char* type, bool denoising) {
  Args model = test::schema_args(type);
  Args& backbone = model.section("backbone");
  backbone.set("blocks", std::vector<int64_t>{1, 1, 1, 1});
  backbone.set("width", int64_t{8});
  Args& t = model.section("transformer");
  for (auto [key, value] : {std::pair{"hidden_dim", 16},
                            {"heads", 2},
                            {"encoder_layers", 1},
                            {"decoder_layers", 2},
                            {"ffn_dim", 16},
                            {"queries", 6}})
    t.set(key, int64_t{value});
  t.set("dropout", 0.0);
  t.section("denoising").set("queries", int64_t{denoising ? 10 : 0});
  return model;
}

struct NamedModel {
  const char* name;
  Args (*args)(bool denoising);
};
const NamedModel kModels[] = {
    {"DETR", [](bool denoising) { return tiny("detr", denoising); }},
    {"DETR with anchors",
     [](bool denoising) {
       Args args = tiny("detr", denoising);
       args.section("detr").set("anchor_queries", true);
       return args;
     }},
    {"Deformable DETR", [](bool denoising) { return tiny("deformable_detr", denoising); }},
    {"with refined boxes",
     [](bool denoising) {
       Args args = tiny("deformable_detr", denoising);
       args.section("deformable_detr").set("box_refine", true);
       return args;
     }},
    {"two-stage",
     [](bool denoising) {
       Args args = tiny("deformable_detr", denoising);
       args.section("deformable_detr").set("box_refine", true);
       args.section("deformable_detr").set("two_stage", true);
       return args;
     }},
    {"DINO", [](bool denoising) { return tiny("dino", denoising); }},
};

Tensor random_images(int64_t count) {
  Rng rng(6);
  Tensor images = Tensor::empty({count, 64, 96, 3});
  for (int64_t i = 0; i < images.numel(); ++i) images.data<float>()[i] = static_cast<float>(rng.normal());
  return images;
}

TEST(Denoising, EveryBatchTrains) {
  const std::vector<std::pair<const char*, std::vector<Target>>> batches{
      {"one image without objects", {target_of(1, 0), target_of(2, 3)}},
      {"no object at all", {target_of(1, 0), target_of(2, 0)}},
      {"a crowd", {target_of(1, 40), target_of(2, 1)}},
  };
  for (const NamedModel& named : kModels) {
    auto model = test::build_detector(named.args(true), kClasses);
    model->initialize(3);
    model->set_training(true);
    for (const auto& [name, targets] : batches) {
      SCOPED_TRACE(testing::Message() << named.name << ", " << name);
      const SetOutput output =
          set_output(*model->forward({.images = Var(random_images(2)), .sizes = {}, .targets = &targets}));
      const DenoisingQueries queries = make_denoising(targets, kClasses, {.queries = 10}, Device::kCpu);
      ASSERT_EQ(output.denoising.layers.size(), queries.count() > 0 ? 2u : 0u);
      for (const LayerPrediction& p : output.layers) EXPECT_EQ(p.boxes.dim(1), 6);
      for (const LayerPrediction& p : output.denoising.layers) {
        EXPECT_EQ(p.boxes.shape(), Shape({2, queries.count(), 4}));
        EXPECT_EQ(p.logits.dim(1), queries.count());
      }
      const DetectionLoss loss = model->loss(output, targets);
      EXPECT_TRUE(std::isfinite(loss.total.value().item()));
      EXPECT_EQ(loss.problems, std::vector<std::string>{});
      backward(loss.total);
      bool embedded = false;
      for (NamedTensor& t : model->parameters()) {
        if (!t.var.grad().defined()) continue;
        for (double g : t.var.grad().to_vector<double>()) ASSERT_TRUE(std::isfinite(g)) << t.name;
        embedded = embedded || t.name == "label_enc.weight";
        t.var.clear_grad();
      }
      EXPECT_EQ(embedded, queries.count() > 0);
    }
  }
}

// The matching queries do not depend on the denoising queries, and outside training there are none of these.
TEST(Denoising, LeavesTheOtherQueriesAlone) {
  const std::vector<Target> targets{target_of(1, 2), target_of(2, 5)};
  for (const NamedModel& named : kModels) {
    SCOPED_TRACE(named.name);
    auto plain = test::build_detector(named.args(false), kClasses),
         model = test::build_detector(named.args(true), kClasses);
    plain->initialize(3);
    model->initialize(3);
    const DetectorInput input{.images = Var(random_images(2)), .sizes = {}, .targets = &targets};
    const SetOutput want = set_output(*plain->forward(input)), evaluated = set_output(*model->forward(input));
    model->set_training(true);
    const SetOutput trained = set_output(*model->forward(input));
    EXPECT_EQ(evaluated.denoising.groups, 0);
    EXPECT_EQ(trained.denoising.groups, 2);
    for (size_t l = 0; l < want.layers.size(); ++l) {
      auto boxes = want.layers[l].boxes.value().to_vector<float>();
      EXPECT_EQ(evaluated.layers[l].boxes.value().to_vector<float>(), boxes);
      auto of_training = trained.layers[l].boxes.value().contiguous().to_vector<float>();
      for (size_t i = 0; i < boxes.size(); ++i) EXPECT_NEAR(of_training[i], boxes[i], 1e-4);
    }
  }
}

// As PyTorch's nn.Embedding with a padding_idx.
TEST(Denoising, LabelsStartAsNormalNumbers) {
  LabelEmbedding embedding(kClasses, 400);
  embedding.initialize(3);
  const std::vector<float> values = embedding.parameters().at(0).var.value().to_vector<float>();
  ASSERT_EQ(values.size(), 6 * 400U);
  double sum = 0, squares = 0;
  for (size_t i = 0; i < 5 * 400; ++i) {
    sum += values[i];
    squares += values[i] * values[i];
  }
  EXPECT_NEAR(sum / 2000, 0, 0.1);  // 4.5 deviations
  EXPECT_NEAR(squares / 2000, 1, 0.15);
  EXPECT_EQ(std::count(values.begin() + 2000, values.end(), 0), 400);
}

TEST(Denoising, NamesTheWrongField) {
  auto expect = [](const Args& model, const std::string& text) {
    try {
      test::build_detector(model, kClasses);
      ADD_FAILURE() << "no error with \"" << text << "\"";
    } catch (const InputError& e) {
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
    }
  };
  Args groups = tiny("detr", true);
  groups.section("transformer").set("extra_query_groups", int64_t{2});
  expect(groups, "model.transformer.denoising: cannot be combined with extra_query_groups, which is 2");
  Args attention = tiny("deformable_detr", true);
  attention.section("transformer")
      .section("decoder_self_attention")
      .set("type", std::string("self_attention"));
  expect(attention, "decoder_self_attention.type: self_attention does not support a mask");
}

}  // namespace
}  // namespace saccade
