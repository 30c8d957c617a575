// Tests which launcher's variables tell a process its rank.
#include "core/distributed/ranks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "tests/input_error.h"

namespace saccade {
namespace {

using Variables = std::map<std::string, std::string>;

Ranks found(const Variables& variables, const RankFlags& flags = {}) {
  return find_ranks(flags, [&](const char* name) {
    const auto at = variables.find(name);
    return at == variables.end() ? nullptr : at->second.c_str();
  });
}

const Variables kOpenMpi{{"OMPI_COMM_WORLD_RANK", "5"},
                         {"OMPI_COMM_WORLD_SIZE", "8"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
const Variables kTorchrun{{"RANK", "3"},
                          {"WORLD_SIZE", "4"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "node7"},
                          {"MASTER_PORT", "29500"}};

TEST(Ranks, AreTakenFromTheFirstLauncherThatSaysThem) {
  Variables slurm{
      {"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "6"}, {"SLURM_LOCALID", "0"}, {"SLURM_NNODES", "3"}};
  Variables both = kTorchrun;
  both.insert(kOpenMpi.begin(), kOpenMpi.end());
  EXPECT_EQ(found({}).to_string(), "one process");
  EXPECT_EQ(found(slurm).size, 1);  // a script of sbatch
  slurm["SLURM_STEP_ID"] = "0";
  EXPECT_EQ(found(slurm).to_string(), "rank 2 of 6 (local rank 0), according to Slurm");
  EXPECT_EQ(found(slurm).local_size, 2);
  EXPECT_EQ(found({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}).to_string(),
            "rank 1 of 2 (local rank 1), according to PMI");
  EXPECT_EQ(found(kTorchrun).to_string(), "rank 3 of 4 (local rank 1), according to torchrun");
  EXPECT_EQ(found(kTorchrun).host, "node7");
  EXPECT_EQ(found(kTorchrun).port, 29500);
  EXPECT_EQ(found(both).to_string(), "rank 5 of 8 (local rank 1), according to Open MPI");
  EXPECT_EQ(found(both, {.rank = 0, .size = 2, .master = "a:1"}).to_string(),
            "rank 0 of 2 (local rank 0), according to the command line");
}

TEST(Ranks, KnowWhereRankZeroListensAndHowManyAreHere) {
  for (const auto& [nodes, first] : {std::pair("gpu[03-07,11],big1", "gpu03"), std::pair("big1,big2", "big1"),
                                     std::pair("solo", "solo")}) {
    const Ranks r = found({{"SLURM_PROCID", "2"},
                           {"SLURM_NTASKS", "6"},
                           {"SLURM_NNODES", "3"},
                           {"SLURM_STEP_ID", "0"},
                           {"SLURM_JOB_ID", "77"},
                           {"SLURM_STEP_NODELIST", nodes}});
    EXPECT_EQ(r.host, first);
    EXPECT_GE(r.port, 20000);
    EXPECT_EQ(r.local_size, 2);
  }
  EXPECT_EQ(found({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}).local_size, 0);  // nobody says
  EXPECT_EQ(found({}, {.rank = 0, .size = 2, .master = "node7:1234"}).local_size, 0);
  EXPECT_EQ(found({}, {.rank = 0, .size = 2, .master = "localhost:1234"}).local_size, 2);
}

// With srun torchrun, mpirun torchrun: torchrun's agent sets one more variable than a script imitating it.
TEST(Ranks, AreThoseOfTheInnerLauncher) {
  Variables inner = kTorchrun;
  inner.insert(kOpenMpi.begin(), kOpenMpi.end());
  inner.insert({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}, {"SLURM_STEP_ID", "0"}});
  inner["TORCHELASTIC_RUN_ID"] = "";  // as --processes leaves it for mpirun
  EXPECT_EQ(found(inner).to_string(), "rank 5 of 8 (local rank 1), according to Open MPI");
  inner["TORCHELASTIC_RUN_ID"] = "none";
  EXPECT_EQ(found(inner).to_string(), "rank 3 of 4 (local rank 1), according to torchrun");
  EXPECT_EQ(found(inner).port, 29500);
  inner["TORCHELASTIC_USE_AGENT_STORE"] = "True";  // the agent listens there
  EXPECT_EQ(found(inner).port, 29501);
  inner["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  EXPECT_EQ(found(inner).port, 29500);
  EXPECT_EQ(found(inner, {.master = "a:7"}).port, 7);
  EXPECT_EQ(found(inner, {.local_rank = 0}).local_rank, 0);
}

TEST(Ranks, OfTwoStepsOfAJobDoNotMeet) {
  Variables step{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"},           {"SLURM_NNODES", "1"},
                 {"SLURM_JOB_ID", "7"}, {"SLURM_STEP_NODELIST", "solo"}, {"SLURM_STEP_ID", "0"}};
  const Ranks first = found(step);
  step["SLURM_STEP_ID"] = "1";
  const Ranks second = found(step);
  EXPECT_NE(first.port, second.port);
  EXPECT_NE(first.job, second.job);
  for (const Ranks& r : {first, second}) EXPECT_LT(r.port, 32768);
}

TEST(Ranks, WarnOfALauncherThatSaysOnlyHalf) {
  for (const auto& [set, unset, name] : {std::tuple{"RANK", "WORLD_SIZE", "torchrun"},
                                         {"WORLD_SIZE", "RANK", "torchrun"},
                                         {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "Open MPI"},
                                         {"PMI_SIZE", "PMI_RANK", "PMI"}}) {
    const Ranks alone = found({{set, "1"}});
    EXPECT_EQ(alone.to_string(), "one process");
    EXPECT_EQ(alone.warning, fmt::format("warning: {} is set, but {} ({}) is not: this process trains alone",
                                         set, unset, name));
    // Another launcher, or the command line, says everything.
    EXPECT_EQ(
        found({{set, "1"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_STEP_ID", "0"}}).warning,
        "");
    EXPECT_EQ(found({{set, "1"}}, {.rank = 0, .size = 2}).warning, "");
  }
  EXPECT_EQ(found({}).warning, "");
  EXPECT_EQ(found({{"SLURM_PROCID", "0"}}).warning, "");  // not within srun
  EXPECT_EQ(found({{"MASTER_ADDR", "a"}, {"LOCAL_RANK", "0"}}).warning, "");
}

TEST(Ranks, RefuseWhatMakesNoSense) {
  EXPECT_THROW(found({}, {.rank = 1}), InputError);
  EXPECT_THROW(found({}, {.rank = 2, .size = 2}), InputError);
  EXPECT_THROW(found({{"RANK", "x"}, {"WORLD_SIZE", "2"}}), InputError);
  EXPECT_THROW(found({}, {.rank = 0, .size = 2, .master = "host"}), InputError);
  EXPECT_THROW(found({}, {.local_rank = 0}), InputError);
  EXPECT_THROW(found({}, {.master = "node7:1234"}), InputError);
}

}  // namespace
}  // namespace saccade
