// Tests training by several processes over Open MPI: the same as by one, and failures of one of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "tests/run_command.h"
#include "tests/train/program.h"

namespace saccade {
namespace {

// The model uses random masks, batch statistics and denoising.
constexpr const char* kModel = R"(
model {
  backbone { blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 outputs: [3, 4] }
  transformer {
    hidden_dim: 16 heads: 2 encoder_layers: 1 decoder_layers: 2 ffn_dim: 16 queries: 8 levels: 2 dropout: 0.1
    denoising { queries: 10 }
  }
}
data {
  train { annotations: "shapes7/annotations.json" images: "shapes7/images" }
  val { annotations: "shapes7/annotations.json" images: "shapes7/images" }
  batch_size: 4
  workers: 1
  augment { height: 64 width: 64 scale_min: 0.6 scale_max: 1.2 }
  val_height: 64
  val_width: 64
}
train { max_steps: 6 log_every: 1 ema_decay: 0.9 eval_every_epochs: 3 }
)";

class RankTraining : public testing::Test {
 protected:
  void SetUp() override {
    if (run_script("command -v mpirun").status != 0) GTEST_SKIP() << "mpirun is not installed";
    if (fs::exists(scratch() / "shapes7")) return;
    write_bytes(scratch() / "ranks.textproto", kModel);
    expect_works("data shapes --output shapes7 --images 7 --seed 3 --size 64");
  }
  static Result train(const std::string& output, int processes, const std::string& more = "") {
    return run_ranks(fmt::format(
        "OMP_NUM_THREADS=1 timeout -k 5 60 \"$S\" train --config ranks.textproto --output {} {} {}", output,
        processes > 1 ? fmt::format("--processes {}", processes) : "", more));
  }
  static void expect_trains(const std::string& output, int processes, const std::string& more = "") {
    const Result r = train(output, processes, more);
    EXPECT_EQ(r.status, 0) << r.err << r.out;
  }
  static std::string last_of(const std::string& run) {
    return read_bytes(scratch() / run / "checkpoints/last.safetensors");
  }
  static void expect_same_curves(const std::string& one, const std::string& other, double tolerance,
                                 const std::vector<const char*>& names = {
                                     "loss", "gradient_norm", "class_error", "cardinality_error", "AP"}) {
    for (const char* name : names) {
      const auto a = logged_numbers((scratch() / one).string(), name),
                 b = logged_numbers((scratch() / other).string(), name);
      ASSERT_EQ(a.size(), b.size()) << name;
      ASSERT_FALSE(a.empty()) << name;
      for (size_t i = 0; i < a.size(); ++i)
        EXPECT_NEAR(b[i], a[i], tolerance * std::max(std::fabs(a[i]), 1e-3)) << name << " " << i;
    }
  }
};

TEST_F(RankTraining, EqualsOneProcessAndItselfAndGoesOnWithOtherRanks) {
  expect_trains("one", 1);
  expect_trains("three", 3);
  expect_same_curves("one", "three", 1e-5);
  expect_trains("again", 3);
  EXPECT_EQ(read_bytes(scratch() / "stdout.txt").find('\x1b'), std::string::npos) << "it is no terminal";
  EXPECT_EQ(last_of("again"), last_of("three"));
  expect_trains("stopped", 2, "--max-steps 3");
  expect_trains("stopped", 4, "--resume");
  expect_same_curves("one", "stopped", 1e-4);
}

// Some ranks have no object in their part of a batch, or in all of it.
TEST_F(RankTraining, ImagesWithoutObjectsAreAsInOneProcess) {
  ASSERT_EQ(run_script("mkdir -p empty && sed -E 's/\"image_id\": ?[1-5],/\"image_id\": 6,/' "
                       "shapes7/annotations.json > empty/annotations.json")
                .status,
            0);
  const std::string set =
      "--set data.train.annotations=empty/annotations.json --set train.max_steps=4 --set train.eval_every_epochs=0";
  expect_trains("one_empty", 1, set);
  expect_trains("two_empty", 2, set);
  expect_same_curves("one_empty", "two_empty", 1e-5, {"loss", "gradient_norm", "class_error"});
}

// Each loss divides by something different: objects, the weights of all queries, qualities.
TEST_F(RankTraining, ClassLossesAreThoseOfOneProcess) {
  for (const std::string kind : {"softmax", "varifocal"}) {
    const std::string set = fmt::format(
        "--set criterion.class_loss={} --set train.max_steps=2 --set model.transformer.denoising.queries={}",
        kind, kind == "softmax" ? 0 : 10);
    expect_trains("one_" + kind, 1, set);
    expect_trains("two_" + kind, 2, set);
    expect_same_curves("one_" + kind, "two_" + kind, 1e-5);
  }
}

TEST_F(RankTraining, EveryRankHasAnImageOfEveryBatch) {
  for (const char* set : {"--set data.batch_size=1", "--set data.drop_last=false --set data.batch_size=6"}) {
    const Result r = train("no_image", 2, set);
    EXPECT_EQ(r.status, 2) << r.err;
    EXPECT_NE(r.err.find("data.batch_size: "), std::string::npos) << r.err;
  }
}

// Rank 0 prints the message, whichever rank has read the file.
TEST_F(RankTraining, ImagesThatAnyRankSkipsAreToldOnce) {
  ASSERT_EQ(
      run_script(
          "rm -rf damaged; cp -r shapes7 damaged; for f in damaged/images/*; do head -c 200 $f >damaged.part; "
          "mv damaged.part $f; break; done")
          .status,
      0);
  const Result r =
      train("skipping", 2,
            "--set data.bad_images=skip --set data.train.annotations=damaged/annotations.json --set "
            "data.train.images=damaged/images --set train.eval_every_epochs=0 --set train.max_steps=8");
  EXPECT_EQ(r.status, 0) << r.err;
  const std::string name = "so far: damaged/images/";
  size_t told = 0;
  for (size_t at = r.out.find(name); at != std::string::npos; at = r.out.find(name, at + 1)) ++told;
  EXPECT_EQ(told, 1U) << r.out;
}

TEST_F(RankTraining, TheCommandThatContinuesHasTheFlagsThatTheUserGave) {
  const std::string stop = "--max-steps 1 --set train.eval_every_epochs=0";
  EXPECT_NE(train("to_continue", 2, stop)
                .out.find("to continue: saccade train --output to_continue --resume "
                          "--processes 2\n"),
            std::string::npos);
  EXPECT_NE(train("to_continue", 2, "--resume --max-steps 2 --device cpu")
                .out.find("--resume --processes 2 --device cpu\n"),
            std::string::npos);
}

// The process of rank 1 of the run gets a signal after its first step. Prints the seconds from then to the
// end.
constexpr const char* kSignalRankOne = R"(
OMP_NUM_THREADS=1 SACCADE_RANK_TIMEOUT=5 timeout -k 5 60 "$S" train --config ranks.textproto --output {0} --processes 2 --quiet \
  --set train.max_steps=1000000 --set train.eval_every_epochs=0 &
launcher=$!
for i in $(seq 300); do [ -s {0}/metrics.jsonl ] && break; sleep 0.1; done
for p in $(grep -lz '^OMPI_COMM_WORLD_RANK=1$' /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3); do
  tr '\0' ' ' <"/proc/$p/cmdline" | grep -q -- '--output {0} ' && kill -{1} "$p"
done
signalled=$(date +%s)
wait $launcher
status=$?
echo "ended after $(($(date +%s) - signalled)) s"
exit $status
)";

