#include "models/dat/dat_backbone.h"

#include <fmt/ranges.h>

#include <sstream>

#include "models/weights/inference.h"

namespace saccade {

DatOptions read_dat(const Args& args, const DatFamily& family) {
  DatOptions o;
  std::istringstream words(args.get_string("blocks", family.blocks));
  for (std::string word; words >> word;) {
    if (std::ssize(word) > kMaxBlocks)
      fail_input("{}.blocks: a stage of {} blocks, expected at most {}", args.path(), word.size(),
                 kMaxBlocks);
    if (word.find_first_not_of(family.letters) != std::string::npos)
      fail_input("{}.blocks: \"{}\", expected one word per stage, of the letters {}", args.path(),
                 shortened(word), family.meaning);
    o.blocks.push_back(word);
  }
  if (o.blocks.empty() || o.blocks.size() > kMaxStages)
    fail_input("{}.blocks: {} stages, expected 1 to {}", args.path(), o.blocks.size(), kMaxStages);
  auto list = [&](const char* key, const std::vector<int64_t>& fallback, int64_t high = 65536) {
    return read_per_stage(args, key, fallback, std::ssize(o.blocks), high);
  };
  const DatOptions& usual = family.defaults;
  o.dims = list("dims", usual.dims);
  o.heads = list("heads", usual.heads);
  o.groups = list("groups", usual.groups);
  o.kernels = list("kernels", usual.kernels);
  o.strides = list("strides", usual.strides);
  if (!usual.reductions.empty()) o.reductions = list("reductions", usual.reductions, kMaxReduction);
  for (size_t i = 0; i < o.dims.size(); ++i)
    if (o.dims[i] % o.heads[i] != 0)
      fail_input("{}.heads: {} channels do not split into {} heads", args.path(), o.dims[i], o.heads[i]);
  if (family.overlap && o.dims[0] < 2)
    fail_input("{}.dims: 1 channel in stage 1, expected at least 2", args.path());
  o.window = args.get_int("window", usual.window, family.min_window, family.max_window);
  o.image_size = args.get_int("image_size", usual.image_size, 1, 1 << 16);
  o.drop_path = args.get_float("drop_path", 0, 0, 0.999);
  o.attention = args.get_section("attention");
  return o;
}

Args deformable_section(const DatOptions& o, size_t stage, const std::string& variant) {
  Args args = o.attention;
  if (args.get_string("type", kDatAttention) != kDatAttention) return args;
  const int64_t size = std::max<int64_t>(o.image_size / (kDatPatch << stage), 1);
  auto fill_in = [&](const char* key, Args::Value value) {
    if (!args.has(key)) args.set(key, std::move(value));
  };
  if (!variant.empty()) fill_in("variant", variant);
  fill_in("groups", o.groups[stage]);
  fill_in("kernel", o.kernels[stage]);
  fill_in("stride", o.strides[stage]);
  fill_in("size", std::vector<int64_t>{size, size});
  return args;
}

void infer_deformable(Inference& in, const std::string& block, DatOptions& found) {
  const std::string offsets = block + "conv_offset.0.weight", table = block + "rpe_table";
  if (in.has(offsets)) {
    found.groups.back() = found.dims.back() / std::max<int64_t>(in.size(offsets, 0), 1);
    found.kernels.back() = in.size(offsets, 2);
  }
  if (in.has(table)) {
    found.heads.back() = in.size(table, 0);
    found.image_size = ((in.size(table, 1) + 1) / 2 * kDatPatch) << (found.dims.size() - 1);
  }
}

void set_dat(Inference& in, const DatOptions& found) {
  const std::string b = "model.backbone.arg.";
  in.set(b + "blocks", fmt::format("{}", fmt::join(found.blocks, " ")));
  for (const auto& [key, list] :
       {std::pair{"dims", &found.dims}, std::pair{"heads", &found.heads}, std::pair{"groups", &found.groups},
        std::pair{"kernels", &found.kernels}, std::pair{"strides", &found.strides},
        std::pair{"reductions", &found.reductions}})
    if (!list->empty()) in.set(b + key, *list);
  in.set(b + "window", found.window);
  in.set(b + "image_size", found.image_size);
  infer_classes(in, "cls_head.", {.side = found.image_size});
}

}  // namespace saccade
