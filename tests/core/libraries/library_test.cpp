// Tests libraries that are opened when they are needed, and the search for NVIDIA's, on files that always
// exist.
#include "core/runtime/cuda/libraries/library.h"

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include "core/tensor/error.h"
#include "tests/test_folder.h"

namespace saccade {
namespace {

using cuda::Library;

constexpr const char* kVariable = "SACCADE_CUDA_LIBRARY_PATH";

class LibrarySearch : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = make_folder("saccade_library");
    setenv(kVariable, folder_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv(kVariable);
    std::filesystem::remove_all(folder_);
  }
  static std::string error_of(const std::function<void()>& action) {
    try {
      action();
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }
  static void expect_parts(const std::string& text, std::initializer_list<const char*> parts) {
    for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  }
  // Copies a library that always exists into our folder, under a name that only this folder has.
  std::string place(const std::string& name) {
    Dl_info info;
    EXPECT_NE(dladdr(reinterpret_cast<void*>(static_cast<double (*)(double)>(&std::cbrt)), &info), 0);
    std::filesystem::copy_file(info.dli_fname, folder_ + "/" + name);
    return folder_ + "/" + name;
  }

  std::string folder_;
};

TEST_F(LibrarySearch, SaysInOneLineWhatIsMissing) {
  std::string text = error_of([] { Library({"cuNothing", "libcunothing.so.7", "nvidia-cunothing"}); });
  expect_parts(text,
               {"cuNothing is missing: no libcunothing.so.7 in ", folder_.c_str(), "/usr/local/cuda*/lib64",
                "/usr/lib/python3*/*-packages/nvidia/*/lib", "pip install nvidia-cunothing", kVariable});
}

TEST_F(LibrarySearch, TakesTheVariablesFolderFirst) {
  std::string path = place("libm.so.6");
  Library library({"maths", "libm.so.6", "none"});
  EXPECT_EQ(library.path(), path);
  EXPECT_EQ(library.symbol<double(double)>("cbrt")(8.0), 2.0);
}

TEST_F(LibrarySearch, AsksTheLoaderNext) {
  Library library({"maths", "libm.so.6", "none"});
  EXPECT_EQ(library.path(), "libm.so.6");
}

TEST_F(LibrarySearch, FindsWhatPythonEnvironmentsHold) {
  const std::string packages = "/lib/python3.12/site-packages/nvidia/cu13/lib";
  for (const auto& [variable, inside] : {std::pair<const char*, std::string>{"VIRTUAL_ENV", packages},
                                         {"CONDA_PREFIX", packages},
                                         {"CONDA_PREFIX", "/lib"}}) {
    const std::string environment = folder_ + "/environment", to = environment + inside + "/libours.so.1";
    std::filesystem::create_directories(environment + inside);
    std::filesystem::rename(place("libours.so.1"), to);
    setenv(variable, environment.c_str(), 1);
    EXPECT_EQ(Library({"ours", "libours.so.1", "none"}).path(), to);
    unsetenv(variable);
    std::filesystem::remove_all(environment);
  }
}

TEST_F(LibrarySearch, NamesThePackageOfTheRelease) {
  EXPECT_EQ(cuda::pip_package("nvidia-cublas", 12), "nvidia-cublas-cu12");
  EXPECT_EQ(cuda::pip_package("nvidia-cublas", 13), "nvidia-cublas");
  EXPECT_EQ(cuda::pip_package("nvidia-cudnn", 12), "nvidia-cudnn-cu12");
  EXPECT_EQ(cuda::pip_package("nvidia-nccl", 13), "nvidia-nccl-cu13");
}

TEST_F(LibrarySearch, SaysWhyAFileCannotBeLoaded) {
  std::ofstream(folder_ + "/libours.so.1") << "not a library";
  expect_parts(error_of([] {
                 Library({"ours", "libours.so.1", "none"});
               }),
               {"ours cannot be loaded: ", folder_.c_str()});
}

TEST_F(LibrarySearch, SaysWhichSymbolIsMissing) {
  Library library({"maths", "libm.so.6", "none"});
  expect_parts(error_of([&] { library.symbol<int()>("cublasLtNothing"); }),
               {"maths (libm.so.6) has no cublasLtNothing"});
}

TEST_F(LibrarySearch, RefusesAnOldVersion) {
  Library library({"maths", "libm.so.6", "none"});
  library.require_version(true, "2.1", "2.0");
  expect_parts(error_of([&] { library.require_version(false, "1.9", "2.0"); }),
               {"maths (libm.so.6) is version 1.9, this program needs 2.0 or newer"});
}

TEST_F(LibrarySearch, NamesDebiansPackage) {
  EXPECT_EQ(OpenedLibrary("maths", "libm.so.6", "libc6").symbol<double(double)>("cbrt")(8.0), 2.0);
  expect_parts(error_of([] { OpenedLibrary("nothing", "libnothing.so.7", "libnothing7"); }),
               {"nothing cannot be opened: libnothing.so.7: ", "(apt install libnothing7)"});
  expect_parts(error_of([] { OpenedLibrary("maths", "libm.so.6", "libc6").symbol<int()>("no_such_sum"); }),
               {"maths (libm.so.6) has no no_such_sum: it is older"});
}

}  // namespace
}  // namespace saccade
