// Tests exported models as files: their structure is checked here, their numbers in
// scripts/checks/check_onnx.py, which runs them.
#ifdef SACCADE_ONNX
#include "train/export/export.h"
#include "train/config/task.h"
#include "train/tasks/onnx_outputs.h"

#include <onnx/onnx.pb.h>

#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <sstream>
#include <tuple>

#include "models/classifier.h"
#include "tests/train/program.h"
#include "train/checkpoints/load_model.h"
#include "train/export/lowering.h"

namespace saccade {
namespace {

onnx::ModelProto parsed(const std::string& file) {
  onnx::ModelProto proto;
  EXPECT_TRUE(proto.ParseFromString(file));
  return proto;
}

std::string metadata(const onnx::ModelProto& proto, const std::string& key) {
  for (const auto& entry : proto.metadata_props())
    if (entry.key() == key) return entry.value();
  ADD_FAILURE() << "no metadata " << key;
  return "";
}

std::vector<int64_t> shape_of(const onnx::ValueInfoProto& value) {  // -1: free
  std::vector<int64_t> shape;
  for (const auto& dim : value.type().tensor_type().shape().dim())
    shape.push_back(dim.has_dim_value() ? dim.dim_value() : -1);
  return shape;
}

// The operators of opset 16 that we use. Any other, newer or of the ml domain, needs a decision.
const std::set<std::string> kOperators{"Abs",
                                       "Add",
                                       "AveragePool",
                                       "Cast",
                                       "Clip",
                                       "Concat",
                                       "Conv",
                                       "Cos",
                                       "Div",
                                       "Equal",
                                       "Erf",
                                       "Exp",
                                       "Expand",
                                       "Gather",
                                       "GatherElements",
                                       "GatherND",
                                       "Gemm",
                                       "GreaterOrEqual",
                                       "GridSample",
                                       "Identity",
                                       "InstanceNormalization",
                                       "Less",
                                       "Log",
                                       "MatMul",
                                       "Max",
                                       "MaxPool",
                                       "Min",
                                       "Mul",
                                       "NonMaxSuppression",
                                       "Pow",
                                       "Range",
                                       "ReduceMax",
                                       "ReduceMean",
                                       "ReduceSum",
                                       "Relu",
                                       "Reshape",
                                       "Resize",
                                       "RoiAlign",
                                       "ScatterND",
                                       "Shape",
                                       "Sigmoid",
                                       "Sin",
                                       "Slice",
                                       "Softmax",
                                       "Sqrt",
                                       "Squeeze",
                                       "Sub",
                                       "Tanh",
                                       "TopK",
                                       "Transpose",
                                       "Unsqueeze",
                                       "Where"};

// Checks what onnx.checker checks, and what we promise besides.
// has_f32: some operators must stay in f32 when the file is converted to f16.
void check_structure(const onnx::ModelProto& proto, bool has_f32 = true) {
  ASSERT_EQ(proto.opset_import_size(), 1);
  EXPECT_EQ(proto.opset_import(0).version(), 16);
  EXPECT_EQ(proto.ir_version(), 8);
  std::set<std::string> known{""}, nodes, read;  // "": an input left out
  for (const auto& in : proto.graph().input()) EXPECT_TRUE(known.insert(in.name()).second) << in.name();
  for (const auto& t : proto.graph().initializer()) {
    EXPECT_TRUE(known.insert(t.name()).second) << t.name();
    size_t count = 1;
    for (int64_t d : t.dims()) count *= static_cast<size_t>(d);
    const size_t each = t.data_type() == onnx::TensorProto::INT64  ? 8
                        : t.data_type() == onnx::TensorProto::BOOL ? 1
                                                                   : 4;
    ASSERT_EQ(t.raw_data().size(), count * each) << t.name();
    if (t.data_type() != onnx::TensorProto::FLOAT) continue;
    const auto* p = reinterpret_cast<const float*>(t.raw_data().data());
    for (size_t i = 0; i < count; ++i) ASSERT_TRUE(std::isfinite(p[i])) << t.name();
  }
  for (const auto& node : proto.graph().node()) {
    EXPECT_TRUE(kOperators.contains(node.op_type())) << node.op_type();
    EXPECT_TRUE(nodes.insert(node.name()).second) << node.name();
    for (const std::string& in : node.input()) {
      if (in.empty()) continue;  // an input that may be left out
      EXPECT_TRUE(known.contains(in)) << node.name() << " reads " << in << " before it is made";
      read.insert(in);
    }
    for (const std::string& out : node.output()) EXPECT_TRUE(known.insert(out).second) << out;
  }
  for (const auto& t : proto.graph().initializer())
    EXPECT_TRUE(read.contains(t.name())) << t.name() << " is not used";
  for (const auto& out : proto.graph().output()) EXPECT_TRUE(known.contains(out.name())) << out.name();
  std::istringstream f32(metadata(proto, "float32_nodes"));
  size_t listed = 0;
  for (std::string name; std::getline(f32, name); ++listed) EXPECT_TRUE(nodes.contains(name)) << name;
  EXPECT_EQ(listed > 0, has_f32);
}

int count_nodes(const onnx::ModelProto& proto, const std::string& type) {
  int count = 0;
  for (const auto& node : proto.graph().node()) count += node.op_type() == type;
  return count;
}

constexpr const char* kSmallBackbone = "backbone { blocks: [1, 1, 1, 1] width: 8 ";
constexpr const char* kSmallTransformer =
    "transformer { hidden_dim: 16 heads: 2 encoder_layers: 1 decoder_layers: 2 ffn_dim: 16 queries: 5 ";

struct ExportCase {
  std::string name, model;
  bool detector = true;
  std::vector<std::pair<std::string, int>> nodes = {};  // how many of a type there are
  int64_t rows = 5;                                     // queries, or anchors
  bool has_f32 = true;                                  // as of check_structure
};

std::string with_resnet(const std::string& type, const std::string& backbone,
                        const std::string& transformer) {
  return "model { type: \"" + type + "\" " + kSmallBackbone + backbone + " } " + kSmallTransformer +
         transformer + " } }";
}

std::string vision(const std::string& name, const std::string& arguments) {
  return "model { type: \"classifier\" backbone { type: \"" + name + "\" " + arguments +
         " } } data { augment { height: 32 width: 32 } val_height: 32 val_width: 32 }";
}

const std::string kSwin =
    R"(arg { key: "embed_dim" int: 8 } arg { key: "depths" ints: [2, 2] } arg { key: "heads" ints: [1, 2] } arg { key: "window" int: 3 })";
const std::string kDat =
    R"(arg { key: "blocks" string: "LS LD" } arg { key: "dims" ints: [8, 16] } arg { key: "heads" ints: [1, 2] }
       arg { key: "groups" ints: [1, 2] } arg { key: "window" int: 4 } arg { key: "image_size" int: 64 })";
const std::string kVit =
    R"(arg { key: "image_size" int: 32 } arg { key: "dim" int: 16 } arg { key: "depth" int: 1 } arg { key: "heads" int: 2 } arg { key: "distilled" bool: true })";

const std::string kPvt =
    R"(arg { key: "depths" ints: [1, 1] } arg { key: "dims" ints: [8, 16] } arg { key: "heads" ints: [1, 2] }
       arg { key: "reductions" ints: [4, 1] } arg { key: "image_size" int: 64 })";  // positions of another size

