#include "train/checkpoints/checkpoint.h"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "core/formats/json.h"
#include "models/not_finite.h"

namespace saccade {
namespace {

constexpr const char* kFormat = "1";
constexpr int64_t kMaxSteps = int64_t{1} << 40;  // products with it must stay in range

// The numbers of a CheckpointInfo, by their names in the metadata.
template <class Info, class F>
void for_each_number(Info& info, F&& visit) {
  visit("seed", info.seed);
  visit("step", info.step);
  visit("epoch", info.epoch);
  visit("batch", info.batch);
  visit("best_metric", info.best_metric);
  visit("best_step", info.best_step);
  visit("ema_updates", info.ema_updates);
}

template <class T, class F>
std::string json_array(const std::vector<T>& values, F&& text) {
  std::string out = "[";
  for (const T& v : values) out += (out.size() == 1 ? "" : ",") + text(v);
  return out + "]";
}

class Metadata {
 public:
  explicit Metadata(const SafetensorsReader& file) : file_(file) {}

  // Returns null if the file has no such entry.
  const std::string* find(const std::string& key) const {
    auto it = file_.metadata().find("saccade." + key);
    return it == file_.metadata().end() ? nullptr : &it->second;
  }
  const std::string& text(const std::string& key) const {
    const std::string* found = find(key);
    if (!found)
      fail_input(
          "{}: not a checkpoint of saccade: no \"saccade.{}\" in its metadata; saccade convert makes one from other projects' weights",
          file_.path(), key);
    return *found;
  }
  template <class T>
  void read(const std::string& key, T& value) const {
    const std::string& s = text(key);
    auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value);
    if (error != std::errc() || end != s.data() + s.size()) bad(key);
  }
  template <class T, class Json>
  std::vector<T> list(const std::string& key) const {
    simdjson::dom::parser parser;
    simdjson::dom::array array;
    std::vector<T> out;
    if (parser.parse(text(key)).get(array) != simdjson::SUCCESS) bad(key);
    for (auto element : array) {
      Json v{};
      if (element.get(v) != simdjson::SUCCESS) bad(key);
      out.emplace_back(v);
    }
    return out;
  }

 private:
  [[noreturn]] void bad(const std::string& key) const {
    fail_input("{}: damaged checkpoint: \"saccade.{}\" in its metadata cannot be read", file_.path(), key);
  }
  const SafetensorsReader& file_;
};

void assign(Var var, const Tensor& value) { var.value().copy_from(value.to(var.dtype()).to(var.device())); }

}  // namespace

bool is_training_state(const std::string& name) {
  return name.starts_with("optimizer.") || name.starts_with("ema.");
}

void save_checkpoint(const std::string& path, const Module& model, const CheckpointInfo& info,
                     const Optimizer* optimizer, const Ema* ema) {
  std::map<std::string, std::string> metadata{
      {"format", "pt"},  // what the Python readers expect
      {"saccade.format", kFormat},
      {"saccade.config", info.config},
      {"saccade.class_names",
       json_array(info.class_names, [](const std::string& s) { return json_quote(s); })},
      {"saccade.category_ids", json_array(info.category_ids, [](int64_t id) { return std::to_string(id); })}};
  for_each_number(info, [&](const std::string& key, auto value) {
    metadata["saccade." + key] = fmt::format("{}", value);
  });
  if (ema) metadata["saccade.ema_updates"] = std::to_string(ema->updates());
  if (!info.images.empty()) metadata["saccade.images"] = info.images;
  if (info.best_since != info.best_step) metadata["saccade.best_since"] = std::to_string(info.best_since);
  if (info.evaluation_due) metadata["saccade.evaluation_due"] = "true";
  NamedValues tensors;
  for (const NamedTensor& t : model.named_tensors()) tensors.emplace_back(t.name, t.var.value());
  if (optimizer)
    for (auto& [name, t] : optimizer->state()) tensors.emplace_back("optimizer." + name, t);
  if (ema)
    for (auto& [name, t] : ema->state()) tensors.emplace_back("ema." + name, t);
  write_safetensors(path, tensors, metadata);
}

