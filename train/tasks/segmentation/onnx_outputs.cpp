// The outputs of an exported model of label maps.
#include <fmt/ranges.h>

#include <algorithm>

#include "models/build.h"
#include "models/segmenter.h"
#include "train/tasks/onnx_outputs.h"

namespace saccade {
namespace {

// `logits` [N, h, w, K] of the model's cells; with postprocess `labels` i64 [N, H, W] of the input's pixels,
// which are positions in the metadata's class names.
class SegmenterOutputs : public ModelOutputs {
 public:
  SegmenterOutputs(const OutputChoice& choice, config::Eval eval) : choice_(choice), eval_(std::move(eval)) {}
  std::vector<std::pair<std::string, Tensor>> run(Module& model, const Tensor& images) const override {
    const Var logits = call(model_as<Segmenter>(model), Var(images)).logits;
    std::vector<std::pair<std::string, Tensor>> outputs{{"logits", logits.value()}};
    if (choice_.postprocess)
      outputs.emplace_back("pixels", logits_at(logits, images.dim(1), images.dim(2)).value());
    return outputs;
  }
  void lower(OutputWriter& writer, const std::vector<Raw>& raw) const override {
    auto size_of = [](const Raw& r) { return std::vector<int64_t>(r.shape.begin() + 1, r.shape.end()); };
    if (choice_.postprocess) {
      OnnxGraph& g = writer.graph();
      const Raw& pixels = raw.at(1);
      g.set_scope("postprocess");
      std::string scores = pixels.name;
      if (choice_.classes > 0 && choice_.classes < pixels.shape[3])
        scores = g.node("Slice", {scores, g.ints({0}), g.ints({choice_.classes}), g.ints({3})});
      const std::string labels = g.node("ArgMax", {scores}, {{"axis", 3}, {"keepdims", 0}});
      g.set_scope("");
      writer.output("labels", labels, DType::kI64, {pixels.shape[1], pixels.shape[2]});
    }
    if (!choice_.postprocess || choice_.raw_outputs)
      writer.output("logits", raw.at(0).name, DType::kF32, size_of(raw.at(0)));
  }
  std::vector<std::pair<std::string, std::string>> metadata() const override {
    return {{"logits", "of cells"}};
  }
  // Lists what `saccade eval` does around the model and the file cannot do.
  std::string note() const override {
    std::vector<std::string> notes, ignored;
    if (!choice_.postprocess)
      notes.emplace_back(
          "the logits are per cell: resize them bilinearly to the image's size, then take the best class");
    if (eval_.window() > 0) ignored.push_back(fmt::format("eval.window {}", eval_.window()));
    if (std::ranges::any_of(eval_.scales(), [](double scale) { return scale != 1; }))
      ignored.push_back(fmt::format("eval.scales [{}]", fmt::join(eval_.scales(), ", ")));
    if (eval_.flip()) ignored.emplace_back("eval.flip");
    if (!ignored.empty())
      notes.push_back(fmt::format(
          "{}: not in the file, which sees the whole image once; saccade eval and predict average several views",
          fmt::join(ignored, ", ")));
    return fmt::format("{}", fmt::join(notes, "; "));
  }

 private:
  OutputChoice choice_;
  config::Eval eval_;
};

[[maybe_unused]] const bool segmenter_outputs_registered =
    onnx_outputs().add({.name = "segmentation",
                        .make = [](const Config& config, const OutputChoice& choice,
                                   const Module&) -> std::shared_ptr<const ModelOutputs> {
                          return std::make_shared<SegmenterOutputs>(choice, config.eval());
                        }});

}  // namespace
}  // namespace saccade
