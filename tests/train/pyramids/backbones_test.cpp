// Tests that detectors on a feature pyramid learn on every backbone of several stages.
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>

#include "tests/run_command.h"
#include "tests/test_folder.h"

namespace saccade {
namespace {

struct PyramidBackbone {
  const char *name, *text;
};
void PrintTo(const PyramidBackbone& backbone, std::ostream* out) { *out << backbone.name; }

class PyramidBackbones : public testing::TestWithParam<PyramidBackbone> {};

TEST_P(PyramidBackbones, RetinaNetLearns) {
  TestFolder folder;
  const std::string data = folder / "data", output = folder / "run";
  ASSERT_EQ(run_command({"data", "shapes", "--output", data, "--images", "16", "--seed", "1"}), 0);
  const std::string split =
      "{ annotations: \"" + data + "/annotations.json\" images: \"" + data + "/images\" }";
  std::ofstream(folder / "config.textproto")
      << "model { type: \"retinanet\" backbone { " << GetParam().text
      << " } retinanet { channels: 16 tower_layers: 1 } }\ndata { train " << split << " val " << split << R"(
  batch_size: 4
  augment { height: 96 width: 96 scale_min: 0.8 scale_max: 1.2 }
  val_height: 96 val_width: 96
}
optimizer { learning_rate: 2e-3 clip_norm: 1 }
schedule { type: "constant" }
train { epochs: 0 max_steps: 40 log_every: 1 eval_every_epochs: 0 }
)";
  ASSERT_EQ(run_command({"train", "--config", folder / "config.textproto", "--output", output}), 0);
  const std::vector<double> losses = losses_of(output);
  ASSERT_EQ(losses.size(), 40U);
  EXPECT_LT(std::accumulate(losses.end() - 10, losses.end(), 0.0),
            0.85 * std::accumulate(losses.begin(), losses.begin() + 10, 0.0));
}

INSTANTIATE_TEST_SUITE_P(
    All, PyramidBackbones,
    testing::Values(
        PyramidBackbone{"swin", R"(type: "swin" outputs: [1, 2, 3, 4] arg { key: "embed_dim" int: 8 }
          arg { key: "depths" ints: [1, 1, 2, 1] } arg { key: "heads" ints: [1, 1, 2, 2] } arg { key: "window" int: 4 })"},
        PyramidBackbone{"dat", R"(type: "dat" outputs: [1, 2, 3, 4] arg { key: "blocks" string: "L P LD D" }
          arg { key: "dims" ints: [8, 16, 32, 64] } arg { key: "heads" ints: [1, 1, 2, 2] }
          arg { key: "groups" ints: [1, 1, 1, 2] } arg { key: "window" int: 4 } arg { key: "image_size" int: 96 })"},
        PyramidBackbone{"dat_pp",
                        R"(type: "dat_pp" outputs: [1, 2, 3, 4] arg { key: "blocks" string: "N ND N D" }
          arg { key: "dims" ints: [8, 16, 32, 64] } arg { key: "heads" ints: [1, 1, 2, 2] }
          arg { key: "groups" ints: [1, 1, 1, 2] } arg { key: "image_size" int: 96 })"},
        PyramidBackbone{"pvt", R"(type: "pvt" arg { key: "depths" ints: [1, 1, 1, 1] }
          arg { key: "dims" ints: [8, 16, 32, 64] } arg { key: "heads" ints: [1, 1, 2, 2] }
          arg { key: "mlp_ratios" ints: [2, 2, 2, 2] } arg { key: "image_size" int: 64 })"}),
    [](const auto& p) { return std::string(p.param.name); });

}  // namespace
}  // namespace saccade