const ExportCase kCases[] = {
    // One layer of the encoder, two of the decoder: a sample for each level.
    {"deformable_detr",
     with_resnet("deformable_detr", "outputs: [3, 4]", "levels: 3"),
     true,
     {{"GridSample", 9}, {"TopK", 0}, {"InstanceNormalization", 3}}},
    {"refine",
     with_resnet("deformable_detr", "outputs: [4]", "levels: 1 } deformable_detr { box_refine: true"),
     true,
     {{"GridSample", 3}}},
    {"two_stage",
     with_resnet("deformable_detr", "outputs: [3, 4]",
                 "levels: 2 } deformable_detr { box_refine: true two_stage: true"),
     true,
     {{"TopK", 1}, {"Sin", 1}}},
    {"detr", with_resnet("detr", "", ""), true, {{"GridSample", 0}}},
    {"detr_learned", with_resnet("detr", "", "} detr { position_encoding: \"learned\" pre_norm: true")},
    // The first layer's boxes are learned: only those of the second depend on the image.
    {"detr_anchors",
     with_resnet("detr", "",
                 "} detr { anchor_queries: true position_temperature: 20 position_in_tokens: true"),
     true,
     {{"Sin", 1}}},
    {"dino", with_resnet("dino", "outputs: [3, 4]", "levels: 2"), true, {{"TopK", 1}, {"Sin", 2}}},
    {"rt_detr",
     with_resnet(
         "rt_detr", "outputs: [2, 3, 4]",
         "levels: 3 decoder_cross_attention { type: \"ms_deform_attn\" arg { key: \"level_points\" ints: "
         "[2, 4, 2] } } } rt_detr { hybrid_encoder { dim: 16 ffn_dim: 16 }"),
     true,
     {{"TopK", 1}, {"GridSample", 6}}},
    {"rf_detr",
     R"(model { type: "rf_detr" backbone { arg { key: "image_size" int: 32 } arg { key: "patch" int: 8 } arg { key: "dim" int: 16 }
        arg { key: "depth" int: 2 } arg { key: "heads" int: 2 } arg { key: "windows" int: 2 } arg { key: "windowed_blocks" ints: [0] }
        arg { key: "positions" string: "smooth" } outputs: [1, 2] }
        transformer { hidden_dim: 16 heads: 2 decoder_layers: 2 ffn_dim: 16 queries: 5 extra_query_groups: 1 }
        lw_detr { cross_heads: 4 projector_blocks: 1 } })",
     true,
     {{"TopK", 1}, {"GridSample", 2}, {"Sin", 1}}},
    {"lw_detr",
     R"(model { type: "lw_detr" backbone { arg { key: "style" string: "cae" } arg { key: "image_size" int: 32 }
        arg { key: "patch" int: 8 } arg { key: "dim" int: 16 } arg { key: "depth" int: 1 } arg { key: "heads" int: 2 } }
        transformer { hidden_dim: 16 heads: 2 decoder_layers: 1 ffn_dim: 16 queries: 5 levels: 2 }
        lw_detr { cross_heads: 4 projector_blocks: 1 } })",
     true,
     {{"TopK", 1}, {"GridSample", 2}}},
    {"retinanet",
     "model { type: \"retinanet\" backbone { blocks: [1, 1, 1, 1] width: 8 } retinanet { channels: 16 tower_layers: 1 } }",
     true,
     {{"TopK", 0}, {"Exp", 1}},
     9 * (8 * 12 + 4 * 6 + 2 * 3 + 2 + 1)},
    // Six doublings; the pyramid's are of nearest cells. Of four pooled maps all grow to 2 x 3 cells or
    // shrink to them, then there are three steps down the pyramid and three up to the finest map.
    {"semantic_fpn",
     "model { type: \"semantic_fpn\" backbone { blocks: [1, 1, 1, 1] width: 8 variant: \"c\" } semantic_fpn { channels: 16 "
     "head_channels: 8 } }",
     false,
     {{"Resize", 6}, {"MatMul", 0}},
     0,
     false},
    {"uper_net",
     "model { type: \"uper_net\" backbone { blocks: [1, 1, 1, 1] width: 8 } uper_net { channels: 16 auxiliary_channels: 8 } }",
     false,
     {{"Resize", 10}, {"MatMul", 8}},
     0,
     false},
    {"swin_detector", "model { type: \"deformable_detr\" backbone { type: \"swin\" outputs: [1, 2] " + kSwin +
                          " } " + kSmallTransformer + "levels: 2 } }"},
    {"swin", vision("swin", kSwin), false, {{"Softmax", 4}}},
    {"dat", vision("dat", kDat), false, {{"GridSample", 2}}},  // the keys and the table of positions
    {"dat_pp",
     vision(
         "dat_pp",
         R"(arg { key: "blocks" string: "ND" } arg { key: "dims" ints: [8] } arg { key: "heads" ints: [2] })"),
     false,
     {{"GridSample", 2}, {"Softmax", 2}}},
    {"vit", vision("vit", kVit), false, {{"Softmax", 1}}},
    {"pvt", vision("pvt", kPvt), false, {{"Softmax", 2}, {"Conv", 3}}},
};

