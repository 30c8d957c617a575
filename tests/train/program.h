// Tests of the program as a whole, which run in a folder with a small data set, a configuration and a
// checkpoint.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/test_folder.h"

namespace saccade {

namespace fs = std::filesystem;

struct Result {
  int status;
  std::string out, err;
};

// One folder for all tests of this program, removed at its end.
inline const fs::path& scratch() {
  struct Folder {
    fs::path path = make_folder("saccade_cli_test");
    ~Folder() {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
  };
  static Folder folder;
  return folder.path;
}

// Runs a shell script in the scratch folder, in which $S is the program.
inline Result run_script(const std::string& script) {
  fs::path out = scratch() / "stdout.txt", err = scratch() / "stderr.txt";
  std::string command = "cd '" + scratch().string() + "' && S='" SACCADE_BINARY_DIR "/saccade' && { " +
                        script + "\n} >'" + out.string() + "' 2>'" + err.string() + "'";
  int raw = std::system(command.c_str());
  return {WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw), read_bytes(out), read_bytes(err)};
}
// Runs a script that starts ranks, without leak detection: what Open MPI's libraries leave behind would make
// LeakSanitizer end a rank with an error.
inline Result run_ranks(const std::string& script) {
  return run_script("export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0\n" + script);
}
// Runs `saccade ARGUMENTS` in the scratch folder.
inline Result run(const std::string& arguments) { return run_script("\"$S\" " + arguments); }

inline void expect_refused(const std::string& arguments, const std::string& part) {
  SCOPED_TRACE("saccade " + arguments);
  Result r = run(arguments);
  EXPECT_EQ(r.status, 2) << r.err;
  EXPECT_EQ(r.err.rfind("error: ", 0), 0u) << r.err;
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  EXPECT_TRUE(r.err.ends_with("\n")) << r.err;
  EXPECT_NE(r.err.find(part), std::string::npos) << "stderr: " << r.err << "expected part: " << part;
}

inline void expect_works(const std::string& arguments) {
  SCOPED_TRACE("saccade " + arguments);
  Result r = run(arguments);
  EXPECT_EQ(r.status, 0) << r.err << r.out;
  EXPECT_EQ(r.err, "");
}

inline constexpr const char* kTinyConfig = R"(
model {
  backbone { blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 outputs: [4] }
  transformer { hidden_dim: 16 heads: 2 encoder_layers: 1 decoder_layers: 1 ffn_dim: 16 queries: 5 levels: 1 dropout: 0 }
}
data {
  train { annotations: "shapes/annotations.json" images: "shapes/images" }
  val { annotations: "shapes/annotations.json" images: "shapes/images" }
  batch_size: 2
  workers: 1
  augment { height: 64 width: 64 }
  val_height: 64
  val_width: 64
}
train { max_steps: 2 }
)";

// A data set, a configuration and a checkpoint of a two-step training, made by the program itself.
class Cli : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (fs::exists(scratch() / "shapes")) return;
    write_bytes(scratch() / "tiny.textproto", kTinyConfig);
    expect_works("data shapes --output shapes --images 4 --seed 1 --size 64");
    expect_works("train --config tiny.textproto --output run");
    ASSERT_TRUE(fs::exists(scratch() / "run/checkpoints/last.safetensors"));
    image_ =
        "shapes/images/" + fs::directory_iterator(scratch() / "shapes/images")->path().filename().string();
  }
  inline static std::string image_;
};

inline const std::string kCheckpoint = "run/checkpoints/last.safetensors";
inline const std::string kShapes = " --annotations shapes/annotations.json --images shapes/images ";

}  // namespace saccade