TEST_F(RankTraining, EndsWhenARankIsKilledOrHangsAndGoesOn) {
  const std::pair<const char*, const char*> cases[] = {{"KILL", "has ended"},
                                                       {"STOP", "has been silent for 5 s"}};
  for (const auto& [signal, words] : cases) {
    const std::string folder = std::string("run_") + signal;
    const Result r = run_ranks(fmt::format(kSignalRankOne, folder, signal));
    EXPECT_EQ(r.status, 1) << r.err;
    const size_t at = r.out.find("ended after ");
    ASSERT_NE(at, std::string::npos) << r.out;
    EXPECT_LT(std::atoi(r.out.c_str() + at + std::strlen("ended after ")), 30);
    EXPECT_NE(r.err.find("error: rank 1 of 2 (process "), std::string::npos) << r.err;
    EXPECT_NE(r.err.find(words), std::string::npos) << r.err;
  }
  expect_trains("run_KILL", 2, "--resume");
}

// As with one process, it trains to its end, and the exit status tells. mpirun itself would end with the
// pipe.
TEST_F(RankTraining, TrainsOnWhenNobodyReadsItsOutput) {
  const std::string command =
      "OMP_NUM_THREADS=1 timeout -k 5 60 \"$S\" train --config ranks.textproto --processes 2 --set train.max_steps=40 "
      "--set train.eval_every_epochs=0 --output ";
  const Result full = run_ranks(command + "to_full >/dev/full");
  EXPECT_EQ(full.status, 1);
  EXPECT_EQ(full.err, "error: cannot write to the standard output: No space left on device\n");
  run_ranks("{ " + command + "to_pipe; echo $? >rc; } | head -n 1");
  EXPECT_EQ(read_bytes(scratch() / "rc"), "1\n");
  EXPECT_EQ(last_of("to_pipe"), last_of("to_full"));
}