LoadedModel small_model(const std::string& text) {
  LoadedModel model;
  model.config = resolve_config(parse_config(text, "a test"));
  validate_config(model.config);
  model.module = build_model(model.config, 3);
  model.module->initialize(1);
  return model;
}

std::shared_ptr<const ModelOutputs> outputs_of(const LoadedModel& model, const OutputChoice& choice = {}) {
  return onnx_outputs().find(task_name(model.config)).make(model.config, choice, *model.module);
}

TEST(Export, EveryFamilyIsStandardOperators) {
  for (const ExportCase& c : kCases) {
    const LoadedModel model = small_model(c.model);
    for (int64_t batch : {1, 0}) {
      SCOPED_TRACE(c.name + (batch ? "" : ", any batch"));
      const ExportedModel exported =
          export_model(*model.module, *outputs_of(model), {.height = 64, .width = 96, .batch = batch});
      const onnx::ModelProto proto = parsed(exported.file);
      check_structure(proto, c.has_f32);
      const int64_t free = batch == 0 ? -1 : batch;
      ASSERT_EQ(proto.graph().input_size(), 1);
      EXPECT_EQ(proto.graph().input(0).name(), "images");
      EXPECT_EQ(shape_of(proto.graph().input(0)), (std::vector<int64_t>{free, 3, 64, 96}));
      EXPECT_EQ(exported.outputs, c.detector ? (std::vector<std::string>{"logits", "boxes"})
                                             : std::vector<std::string>{"logits"});
      EXPECT_EQ(shape_of(proto.graph().output(0))[0], free);
      if (c.detector) {
        EXPECT_EQ(shape_of(proto.graph().output(1)), (std::vector<int64_t>{free, c.rows, 4}));
      }
      for (auto [type, count] : c.nodes) EXPECT_EQ(count_nodes(proto, type), count) << type;
      EXPECT_LE(count_nodes(proto, "Shape"), batch == 0 ? 1 : 0);
    }
  }
}

