// The log of what ran on the emulated GPU: kernels, library calls and copies by name. At the end of the
// program the file that SACCADE_EMULATOR_KERNELS names gets a line "LAUNCHES THREADS ACCESSES NAME" for each.
// THREADS and ACCESSES are those of its launch of fewer than kFewThreads threads in which one thread accessed
// memory most often, and how often; 0 0 if there was none. So few threads leave a GPU idle, and each access
// takes hundreds of cycles that nothing hides.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace saccade::emulator {

constexpr uint64_t kFewThreads = 1024;

class LaunchLog {
 public:
  LaunchLog();  // writes at the end of the program
  void add(const std::string& name);
  void add_accesses(const std::string& name, uint64_t threads, uint64_t accesses);
  std::vector<std::string> names() const;

 private:
  struct Launches {
    uint64_t count = 0, threads = 0, accesses = 0;
  };
  static void write();
  std::map<std::string, Launches> launches_;
};

LaunchLog& launch_log();

}  // namespace saccade::emulator
