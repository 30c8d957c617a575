#include "models/weights/weight_names.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/tensor/error.h"
#include "models/weights/weight_naming.h"

namespace saccade {
namespace {

// Wrappers that put one prefix before every name.
constexpr const char* kWrappers[] = {"module.", "model.", "_orig_mod.", "net.", "detector.", "online_model."};
// The prefixes of averaged weights.
constexpr const char* kAverages[] = {"ema_model.", "model_ema.", "ema."};
// The box model inside DETR's segmentation model.
constexpr std::string_view kInnerDetr = "detr.";

constexpr const char* kIgnored[] = {
    "num_batches_tracked", "total_ops",   "total_params", "relative_position_index",
    "attn_mask",           "anchors",     "valid_mask",   "num_points_scale",
    "n_points_scale",      "empty_weight"};  // the last is of DETR's loss

bool ends_as_ignored(const std::string& name) {
  std::string_view last = std::string_view(name).substr(name.rfind('.') + 1);
  return std::find(std::begin(kIgnored), std::end(kIgnored), last) != std::end(kIgnored);
}

std::optional<std::string> renamed(const WeightRule& rule, std::string_view name) {
  std::vector<std::string_view> stars;
  for (std::string_view from = rule.from; !from.empty();) {
    if (from[0] == '*') {
      size_t length = std::min(name.find('.'), name.size());
      stars.push_back(name.substr(0, length));
      name.remove_prefix(length);
    } else {
      if (name.empty() || name[0] != from[0]) return std::nullopt;
      name.remove_prefix(1);
    }
    from.remove_prefix(1);
  }
  std::string out;
  size_t next = 0;
  for (std::string_view to = rule.to; !to.empty(); to.remove_prefix(1)) {
    if (to[0] != '*' && to[0] != '+' && to[0] != '-') {
      out += to[0];
      continue;
    }
    std::string_view star = stars[next++];
    int64_t number = 0;
    if (to[0] == '*') {
      out += star;
    } else {
      auto [end, error] = std::from_chars(star.data(), star.data() + star.size(), number);
      if (error != std::errc() || end != star.data() + star.size() || number > 1000) return std::nullopt;
      out += std::to_string(to[0] == '+' ? number + 1 : number - 1);
    }
  }
  return out + std::string(name);
}

struct Translated {
  std::string name;
  int part = -1, parts = 3;
  bool is_unfolded = false;
};

std::optional<Translated> translate(std::string_view name, const WeightNaming& naming) {
  for (const WeightRule& rule : naming.rules)
    if (std::optional<std::string> to = renamed(rule, name))
      return Translated{*to, rule.part, rule.parts, rule.is_unfolded};
  return std::nullopt;
}

Translated official_name(std::string_view name, const WeightNaming* naming) {
  if (!naming) return {std::string(name)};
  if (name.starts_with(naming->prefix)) name.remove_prefix(naming->prefix.size());
  Translated to = translate(name, *naming).value_or(Translated{std::string(name)});
  if (naming->scope != WeightNaming::kDetector) return to;
  const std::string place = to.name.starts_with(kOfficialBackbone) ? kOfficialBackbone : kPlainBackbone;
  if (!to.name.starts_with(place)) return to;
  for (const auto& [other, backbone] : weight_namings().all()) {
    if (backbone.scope != WeightNaming::kBackboneInDetectors) continue;
    std::string_view inner = std::string_view(to.name).substr(place.size());
    if (inner.starts_with(backbone.prefix)) inner.remove_prefix(backbone.prefix.size());
    if (auto mapped = translate(inner, backbone))
      return {place + mapped->name, mapped->part, mapped->parts, mapped->is_unfolded};
  }
  return to;
}

const WeightNaming* find_naming(const WeightsFile& file) {
  const WeightNaming *best = nullptr, *recognised = nullptr;
  std::pair<bool, size_t> rank;  // of a detector, length of the marker
  for (const auto& [name, naming] : weight_namings().all()) {
    if (naming.recognise && naming.recognise(file)) recognised = &naming;
    for (const std::string& marker : naming.markers) {
      const std::pair other(naming.scope == WeightNaming::kDetector, marker.size());
      if (other <= rank || std::ranges::none_of(file.entries(), [&](const WeightEntry& e) {
            return e.name.find(marker) != std::string::npos;
          }))
        continue;
      rank = other;
      best = &naming;
    }
  }
  return best ? best : recognised;
}

struct ChosenEntries {
  std::vector<WeightEntry> entries;
  std::string wrapper = {}, note = {};
};

std::string_view without_wrappers(std::string_view name) {
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view wrapper : kWrappers)
      if (name.starts_with(wrapper)) {
        name.remove_prefix(wrapper.size());
        again = true;
      }
  }
  return name;
}