// What eval and predict do around a model of label maps is reported.
TEST(Export, FurtherViewsAreNotInTheFile) {
  LoadedModel model = small_model(
      "model { type: \"semantic_fpn\" backbone { blocks: [1, 1, 1, 1] width: 8 outputs: [1, 2, 3, 4] } "
      "semantic_fpn { channels: 16 head_channels: 16 } }");
  EXPECT_EQ(outputs_of(model, {.postprocess = true})->note(), "");
  for (const char* set : {"eval.window=40", "eval.scales=[0.75, 1]", "eval.flip=true"})
    apply_set(model.config, set);
  const std::string note = outputs_of(model, {.postprocess = true})->note();
  EXPECT_TRUE(note.starts_with("eval.window 40, eval.scales [0.75, 1], eval.flip: not in the file")) << note;
}

// The file holds the masks of all queries, or of the detections.
TEST(Export, MasksAreInTheFile) {
  const LoadedModel model = small_model(
      R"(model { type: "rf_detr_seg" backbone { arg { key: "image_size" int: 32 } arg { key: "patch" int: 8 } arg { key: "dim" int: 16 }
         arg { key: "depth" int: 1 } arg { key: "heads" int: 2 } }
         transformer { hidden_dim: 16 heads: 2 decoder_layers: 1 ffn_dim: 16 queries: 5 }
         lw_detr { cross_heads: 4 projector_blocks: 1 } })");
  for (bool finished : {false, true}) {
    const ExportedModel exported = export_model(*model.module, *outputs_of(model, {.postprocess = finished}),
                                                {.height = 64, .width = 96, .batch = 0});
    const onnx::ModelProto proto = parsed(exported.file);
    EXPECT_EQ(exported.outputs, finished ? (std::vector<std::string>{"labels", "boxes", "scores", "masks"})
                                         : (std::vector<std::string>{"logits", "boxes", "masks"}));
    // Three classes of five queries, or these.
    EXPECT_EQ(shape_of(proto.graph().output(finished ? 3 : 2)),
              (std::vector<int64_t>{-1, finished ? 15 : 5, 16, 24}));
  }
}