// A wrapper may start only one process.
TEST_F(RankTraining, AnMpirunThatStartsTooFewIsRefused) {
  const Result r = run_ranks(
      "mkdir bin; printf '#!/bin/sh\\nshift 2; exec \"$@\"\\n' >bin/mpirun; chmod +x bin/mpirun; "
      "PATH=$PWD/bin:$PATH \"$S\" train --config ranks.textproto --processes 2 --output too_few");
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.err.find("--processes 2: mpirun started a group of 1"), std::string::npos) << r.err;
}

// The script interrupts a run when a file shows that it has come far enough.
constexpr const char* kInterrupt = R"sh(
OMP_NUM_THREADS=1 timeout -k 5 60 "$S" train --config ranks.textproto --output {0} --processes 2 --quiet {1} &
launcher=$(pgrep -P $!)
while [ -z "$launcher" ]; do sleep 0.05; launcher=$(pgrep -P $!); done
for i in $(seq 600); do [ "$(cat {0}/metrics.jsonl 2>/dev/null | wc -l)" -ge {2} ] && break; sleep 0.05; done
{3}
wait $!
status=$?
pgrep -f '^(mpirun [^ ]* [^ ]* )?[^ ]*saccade train .*--output {0} ' >left || true
exit $status
)sh";

TEST_F(RankTraining, CtrlCOnTheLauncherEndsTheRunAfterAStep) {
  const Result r = run_ranks(fmt::format(kInterrupt, "stopped_by_user",
                                         "--set train.max_steps=1000000 --set train.eval_every_epochs=0", 1,
                                         "kill -INT $launcher"));
  EXPECT_EQ(r.status, 130) << r.err;
  EXPECT_EQ(r.err, "");
  EXPECT_EQ(read_bytes(scratch() / "left"), "");
  EXPECT_TRUE(fs::exists(scratch() / "stopped_by_user/checkpoints/last.safetensors"));
}

