// saccade convert: rewrites a weight file in our form. Only the values matter to the result: the same tensors
// always give the same bytes.
#include <fmt/format.h>

#include <filesystem>

#include "core/error.h"
#include "train/commands/commands.h"
#include "train/output_file.h"
#include "train/safetensors.h"

namespace saccade {

int run_convert(const ConvertArguments& arguments) {
  check_output_file(arguments.output);
  namespace fs = std::filesystem;
  constexpr const char* kSupported = "expected a safetensors file (*.safetensors); no other format is read";
  std::string extension = fs::path(arguments.input).extension().string();
  if (fs::path(arguments.output).extension() != ".safetensors")
    fail_input("{}: the output is a safetensors file, expected a name that ends in .safetensors",
               arguments.output);
  if (!fs::is_regular_file(arguments.input)) fail_input("{}: no such file, {}", arguments.input, kSupported);
  if (extension != ".safetensors")
    fail_input("{}: the format \"{}\" is not known, {}", arguments.input, extension, kSupported);
  std::error_code ignored;
  if (fs::equivalent(arguments.input, arguments.output, ignored))
    fail_input("{}: is the input itself, expected another name", arguments.output);
  SafetensorsReader reader(arguments.input);
  NamedValues tensors;
  int64_t values = 0;
  for (const WeightEntry& entry : reader.entries()) {
    tensors.emplace_back(entry.name, reader.read(entry.name));
    values += tensors.back().second.numel();
  }
  write_safetensors(arguments.output, tensors, reader.metadata());
  fmt::print("{}: {} tensors with {} values\n", arguments.output, tensors.size(), values);
  return 0;
}

}  // namespace saccade