// The number of images is free: a region's image follows from the region's number.
TEST(Export, DetectorsOfTwoStagesFinishForAnyBatch) {
  for (const auto& [type, own, stages] :
       {std::tuple{"mask_rcnn", "", 1},
        {"cascade_mask_rcnn", "", 3},
        {"cascade_mask_rcnn", "head_convs: 1 head_layers: 1 class_agnostic: false bbox_loss: \"giou\"", 3}}) {
    const LoadedModel model = small_model(fmt::format(
        "model {{ type: \"{}\" backbone {{ blocks: [1, 1, 1, 1] width: 8 }} rcnn {{ channels: 16 head_dim: 16 "
        "mask_channels: 8 mask_layers: 1 candidates: 30 proposals: 20 detections: 6 {} }} }}",
        type, own));
    for (int64_t batch : {2, 0}) {
      SCOPED_TRACE(fmt::format("{} {}, batch {}", type, own, batch));
      const ExportedModel exported =
          export_model(*model.module, *outputs_of(model), {.height = 64, .width = 96, .batch = batch});
      const onnx::ModelProto proto = parsed(exported.file);
      check_structure(proto);
      const int64_t free = batch == 0 ? -1 : batch;
      EXPECT_EQ(exported.outputs, (std::vector<std::string>{"labels", "boxes", "scores", "masks"}));
      EXPECT_EQ(shape_of(proto.graph().output(1)), (std::vector<int64_t>{free, 6, 4}));
      EXPECT_EQ(shape_of(proto.graph().output(3)), (std::vector<int64_t>{free, 6, 28, 28}));
      EXPECT_EQ(count_nodes(proto, "RoiAlign"), 4 * (stages + 1));  // of four levels
      const auto about = outputs_of(model)->metadata();
      EXPECT_EQ(1, std::ranges::count(about, std::pair<std::string, std::string>(
                                                 "masks", "probabilities of maps that cover the boxes")));
      EXPECT_LE(count_nodes(proto, "Shape"), batch == 0 ? 1 : 0);
    }
    // There are as many detections as eval has.
    LoadedModel fewer = model;
    fewer.config.mutable_eval()->set_max_detections(4);
    const ExportedModel cut = export_model(*model.module, *outputs_of(fewer), {.height = 64, .width = 96});
    const onnx::ModelProto few = parsed(cut.file);
    for (const auto& output : few.graph().output()) EXPECT_EQ(shape_of(output)[1], 4);
  }
}

TEST(Export, PreAndPostprocessingOnRequest) {
  const LoadedModel model = small_model(kCases[0].model + " eval { max_detections: 7 }");
  ExportOptions o{.height = 64, .width = 64, .batch = 2};
  for (OnnxInput input : {OnnxInput::kUnit, OnnxInput::kBytes}) {
    o.input = input;
    const auto outputs =
        outputs_of(model, {.classes = 3, .postprocess = true, .raw_outputs = input == OnnxInput::kBytes});
    const onnx::ModelProto proto = parsed(export_model(*model.module, *outputs, o).file);
    check_structure(proto);
    ASSERT_EQ(proto.graph().input_size(), 2);
    const bool bytes = input == OnnxInput::kBytes;
    EXPECT_EQ(proto.graph().input(0).type().tensor_type().elem_type(),
              bytes ? onnx::TensorProto::UINT8 : onnx::TensorProto::FLOAT);
    EXPECT_EQ(shape_of(proto.graph().input(0)),
              bytes ? (std::vector<int64_t>{2, 64, 64, 3}) : (std::vector<int64_t>{2, 3, 64, 64}));
    EXPECT_EQ(proto.graph().input(1).name(), "orig_target_sizes");
    ASSERT_EQ(proto.graph().output_size(), bytes ? 5 : 3);
    EXPECT_EQ(proto.graph().output(0).name(), "labels");
    EXPECT_EQ(shape_of(proto.graph().output(1)), (std::vector<int64_t>{2, 7, 4}));
    EXPECT_EQ(shape_of(proto.graph().output(2)), (std::vector<int64_t>{2, 7}));
  }
}

