// The outputs of an exported classifier.
#include <algorithm>

#include "models/build.h"
#include "models/classifier.h"
#include "train/tasks/onnx_outputs.h"

namespace saccade {
namespace {

// `logits` [N, K]; with postprocess the five best `labels` i64 [N, 5] and their softmax `scores`.
class ClassifierOutputs : public ModelOutputs {
 public:
  explicit ClassifierOutputs(const OutputChoice& choice) : choice_(choice) {}
  std::vector<std::pair<std::string, Tensor>> run(Module& model, const Tensor& images) const override {
    return {{"logits", call(model_as<Classifier>(model), Var(images)).value()}};
  }
  void lower(OutputWriter& writer, const std::vector<Raw>& raw) const override {
    constexpr int64_t kBestClasses = 5;  // as saccade predict shows them
    const Raw& logits = raw.at(0);
    const int64_t classes = logits.shape[1], count = std::min(classes, kBestClasses);
    if (choice_.postprocess) {
      OnnxGraph& g = writer.graph();
      g.set_scope("postprocess");
      g.keep_f32(true);
      const std::string best =
          g.node("TopK", {g.node("Softmax", {logits.name}, {{"axis", -1}}), g.ints({count})},
                 {{"axis", -1}, {"largest", 1}, {"sorted", 1}}, 2);
      g.keep_f32(false);
      g.set_scope("");
      writer.output("labels", best + ":1", DType::kI64, {count});
      writer.output("scores", best, DType::kF32, {count});
    }
    if (!choice_.postprocess || choice_.raw_outputs)
      writer.output("logits", logits.name, DType::kF32, {classes});
  }
  std::vector<std::pair<std::string, std::string>> metadata() const override {
    return {{"scores", "softmax"}};
  }

 private:
  OutputChoice choice_;
};

[[maybe_unused]] const bool classifier_outputs_registered =
    onnx_outputs().add({.name = "classification",
                        .make = [](const Config&, const OutputChoice& choice,
                                   const Module&) -> std::shared_ptr<const ModelOutputs> {
                          return std::make_shared<ClassifierOutputs>(choice);
                        }});

}  // namespace
}  // namespace saccade
