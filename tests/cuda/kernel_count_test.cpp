// Checks that every kernel of the sources has run on the emulated GPU: the names that the test programs
// appended to the file of SACCADE_EMULATOR_KERNELS (tests/cuda_emulator/launch_log.h) are those in
// core/kernels and core/runtime/cuda. scripts/checked_tests.sh runs this test last.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace saccade {
namespace {

namespace fs = std::filesystem;

// Returns the text without comments; newlines stay, so that lines keep their numbers.
std::string read_code(const fs::path& path) {
  std::ifstream file(path);
  std::string out, line;
  while (std::getline(file, line)) {
    line.resize(std::min(line.size(), line.find("//")));
    out += line + '\n';
  }
  return out;
}

// Returns the kernels that the sources start: "core/kernels/copy/copy.cpp:17" where for_each is called, and
// the names of __global__ functions.
std::set<std::string> kernels_of_sources() {
  std::set<std::string> names;
  const std::regex call(R"((^|[^\w:])for_each\()"),
      global(R"(__global__[^;{(]*?(__launch_bounds__\([^)]*\)+\s*)?(\w+)\()");
  for (const char* folder : {"core/kernels", "core/runtime/cuda"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(SACCADE_SOURCE_DIR) / folder)) {
      if (!entry.is_regular_file()) continue;
      std::string name = fs::relative(entry.path(), SACCADE_SOURCE_DIR).generic_string(),
                  code = read_code(entry.path());
      if (name == "core/runtime/cuda/launch.h") continue;     // the definition of for_each
      if (name.find("_cpu.") != std::string::npos) continue;  // not compiled for the GPU
      for (std::sregex_iterator it(code.begin(), code.end(), call), end; it != end; ++it) {
        auto at = code.begin() + it->position() + it->length(1);
        names.insert(name + ":" + std::to_string(1 + std::count(code.begin(), at, '\n')));
      }
      for (std::sregex_iterator it(code.begin(), code.end(), global), end; it != end; ++it)
        names.insert((*it)[2].str());
    }
  }
  return names;
}

// Returns "../core/kernels/copy/copy.cpp:17" as the sources have it, or "" for the kernels of tests.
std::string known_name(const std::string& launched) {
  if (launched.find(':') == std::string::npos) return launched;
  size_t at = launched.rfind("core/");
  return at == std::string::npos ? "" : launched.substr(at);
}

TEST(KernelCount, EveryKernelOfTheSourcesRan) {
  const char* path = std::getenv("SACCADE_EMULATOR_KERNELS");
  if (!path)
    GTEST_SKIP() << "SACCADE_EMULATOR_KERNELS is not set: scripts/checked_tests.sh collects the kernels";
  std::set<std::string> sources = kernels_of_sources(), ran;
  std::ifstream file(path);
  std::string launched;
  for (int64_t launches = 0, threads = 0, accesses = 0;
       file >> launches >> threads >> accesses && std::getline(file >> std::ws, launched);)
    ran.insert(known_name(launched));
  ASSERT_GT(sources.size(), 50U);
  std::vector<std::string> missing;
  std::set_difference(sources.begin(), sources.end(), ran.begin(), ran.end(), std::back_inserter(missing));
  for (const std::string& name : missing) ADD_FAILURE() << name << " has not run on the emulated GPU";
  std::cout << "kernels in the sources: " << sources.size() << ", ran: " << sources.size() - missing.size()
            << '\n';
}

}  // namespace
}  // namespace saccade