TEST(Export, DoublesOfDenseDetectorsAreSuppressed) {
  const auto retinanet = std::ranges::find(kCases, "retinanet", &ExportCase::name);
  const LoadedModel model = small_model(retinanet->model + " eval { max_detections: 7 }");
  for (int64_t batch : {2, 0}) {
    const auto outputs = outputs_of(model, {.classes = 3, .postprocess = true});
    EXPECT_EQ(outputs->note(), "");
    const onnx::ModelProto proto =
        parsed(export_model(*model.module, *outputs, {.height = 64, .width = 96, .batch = batch}).file);
    check_structure(proto);
    EXPECT_EQ(count_nodes(proto, "NonMaxSuppression"), 1);
    EXPECT_EQ(shape_of(proto.graph().output(1)), (std::vector<int64_t>{batch == 0 ? -1 : batch, 7, 4}));
  }
}

TEST(Export, PostprocessingOfSoftmaxes) {
  auto found_in = [](const onnx::ModelProto& proto) {
    std::vector<std::pair<std::string, std::vector<int64_t>>> outputs;
    for (const auto& out : proto.graph().output()) outputs.emplace_back(out.name(), shape_of(out));
    return outputs;
  };
  using Outputs = decltype(found_in(onnx::ModelProto()));
  // Each query's best class but the last, which stands for none, then the best queries.
  const LoadedModel detr = small_model(with_resnet("detr", "", "") + " criterion { class_loss: softmax }");
  onnx::ModelProto proto =
      parsed(export_model(*detr.module, *outputs_of(detr, {.classes = 3, .postprocess = true}),
                          {.height = 64, .width = 64, .batch = 0})
                 .file);
  check_structure(proto);
  EXPECT_EQ(found_in(proto), (Outputs{{"labels", {-1, 5}}, {"boxes", {-1, 5, 4}}, {"scores", {-1, 5}}}));
  EXPECT_EQ(count_nodes(proto, "TopK"), 2);
  EXPECT_EQ(count_nodes(proto, "Sigmoid"), 1);  // of the boxes: no score's
  // The best three of three classes.
  const LoadedModel classifier = small_model(vision("vit", kVit));
  proto = parsed(export_model(*classifier.module,
                              *outputs_of(classifier, {.postprocess = true, .raw_outputs = true}),
                              {.height = 32, .width = 32})
                     .file);
  check_structure(proto);
  EXPECT_EQ(found_in(proto), (Outputs{{"labels", {1, 3}}, {"scores", {1, 3}}, {"logits", {1, 3}}}));
  EXPECT_EQ(proto.graph().input_size(), 1);
  EXPECT_EQ(count_nodes(proto, "TopK"), 1);
}

// A classifier that runs a given function.
class Told : public Classifier {
 public:
  explicit Told(std::function<Var(const Var&)> function) : function_(std::move(function)) {}
  Var forward(const Var& images) override { return function_(images); }
  int64_t num_classes() const override { return 3; }
  std::string type_name() const override { return "Told"; }

 private:
  std::function<Var(const Var&)> function_;
};

std::shared_ptr<const ModelOutputs> logits_alone() {
  return onnx_outputs().find("classification").make({}, {}, Told([](const Var& x) { return x; }));
}

Var channel_means(const Var& images) {
  const int space[] = {1, 2};
  return mean(images, space);
}