// Otherwise they would train on with nobody to stop them.
TEST_F(RankTraining, AKilledLauncherTakesItsProcessesAlong) {
  const Result r = run_ranks(fmt::format(
      kInterrupt, "without_launcher", "--set train.max_steps=1000000 --set train.eval_every_epochs=0", 1,
      "kill -KILL $launcher\nfor i in $(seq 300); do pgrep -f '^(mpirun [^ ]* [^ ]* )?[^ ]*saccade train "
      ".*--output without_launcher ' >there || break; sleep 0.1; done"));
  EXPECT_EQ(r.status, 137) << r.err;
  EXPECT_EQ(read_bytes(scratch() / "left"), "");
  EXPECT_TRUE(fs::exists(scratch() / "without_launcher/checkpoints/last.safetensors"));
}

// This works even if the ranks no longer do anything.
TEST_F(RankTraining, ASecondCtrlCEndsAllProcesses) {
  const Result r = run_ranks(fmt::format(
      kInterrupt, "stopped_at_once", "--set train.max_steps=1000000 --set train.eval_every_epochs=0", 1,
      "kill -STOP $(pgrep -f '^[^ ]*saccade train .*--output stopped_at_once ' | grep -vx $launcher); "
      "kill -INT $launcher; sleep 0.5; kill -INT $launcher"));
  EXPECT_EQ(r.status, 130) << r.err;
  EXPECT_EQ(read_bytes(scratch() / "left"), "");
}

// The evaluation is that of the resumed run; images of 3,000 pixels make it last long after the signal, even
// on a slow machine.
TEST_F(RankTraining, ASignalDuringAnEvaluationIsOneOfAllRanks) {
  const std::string set =
      "--set data.batch_size=2 --set data.val_height=3000 --set data.val_width=3000 --set train.max_steps=3 "
      "--set train.eval_every_epochs=1";
  const Result r =
      run_ranks(fmt::format(kInterrupt, "stopped_evaluation", set, 3, "sleep 0.1; kill -INT $launcher"));
  EXPECT_EQ(r.status, 130) << r.err;
  EXPECT_TRUE(logged_numbers((scratch() / "stopped_evaluation").string(), "AP").empty());
  expect_trains("stopped_evaluation", 2,
                "--resume " + set + " --set data.val_height=64 --set data.val_width=64");
  EXPECT_EQ(logged_numbers((scratch() / "stopped_evaluation").string(), "AP").size(), 1U);
}

constexpr const char* kAsRoot =
    "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1\n";

// The file system of rank 0 accepts no checkpoint.
TEST_F(RankTraining, AFullDiskOfTheWriterEndsAllRanks) {
  const Result r = run_ranks(
      std::string(kAsRoot) +
      "T='train --config ranks.textproto --output full --quiet'\n"
      "OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo timeout -k 5 60 mpirun --oversubscribe -n 1 sh -c \"ulimit -f 8; exec \\\"$S\\\" $T\" : "
      "-n 1 \"$S\" $T");
  EXPECT_EQ(r.status, 1) << r.err;
  // mpirun reports the other rank's end, at times before it passes this line on.
  EXPECT_NE(("\n" + r.err).find("\nerror: full/"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("File too large"), std::string::npos) << r.err;
}

TEST_F(RankTraining, RefusesARankWithAnotherConfiguration) {
  const Result r =
      run_ranks(std::string(kAsRoot) +
                "T='train --config ranks.textproto --output unequal --quiet'\n"
                "timeout -k 5 60 mpirun --oversubscribe -n 1 \"$S\" $T : -n 1 \"$S\" $T --set seed=5");
  EXPECT_EQ(r.status, 2) << r.err;
  EXPECT_NE(r.err.find("error: rank 1 has a different configuration from rank 0: seed: "), std::string::npos)
      << r.err;
  EXPECT_FALSE(fs::exists(scratch() / "unequal/checkpoints"));
}

// The message names no rank.
TEST_F(RankTraining, AMistakeOfAllRanksIsOneLine) {
  const Result r = train("mistake", 2, "--set optimizer.learning_rate=-1");
  EXPECT_EQ(r.status, 2) << r.err;
  EXPECT_EQ(r.err.find("error: optimizer.learning_rate: "), 0U) << r.err;
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
}

}  // namespace
}  // namespace saccade
