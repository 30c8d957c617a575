#include "models/weights/weight_names.h"

#include <string_view>

namespace saccade {

namespace {

// Each name ends with a semicolon.
constexpr std::string_view kNames =
#include "models/weights/imagenet_names.txt.inc"
    ;

}  // namespace

const std::vector<std::string>& imagenet_class_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (size_t begin = 0, end; (end = kNames.find(';', begin)) != std::string_view::npos; begin = end + 1) {
      begin = kNames.find_first_not_of(" \n", begin);
      out.emplace_back(kNames.substr(begin, end - begin));
    }
    return out;
  }();
  return names;
}

}  // namespace saccade
