#include "train/export/export.h"

#include <fmt/ranges.h>

#include <limits>
#include <unordered_map>

#include "autograd/scope.h"
#include "core/tensor/error.h"
#include "core/tensor/philox.h"
#include "models/not_finite.h"
#include "train/export/lowering.h"

namespace saccade {
namespace {

Tensor noise_images(int64_t count, const ExportOptions& o, uint64_t seed) {
  Tensor images = Tensor::empty({count, o.height, o.width, 3});
  Rng rng(seed);
  float* p = images.data<float>();
  for (int64_t i = 0; i < images.numel(); ++i) p[i] = static_cast<float>(rng.uniform() * 4 - 2);
  return images;
}

// Puts a model into evaluation mode, and restores its mode afterwards.
class Evaluated {
 public:
  explicit Evaluated(Module& model) : model_(model), was_training_(model.training()) {
    model.set_training(false);
  }
  ~Evaluated() { model_.set_training(was_training_); }
  Evaluated& operator=(Evaluated&&) = delete;

 private:
  Module& model_;
  bool was_training_;
};

// Collects the dotted name of every module; a module with several names (a shared head) has its first one.
void name_modules(const Module& module, const std::string& name,
                  std::unordered_map<const void*, std::string>& names) {
  names.try_emplace(&module, name);
  for (const auto& [local, child] : module.children()) name_modules(*child, child_name(name, local), names);
}

std::unordered_map<const Storage*, std::string> name_parameters(const Module& model) {
  std::unordered_map<const Storage*, std::string> names;
  for (const NamedTensor& t : model.named_tensors()) names.try_emplace(t.var.value().storage().get(), t.name);
  return names;
}

// Turns `images`, as the caller provides them, into value 0, the normalised maps.
void lower_images(OnnxGraph& g, LoweredValues& values, const ExportOptions& o, const OnnxGraph::Axis& batch) {
  const bool bytes = o.input == OnnxInput::kBytes;
  const OnnxGraph::Axis height{o.height}, width{o.width}, colours{3};
  if (bytes)
    g.input("images", DType::kU8, {batch, height, width, colours});
  else
    g.input("images", DType::kF32, {batch, colours, height, width});
  if (o.input == OnnxInput::kNormalized) return values.set_channels_first(0, "images");
  g.set_scope("preprocess");
  std::vector<float> scale, shift;
  for (size_t c = 0; c < 3; ++c) {
    const double deviation = o.normalization.std[c], mean = o.normalization.mean[c];
    scale.push_back(static_cast<float>(1 / deviation / (bytes ? 255 : 1)));
    shift.push_back(static_cast<float>(-mean / deviation));
  }
  std::string x = "images";
  if (bytes) {
    x = g.node("Cast", {x}, {{"to", int64_t{onnx::TensorProto::FLOAT}}});
    x = g.node("Transpose", {x}, {{"perm", std::vector<int64_t>{0, 3, 1, 2}}});
  }
  auto by_colour = [&](const std::vector<float>& numbers, const char* name) {
    return g.constant(Tensor::from<float>({1, 3, 1, 1}, numbers), name);
  };
  x = g.node("Mul", {x, by_colour(scale, "scale")});
  values.set_channels_first(0, g.node("Add", {x, by_colour(shift, "shift")}));
  g.set_scope("");
}

void lower_ops(OnnxGraph& g, LoweredValues& values, const Trace& trace, const Module& model) {
  std::unordered_map<const void*, std::string> modules;
  name_modules(model, "", modules);
  for (const TracedOp& op : trace.ops) {
    if (!values.at(op.output).depends) continue;  // a constant
    if (!op_lowerings().contains(op.name))
      fail("[export] op [{}] cannot be written as ONNX yet; it needs a lowering in train/export/ops",
           op.name);
    const OpLowering& spec = op_lowerings().find(op.name);
    auto name = modules.find(op.module);
    g.set_scope(name == modules.end() ? "" : name->second);
    g.keep_f32(spec.f32);
    Lowering lowering(op, values);
    spec.lower(lowering);
  }
  g.keep_f32(false);
  g.set_scope("");
}

void add_metadata(onnx::ModelProto& proto, const OnnxGraph& g, const ModelOutputs& outputs,
                  const ExportOptions& o) {
  auto add = [&](const std::string& key, const std::string& value) {
    auto* entry = proto.add_metadata_props();
    entry->set_key(key);
    entry->set_value(value);
  };
  auto numbers = [](const std::array<float, 3>& x) { return fmt::format("{}", fmt::join(x, ", ")); };
  add("height", std::to_string(o.height));
  add("width", std::to_string(o.width));
  add("channel_order", "RGB");
  add("mean", numbers(o.normalization.mean));
  add("std", numbers(o.normalization.std));
  add("input", o.input == OnnxInput::kNormalized ? "normalized: (pixel / 255 - mean) / std, f32 [N, 3, H, W]"
               : o.input == OnnxInput::kUnit     ? "unit: pixel / 255, f32 [N, 3, H, W]"
                                                 : "bytes: pixels, u8 [N, H, W, 3]");
  for (const auto& [key, value] : o.metadata) add(key, value);
  for (const auto& [key, value] : outputs.metadata()) add(key, value);
  add("float32_nodes", fmt::format("{}", fmt::join(g.f32_nodes(), "\n")));
}

}  // namespace

ExportedModel export_model(Module& model, const ModelOutputs& outputs, const ExportOptions& options) {
  ExecutionScope scope;
  execution().grad_enabled = false;
  execution().compute = DType::kF32;
  execution().math = MathMode::kExact;
  const Evaluated mode(model);
  std::string not_finite;
  auto run = [&](const Tensor& images) {
    std::vector<Tensor> raw;
    for (auto& [name, tensor] : outputs.run(model, images)) {
      if (!is_finite(tensor)) not_finite = name;
      raw.push_back(tensor);
    }
    return raw;
  };
  const bool free = options.batch == 0;
  const int64_t count = free ? 2 : options.batch;
  const Tensor images = noise_images(count, options, 1);
  try {  // modules first make everything they keep between runs, before anything is traced
    run(images);
  } catch (const InputError&) {
    throw;
  } catch (const OutOfMemory&) {
    throw;
  } catch (const NotFinite&) {
    throw;
  } catch (const Error& error) {
    fail_input("export: the model cannot read images of {} x {} pixels: {}", options.height, options.width,
               error.what());
  }
  const Trace trace = trace_model(run, images, noise_images(free ? 2 * count : count, options, 2));

  OnnxGraph graph("saccade");
  LoweredValues values(trace, graph, name_parameters(model));
  const OnnxGraph::Axis batch{free ? 0 : count, free ? "batch" : ""};
  lower_images(graph, values, options, batch);
  lower_ops(graph, values, trace, model);
  std::vector<ModelOutputs::Raw> raw;
  for (int id : trace.outputs) raw.push_back({values.name(id), values.at(id).shape});
  OutputWriter writer(graph, batch);
  outputs.lower(writer, raw);
  ExportedModel exported{.outputs = writer.names()};
  if (!not_finite.empty())
    throw NotFinite(fmt::format("an image of noise: the predicted {} are not finite", not_finite));

  onnx::ModelProto proto;
  proto.set_ir_version(kOnnxIrVersion);
  proto.set_producer_name("saccade");
  proto.set_producer_version(options.version);
  proto.add_opset_import()->set_version(kOnnxOpset);
  proto.mutable_opset_import(0)->set_domain("");
  add_metadata(proto, graph, outputs, options);
  exported.nodes = graph.proto().node_size();
  int64_t bytes = 0;
  for (const onnx::TensorProto& t : graph.proto().initializer())
    bytes += static_cast<int64_t>(t.raw_data().size());
  if (bytes >= std::numeric_limits<int32_t>::max() - (1 << 24))
    fail_input(
        "export: the file would hold {:.1f} GB, but the format's limit is 2 GiB; a smaller --height and --width "
        "make smaller tables",
        static_cast<double>(bytes) / 1e9);
  *proto.mutable_graph() = graph.take();
  SACCADE_CHECK(proto.SerializeToString(&exported.file), "[export] the file could not be written");
  return exported;
}

}  // namespace saccade