// Chooses the averages if a file holds weights and averages of all of them; likewise in containers with an
// entry for each ("ema.module").
ChosenEntries choose_entries(const WeightsFile& file) {
  const bool is_ours = file.metadata().contains("saccade.config");  // ours name their averages themselves
  for (const std::string_view prefix : kAverages) {
    std::vector<WeightEntry> averages, others;
    for (const WeightEntry& e : file.entries()) (e.name.starts_with(prefix) ? averages : others).push_back(e);
    if (is_ours || averages.empty() || others.empty()) continue;
    std::set<std::string_view> averaged, wrappers;
    for (const WeightEntry& e : averages)
      averaged.insert(without_wrappers(std::string_view(e.name).substr(prefix.size())));
    const auto is_averaged = [&](const WeightEntry& e) {
      return averaged.contains(without_wrappers(e.name));
    };
    const auto first_part = [](const WeightEntry& e) {
      return std::string_view(e.name).substr(0, e.name.find('.'));
    };
    for (const WeightEntry& e : others)
      if (is_averaged(e)) wrappers.insert(first_part(e));
    if (wrappers.empty()) continue;
    const bool are_all = std::ranges::all_of(others, [&](const WeightEntry& e) {
      return ends_as_ignored(e.name) || is_averaged(e) || !wrappers.contains(first_part(e));
    });
    const std::string counts = fmt::format("\"{}\" ({} tensors)", prefix, averages.size()),
                      rest = fmt::format("\"{}\" ({})", printable(others[0].name), others.size());
    if (are_all)
      return {
          std::move(averages), std::string(prefix),
          fmt::format(
              "it holds weights and their averages: the averages are used, {}; the others, starting with {}, "
              "are left out",
              counts, rest)};
    return {std::move(others), "",
            fmt::format(
                "it holds weights and averages of some of them: the averages, {}, are left out; the others, "
                "starting with {}, are used",
                counts, rest)};
  }
  return {{file.entries().begin(), file.entries().end()}};
}

// Returns "module." and the like if all names have it (ignored names may lack it). Hugging Face's own
// "model." does not count, since a detector's markers start at the beginning of a name.
std::string wrappers_of(const ChosenEntries& file, const WeightNaming* naming) {
  std::string prefix = file.wrapper;
  const auto any_begins = [&](const std::string& text) {
    return std::ranges::any_of(file.entries, [&](const WeightEntry& e) { return e.name.starts_with(text); });
  };
  const auto is_bare = [&] {
    return naming && naming->scope == WeightNaming::kDetector &&
           std::ranges::any_of(naming->markers,
                               [&](const std::string& marker) { return any_begins(prefix + marker); });
  };
  for (bool again = true; again && !is_bare();) {
    again = false;
    for (const char* wrapper : kWrappers) {
      const std::string longer = prefix + wrapper;
      if (!any_begins(longer) || std::ranges::any_of(file.entries, [&](const WeightEntry& e) {
            return !e.name.starts_with(longer) && !ends_as_ignored(e.name);
          }))
        continue;
      prefix = longer;
      again = true;
      break;
    }
  }
  return prefix;
}

bool equal(const WeightsFile& file, const NamedWeight& a, const WeightEntry& b) {
  if (a.shape != b.shape) return false;
  Tensor x = read_weight(file, a), y = file.read(b.name);
  return x.dtype() == y.dtype() && std::memcmp(x.raw(), y.raw(), x.bytes()) == 0;
}

}  // namespace

WeightRules weight_rules(const std::vector<std::pair<std::string, std::string>>& rules, WeightRules shared) {
  WeightRules out;
  std::function<void(const WeightRule&)> expand = [&](const WeightRule& rule) {
    const size_t open = rule.from.find_first_of("(["), close = rule.from.find_first_of(")]");
    if (open == std::string::npos) return out.push_back(rule);
    const std::string choices = rule.from.substr(open + 1, close - open - 1) + "|";
    const auto count = static_cast<int>(std::ranges::count(choices, '|'));
    int part = 0;
    for (size_t begin = 0, end; (end = choices.find('|', begin)) != std::string::npos;
         begin = end + 1, ++part)
      expand({rule.from.substr(0, open) + choices.substr(begin, end - begin) + rule.from.substr(close + 1),
              rule.to, rule.from[open] == '[' ? part : rule.part,
              rule.from[open] == '[' ? count : rule.parts});
  };
  for (const auto& [from, to] : rules) expand({from, to});
  out.insert(out.end(), shared.begin(), shared.end());
  return out;
}

WeightRules vision_block_rules(const std::string& from, const std::string& to) {
  return weight_rules({{from + "attention.(attention|self).[query|key|value].", to + "attn.qkv."},
                       {from + "attention.[q|k|v]_proj.", to + "attn.qkv."},
                       {from + "attention.(output.dense|o_proj).", to + "attn.proj."},
                       {from + "(intermediate.dense|mlp.fc1).", to + "mlp.fc1."},
                       {from + "(output.dense|mlp.fc2).", to + "mlp.fc2."},
                       {from + "layernorm_before.", to + "norm1."},
                       {from + "layernorm_after.", to + "norm2."}});
}

WeightRules torchvision_pyramid_rules() {
  return weight_rules({{"backbone.body.", "backbone."},
                       {"backbone.fpn.inner_blocks.(*.0|*).", "neck.lateral_convs.*.conv."},
                       {"backbone.fpn.layer_blocks.(*.0|*).", "neck.fpn_convs.*.conv."}});
}