TEST(Export, InfiniteBoundsAreNone) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (auto [low, high, inputs] : std::initializer_list<std::tuple<double, double, int>>{
           {0, kInfinity, 2}, {-kInfinity, 6, 3}, {-kInfinity, kInfinity, 0}}) {
    Told model([&](const Var& x) { return clamp(channel_means(x), low, high); });
    const onnx::ModelProto proto =
        parsed(export_model(model, *logits_alone(), {.height = 8, .width = 8}).file);
    check_structure(proto);
    int seen = 0;
    for (const auto& node : proto.graph().node())
      if (node.op_type() == "Clip") seen = node.input_size();
    EXPECT_EQ(seen, inputs) << low << " to " << high;
    for (const auto& t : proto.graph().initializer())
      EXPECT_EQ(t.raw_data().find("\x40\x1c\x46"), std::string::npos);
  }
}

// After an exception a module has the mode that it had before.
TEST(Export, TheModeComesBackAfterAnError) {
  Told model([](const Var& x) { return relu(Var(x.value().slice(1, 0, 4))); });
  model.set_training(true);
  EXPECT_THROW(export_model(model, *logits_alone(), {.height = 8, .width = 8}), Error);
  EXPECT_TRUE(model.training());
}

// What depends on the images but is not made by ops is never written as a constant.
TEST(Export, RefusesWhatItCannotWrite) {
  struct Case {
    const char* part;
    std::function<Var(const Var&)> function;
    int64_t batch = 1;
  };
  int calls = 0;
  Var filled(Tensor::zeros({1, 3}));
  const Case cases[] = {
      {"depends on the images, but no op made it",
       [](const Var& x) { return add(channel_means(x), Var(channel_means(x).value().clone())); }},
      {"attribute \"scale\" of op [scale_shift]",
       [](const Var& x) { return mul_scalar(channel_means(x), channel_means(x).value().data<float>()[0]); }},
      {"attribute \"end\" of op [slice]",
       [](const Var& x) {
         const int64_t rows = std::signbit(x.value().data<float>()[0]) ? 4 : 6;
         return mean(reshape(slice(x, 1, 0, rows), {1, rows * 8, 3}), std::vector<int>{1});
       }},
      {"attribute \"scale\" of op [scale_shift]",
       [](const Var& x) { return mul_scalar(channel_means(x), 1.0 / static_cast<double>(x.dim(0))); }, 0},
      {"is overwritten afterwards",
       [&](const Var& x) {
         filled.value().copy_from(channel_means(x).value());
         return add(channel_means(x), filled);
       }},
      {"cannot be repeated for a batch of any size",
       [](const Var& x) {
         const int64_t rows = 2 * x.dim(0);
         return add(reshape(x, {rows, 96}), Var(Tensor::full({rows, 96}, 1)));
       },
       0},
      {"depends on the images, but no op made it",  // two images of the trace, and not every one of a batch
       [](const Var& x) {
         Tensor turns = Tensor::empty({x.dim(0), 3});
         for (int64_t i = 0; i < turns.numel(); ++i) turns.data<float>()[i] = static_cast<float>(i / 3 % 2);
         return add(channel_means(x), Var(turns));
       },
       0},
      {"op [cast]: from f32 to bf16",
       [](const Var& x) { return cast(cast(channel_means(x), DType::kBF16), DType::kF32); }},
      {"a number inf is not finite",
       [](const Var& x) { return mul_scalar(channel_means(x), std::numeric_limits<double>::infinity()); }},
      {"but no op took that part", [](const Var& x) { return channel_means(Var(x.value().slice(1, 0, 4))); }},
      {"cannot read images of 8 x 8",
       [](const Var& x) {
         return conv2d(x, Var(Tensor::zeros({3, 3, 9, 9})), {});
       }},
      {"expected the same",
       [&](const Var& x) { return ++calls < 3 ? channel_means(x) : relu(relu(channel_means(x))); }},
      {"does not depend on the image",
       [](const Var&) {
         return Var(Tensor::zeros({1, 3}));
       }},
      {"op [cross_entropy] cannot be written",
       [](const Var& x) {
         Var loss = cross_entropy(channel_means(x), Tensor::from<int64_t>({1}, std::vector<int64_t>{1}), {});
         return add(channel_means(x), loss);
       }},
  };
  for (const Case& c : cases) {
    Told model(c.function);
    try {
      export_model(model, *logits_alone(), {.height = 8, .width = 8, .batch = c.batch});
      ADD_FAILURE() << "expected: " << c.part;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(c.part), std::string::npos) << error.what();
    }
  }
}

