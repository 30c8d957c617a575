#include "core/runtime/cuda/libraries/library.h"

#include <glob.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <set>
#include <sstream>
#include <vector>

#include "core/tensor/error.h"

namespace saccade::cuda {
namespace {

namespace fs = std::filesystem;

constexpr const char *kVariable = "SACCADE_CUDA_LIBRARY_PATH", *kConda = "CONDA_PREFIX";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream stream(list);
  for (std::string part; std::getline(stream, part, ':');)
    if (!part.empty()) parts.push_back(part);
  return parts;
}

// Returns folders that may hold Python packages: those of the active environment, of the `python3` that a
// shell would start (and of its target if it is a link), and the usual ones.
std::vector<std::string> python_prefixes() {
  std::vector<std::string> prefixes;
  for (const char* name : {"VIRTUAL_ENV", kConda})
    if (std::string active = variable(name); !active.empty()) prefixes.push_back(active);
  for (const std::string& folder : split(variable("PATH"))) {
    std::error_code error;
    fs::path python = fs::path(folder) / "python3";
    fs::path target = fs::canonical(python, error);
    if (error) continue;
    prefixes.push_back(python.parent_path().parent_path());
    prefixes.push_back(target.parent_path().parent_path());
    break;
  }
  prefixes.insert(prefixes.end(), {"/opt/*/.venv", "/usr/local", "/usr"});
  return prefixes;
}

// Returns where the file may be besides the loader's own folders, as patterns that may contain `*`.
std::vector<std::string> patterns() {
  std::vector<std::string> folders;
  if (std::string conda = variable(kConda); !conda.empty()) folders.push_back(conda + "/lib");
  folders.insert(folders.end(),
                 {"/usr/local/cuda*/lib64", "/usr/local/cuda*/lib", "/usr/lib/x86_64-linux-gnu"});
  for (const std::string& prefix : python_prefixes()) {
    std::string packages = prefix + "/lib/python3*/*-packages/nvidia/*/lib";  // site or dist
    if (std::find(folders.begin(), folders.end(), packages) == folders.end()) folders.push_back(packages);
  }
  return folders;
}

std::vector<std::string> matches(const std::string& pattern) {
  glob_t found = {};
  std::vector<std::string> paths;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return paths;
}

}  // namespace

std::string pip_package(std::string_view name, int cuda_major) {
  if (cuda_major >= 13 && name == "nvidia-cublas") return std::string(name);
  return fmt::format("{}-cu{}", name, cuda_major);
}

Library::Library(const LibraryName& wanted) : wanted_(wanted) {
  std::string problem;  // why the first file that exists cannot be loaded
  auto try_folder = [&](const std::string& folder) {
    for (const std::string& path : matches(folder + "/" + wanted.file)) {
      if (opened_) return;
      std::string reason;
      opened_ = OpenedLibrary::open(wanted.name, path, reason);
      if (problem.empty()) problem = reason;
    }
  };
  const std::vector<std::string> own = split(variable(kVariable)), usual = patterns();
  for (const std::string& folder : own) try_folder(folder);
  std::string not_found;
  if (!opened_) opened_ = OpenedLibrary::open(wanted.name, wanted.file, not_found);
  for (const std::string& folder : usual) try_folder(folder);
  if (opened_) return;
  if (!problem.empty()) fail("{} cannot be loaded: {}", wanted.name, problem);
  std::string looked = own.empty() ? "" : fmt::format("{} (${}), ", fmt::join(own, ", "), kVariable);
  fail(
      "{} is missing: no {} in {}the loader's folders, {}; install it (pip install {}) or name its folder "
      "in the environment variable {}",
      wanted.name, wanted.file, looked, fmt::join(usual, ", "), wanted.package, kVariable);
}

void Library::require_version(bool new_enough, const std::string& found, const std::string& oldest) const {
  if (!new_enough)
    fail(
        "{} ({}) is version {}, this program needs {} or newer: update it (pip install --upgrade {}) or "
        "name the folder of a newer one in the environment variable {}",
        wanted_.name, path(), found, oldest, wanted_.package, kVariable);
}

void note_slow_path(const std::string& what) {
  constexpr size_t kMaxLines = 100;  // limits the output if shapes change from step to step
  static std::mutex mutex;
  static auto* noted = new std::set<std::string>;  // never destroyed, like the plans
  std::lock_guard lock(mutex);
  if (noted->size() < kMaxLines && noted->insert(what).second)
    std::fprintf(stderr, "saccade: no library supports this, so a slow kernel is used: %s\n", what.c_str());
}

}  // namespace saccade::cuda