const NamedWeight* OfficialWeights::find(const std::string& name) const {
  for (const NamedWeight& w : tensors)
    if (w.name == name) return &w;
  return nullptr;
}

namespace {

OfficialWeights weights_under(const WeightNaming* naming, const WeightsFile& file) {
  const ChosenEntries chosen = choose_entries(file);
  const std::string wrapper = wrappers_of(chosen, naming);
  OfficialWeights out;
  out.chosen = chosen.note;
  out.naming = naming ? naming->name : "official";
  std::map<std::string, size_t> index;
  struct Fused {
    std::map<int, const WeightEntry*> parts;
    size_t wanted = 0;
  };
  std::map<std::string, Fused> fused;
  for (const WeightEntry& e : chosen.entries) {
    if (ends_as_ignored(e.name)) {
      out.ignored.push_back(e.name);
      continue;
    }
    std::string_view name = std::string_view(e.name).substr(wrapper.size());
    if (naming && std::ranges::any_of(naming->unused, [&](const auto& u) { return name.starts_with(u); })) {
      out.ignored.push_back(e.name);
      continue;
    }
    if (name.starts_with(kInnerDetr)) name.remove_prefix(kInnerDetr.size());
    Translated t = official_name(name, naming);
    if (t.part < 0 || fused[t.name].parts.empty()) {
      const auto [at, is_new] = index.emplace(t.name, out.tensors.size());
      if (!is_new && naming && naming->has_copies && equal(file, out.tensors[at->second], e)) {
        out.ignored.push_back(e.name);
        continue;
      }
      if (!is_new)
        fail_input("{}: two tensors are \"{}\" under its official name, the second is \"{}\"", file.path(),
                   printable(t.name), printable(e.name));
      out.tensors.push_back({t.name, e.shape, {e.name}, t.is_unfolded});
    }
    if (t.part >= 0) {
      fused[t.name].parts[t.part] = &e;
      fused[t.name].wanted = static_cast<size_t>(t.parts);
    }
  }
  for (const auto& [name, both] : fused) {
    const auto& parts = both.parts;
    if (parts.empty()) continue;
    NamedWeight& w = out.tensors[index.at(name)];
    if (parts.size() != both.wanted)
      fail_input("{}: \"{}\" needs {}key and value, but has only {} of them (\"{}\")", file.path(),
                 printable(name), both.wanted == 3 ? "query, " : "", parts.size(), printable(w.parts[0]));
    w.parts.clear();
    w.shape = parts.at(0)->shape;
    for (const auto& [part, e] : parts) {
      if (e->shape.rank() == 0 || e->shape != w.shape || e->dtype != parts.at(0)->dtype)
        fail_input("{}: \"{}\" is {} {}, but {} is {} {}", file.path(), printable(e->name), e->dtype,
                   e->shape.to_string(), both.wanted == 3 ? "query" : "key", parts.at(0)->dtype,
                   w.shape.to_string());
      w.parts.push_back(e->name);
    }
    w.shape[0] *= static_cast<int64_t>(both.wanted);
  }
  return out;
}

}  // namespace

OfficialWeights official_weights(const WeightsFile& file) { return weights_under(find_naming(file), file); }

OfficialWeights official_weights(const WeightsFile& file, const std::string& naming) {
  return weights_under(naming.empty() ? nullptr : &weight_namings().find(naming), file);
}

namespace {

// Reorders the axis of patches of 2 x 2: torch.nn.Unfold has the places of each channel row by row, Swin has
// the channels of each place, column by column.
Tensor folded(const Tensor& unfolded) {
  const int axis = unfolded.shape().rank() - 1;
  const int64_t channels = unfolded.dim(axis) / 4;
  Tensor out = Tensor::empty(unfolded.shape(), unfolded.dtype());
  constexpr int64_t kPlaces[] = {0, 2, 1, 3};
  for (int64_t place = 0; place < 4; ++place)
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t from = 4 * c + kPlaces[place], to = place * channels + c;
      out.slice(axis, to, to + 1).copy_from(unfolded.slice(axis, from, from + 1));
    }
  return out;
}

}  // namespace

Tensor read_weight(const WeightsFile& file, const NamedWeight& weight) {
  if (weight.is_unfolded && weight.shape.rank() > 0 && weight.shape[weight.shape.rank() - 1] % 4 == 0)
    return folded(file.read(weight.parts[0]));
  if (weight.parts.size() == 1) return file.read(weight.parts[0]);
  Tensor first = file.read(weight.parts[0]);
  Tensor out = Tensor::empty(weight.shape, first.dtype());
  int64_t rows = first.dim(0);
  for (size_t i = 0; i < weight.parts.size(); ++i)
    out.slice(0, static_cast<int64_t>(i) * rows, static_cast<int64_t>(i + 1) * rows)
        .copy_from(i == 0 ? first : file.read(weight.parts[i]));
  return out;
}

}  // namespace saccade
