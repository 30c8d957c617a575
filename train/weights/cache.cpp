#include "train/weights/cache.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "core/files/file.h"
#include "core/files/output_file.h"
#include "core/tensor/error.h"
#include "train/weights/sha256.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

constexpr size_t kSumDigits = 64;

// Returns the extension of the address's file name, such as ".pth".
std::string extension_of(const std::string& url) {
  const std::string path = url.substr(0, url.find_first_of("?#"));
  std::string extension = fs::path(path.substr(path.rfind('/') + 1)).extension().string();
  for (const char* known : {".pth", ".pt", ".bin", ".safetensors"})
    if (extension == known) return extension;
  return ".pth";
}

}  // namespace

std::string weights_folder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  fs::path folder;
  const char* used = "SACCADE_CACHE";
  if (const std::string own = variable(used); !own.empty()) {
    folder = own;
  } else if (const std::string cache = variable(used = "XDG_CACHE_HOME"); fs::path(cache).is_absolute()) {
    folder = fs::path(cache) / "saccade";  // XDG ignores paths that are not absolute
  } else {
    const std::string home = variable(used = "HOME");
    if (home.empty())
      fail_input("no folder for weights: HOME is not set, expected SACCADE_CACHE with the path of a folder");
    folder = fs::path(home) / ".cache" / "saccade";
  }
  if (!folder.is_absolute())
    fail_input("{}: \"{}\", expected the absolute path of a folder", used, folder.string());
  return (folder / "weights").string();
}

CachedWeights::CachedWeights(const PublishedWeights& weights)
    : weights_(weights), path_(weights_folder() + "/" + weights.name() + extension_of(weights.url())) {}

bool CachedWeights::is_there() const { return saccade::is_there(path_); }

std::string CachedWeights::recorded_sum() const {
  std::error_code error;
  if (!fs::exists(sum_path(), error)) return "";
  std::string sum = read_text(sum_path(), kTextFile).substr(0, kSumDigits);
  if (sum.size() != kSumDigits || sum.find_first_not_of("0123456789abcdef") != std::string::npos)
    fail_input("{}: holds no SHA-256 checksum; remove it, and the next fetch writes it again", sum_path());
  return sum;
}

void CachedWeights::record_sum(const std::string& sum) const {
  OutputFile file(sum_path(), OutputFile::Sync::kYes);
  const std::string text = fmt::format("{}  {}\n", sum, fs::path(path_).filename().string());
  file.write(text.data(), text.size());
  file.commit();
}

std::string CachedWeights::sum_fault(const std::string& sum) const {
  if (!sum.starts_with(weights_.sha256()))
    return fmt::format("its SHA-256 is {}, expected {}{}", sum, weights_.sha256(),
                       weights_.sha256().size() < kSumDigits ? "..." : "");
  if (const std::string first = recorded_sum(); !first.empty() && first != sum)
    return fmt::format("its SHA-256 is {}, but was {} at the first fetch ({})", sum, first, sum_path());
  return "";
}

CachedWeights::State CachedWeights::check(std::string& sum) const {
  if (!is_there()) return State::kMissing;
  sum = sha256_of_file(path_);
  if (!sum_fault(sum).empty()) return State::kDamaged;
  if (!recorded_sum().empty()) return State::kRight;
  const bool known = weights_.has_sha256();
  try {
    record_sum(sum);
  } catch (const Error&) {  // another user's folder
    return known ? State::kRight : State::kUnknown;
  }
  return known ? State::kRight : State::kLearnt;
}

}  // namespace saccade