CheckpointInfo read_checkpoint_info(const SafetensorsReader& file) {
  Metadata m(file);
  if (m.text("format") != kFormat)
    fail_input("{}: checkpoint format \"{}\", this program reads \"{}\"", file.path(), m.text("format"),
               kFormat);
  CheckpointInfo info;
  info.config = m.text("config");
  info.class_names = m.list<std::string, std::string_view>("class_names");
  info.category_ids = m.list<int64_t, int64_t>("category_ids");
  for_each_number(info, [&](const char* key, auto& value) { m.read(key, value); });
  for (int64_t count : {info.step, info.epoch, info.batch, info.ema_updates})
    if (count < 0 || count > kMaxSteps)
      fail_input("{}: damaged checkpoint: its step, epoch, batch or number of averages is {}", file.path(),
                 count);
  if (!std::isfinite(info.best_metric))
    fail_input("{}: damaged checkpoint: its best metric is {}", file.path(), info.best_metric);
  if (const std::string* images = m.find("images")) info.images = *images;
  info.evaluation_due = m.find("evaluation_due") != nullptr;
  info.best_since = info.best_step;
  if (m.find("best_since") != nullptr) m.read("best_since", info.best_since);
  if (!info.category_ids.empty() && info.class_names.size() != info.category_ids.size())
    fail_input("{}: damaged checkpoint: {} class names for {} category ids", file.path(),
               info.class_names.size(), info.category_ids.size());
  std::set<int64_t> ids;
  for (int64_t id : info.category_ids)
    if (!ids.insert(id).second)
      fail_input("{}: damaged checkpoint: two classes have the category id {}", file.path(), id);
  return info;
}

void check_fits(const SafetensorsReader& file, const Module& model) {
  std::set<std::string> known;
  for (const NamedTensor& t : model.named_tensors()) {
    known.insert(t.name);
    const WeightEntry* e = file.find(t.name);
    if (!e) fail_input("{}: checkpoint of another model: it has no tensor \"{}\"", file.path(), t.name);
    if (e->shape != t.var.shape())
      fail_input("{}: checkpoint of another model: tensor \"{}\" has shape {}, the model's has {}",
                 file.path(), t.name, e->shape.to_string(), t.var.shape().to_string());
    if (!is_float_dtype(e->dtype))
      fail_input("{}: checkpoint of another model: tensor \"{}\" is {}, expected a float type", file.path(),
                 t.name, e->dtype);
  }
  for (const WeightEntry& e : file.entries())
    if (!known.contains(e.name) && !is_training_state(e.name) && !e.name.ends_with(".num_batches_tracked"))
      fail_input("{}: checkpoint of another model: the model has no tensor \"{}\"", file.path(), e.name);
}

void load_model(const SafetensorsReader& file, Module& model, bool averaged) {
  check_fits(file, model);
  std::set<const VarState*> filled;
  for (const NamedTensor& t : model.named_tensors()) {
    // The average of a shared tensor is stored only under its first name.
    if (!filled.insert(t.var.state().get()).second) continue;
    const WeightEntry* average = averaged ? file.find("ema." + t.name) : nullptr;
    bool usable = average && average->shape == t.var.shape() && is_float_dtype(average->dtype);
    assign(t.var, file.read(usable ? average->name : t.name));
  }
}

void load_training_state(const SafetensorsReader& file, const CheckpointInfo& info, Optimizer& optimizer,
                         Ema* ema) {
  auto find = [&](const std::string& prefix) {
    return [&file, prefix](const std::string& name) {
      return file.find(prefix + name) ? file.read(prefix + name) : Tensor();
    };
  };
  bool has_state = std::any_of(file.entries().begin(), file.entries().end(),
                               [](const WeightEntry& e) { return e.name.starts_with("optimizer."); });
  if (!has_state && info.step > 0)
    fail_input("{}: holds no optimizer state, so training cannot resume from it (use --init-from)",
               file.path());
  try {
    optimizer.load_state(find("optimizer."));
    if (ema) ema->load_state(info.ema_updates, find("ema."));
  } catch (const InputError& e) {
    fail_input("{}: {}", file.path(), e.what());
  }
}

std::string first_nonfinite(const Module& model) {
  for (const NamedTensor& t : model.named_tensors())
    if (!is_finite(t.var.value())) return t.name;
  return "";
}

void check_weights(const Module& model, const std::string& file) {
  if (const std::string name = first_nonfinite(model); !name.empty())
    fail_input("{}: its tensor \"{}\" holds numbers that are not finite", file, name);
  for (const NamedTensor& t : model.named_tensors()) {
    if (!t.name.ends_with("running_var")) continue;
    const std::vector<float> values = t.var.value().to_vector<float>();
    if (const auto least = std::ranges::min_element(values); least != values.end() && *least < 0)
      fail_input("{}: its tensor \"{}\" holds {}, but a variance is 0 or more", file, t.name, *least);
  }
}

}  // namespace saccade