using ExportCli = Cli;

TEST_F(ExportCli, WritesAFileThatTellsWhatItIs) {
  expect_works("export " + kCheckpoint + " raw.onnx --sample raw.safetensors");
  const onnx::ModelProto raw = parsed(read_bytes(scratch() / "raw.onnx"));
  check_structure(raw);
  EXPECT_EQ(metadata(raw, "height"), "64");
  EXPECT_NE(metadata(raw, "class_names").find("\"circle\""), std::string::npos)
      << metadata(raw, "class_names");
  EXPECT_EQ(metadata(raw, "mean"), "0.485, 0.456, 0.406");
  EXPECT_EQ(metadata(raw, "scores"), "sigmoid");
  EXPECT_TRUE(fs::exists(scratch() / "raw.safetensors"));
  expect_works("export " + kCheckpoint +
               " all.onnx --height 48 --width 80 --batch dynamic --input bytes --postprocess");
  const onnx::ModelProto all = parsed(read_bytes(scratch() / "all.onnx"));
  check_structure(all);
  EXPECT_EQ(shape_of(all.graph().input(0)), (std::vector<int64_t>{-1, 48, 80, 3}));
  // The bytes are the same every time.
  expect_works("export " + kCheckpoint + " again.onnx");
  EXPECT_EQ(read_bytes(scratch() / "raw.onnx"), read_bytes(scratch() / "again.onnx"));
  // The standard output holds the file and nothing else.
  const Result piped = run_script("$S export " + kCheckpoint + " /dev/stdout | cmp - raw.onnx");
  EXPECT_EQ(piped.status, 0) << piped.out;
  EXPECT_NE(piped.err.find("nodes"), std::string::npos) << piped.err;
  // A recipe has random weights.
  EXPECT_EQ(run("export tiny.textproto recipe.onnx --set model.num_classes=4").status, 0);
  EXPECT_EQ(shape_of(parsed(read_bytes(scratch() / "recipe.onnx")).graph().output(0)),
            (std::vector<int64_t>{1, 5, 4}));
}

TEST_F(ExportCli, RefusesBadInput) {
  const std::string out = " refused.onnx ";
  for (auto [arguments, part] : std::initializer_list<std::pair<std::string, std::string>>{
           {"none.safetensors" + out, "none.safetensors"},
           {kCheckpoint, "OUT"},
           {kCheckpoint + out + "--batch 0", "--batch"},
           {kCheckpoint + out + "--batch many", "many"},
           {kCheckpoint + out + "--batch 1025", "1024"},
           {kCheckpoint + out + "--height 0", "--height"},
           {kCheckpoint + out + "--height 1000000 --width 1000000", "1000000 x 1000000"},
           {kCheckpoint + out + "--input pixels", "pixels"},
           {kCheckpoint + out + "--raw-outputs", "--raw-outputs"},
           {kCheckpoint + out + "--set seed=2", "--set"},
           {kCheckpoint + " " + kCheckpoint, kCheckpoint},
           {kCheckpoint + " shapes", "shapes"},
           {kCheckpoint + " none/refused.onnx", "none"},
           {"shapes/annotations.json" + out, "annotations.json"},
           {"none.textproto" + out, "none.textproto"},
       })
    expect_refused("export " + arguments, part);
  // 2 TB
  const Result large = run("export " + kCheckpoint + out + "--batch 1024 --height 13000 --width 13000");
  EXPECT_EQ(large.status, 1);
  EXPECT_NE(large.err.find("fewer at a time, need less (--height, --width, --batch)"), std::string::npos)
      << large.err;
  EXPECT_EQ(large.err.find("data.batch_size"), std::string::npos) << large.err;
  EXPECT_FALSE(fs::exists(scratch() / "refused.onnx"));
}

}  // namespace
}  // namespace saccade
#endif
