#include "train/config/config_changes.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>

#include "core/tensor/error.h"
#include "train/config/config_fields.h"

namespace saccade {

namespace pb = google::protobuf;

namespace {

// Fields, or whole messages, that a resumed run keeps.
constexpr std::string_view kKept[] = {
    "seed",          "model",           "criterion.class_loss", "data.labels",      "data.class_map",
    "data.classes",  "data.batch_size", "data.drop_last",       "train.accumulate", "train.best_metric",
    "optimizer.type"};
// Numbers that may change, but not become 0 or cease to be: tensors of the checkpoint come and go with them.
constexpr std::string_view kKeptSwitches[] = {"train.ema_decay", "optimizer.momentum"};

// Fields, or whole messages, that only evaluation and prediction read, or that do not touch what they find.
constexpr std::string_view kOfInference[] = {
    "precision",       "eval",           "data.val_short_side", "data.val_long_side",
    "data.val_height", "data.val_width", "data.val_center",     "data.interpolation",
    "data.bad_images", "data.workers",   "data.prefetch",       "model.transformer.eval_layers"};

bool among(std::span<const std::string_view> fields, std::string_view field) {
  return std::any_of(fields.begin(), fields.end(), [&](std::string_view known) {
    return field == known || (field.starts_with(known) && field[known.size()] == '.');
  });
}

bool breaks_resume(const ConfigChange& change) {
  const std::string_view field = change.field;
  if (among(kKept, field)) return true;
  return std::find(std::begin(kKeptSwitches), std::end(kKeptSwitches), field) != std::end(kKeptSwitches) &&
         (change.from == "0" || change.to == "0");
}

std::string short_text(const pb::Message& m) {
  pb::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintToString(m, &text);
  if (text.ends_with(' ')) text.pop_back();
  return "{" + text + "}";
}

// The whole value of a field.
std::string field_text(const pb::Message& m, const pb::FieldDescriptor* f) {
  const pb::Reflection* r = m.GetReflection();
  auto one = [&](int index) -> std::string {
    if (f->message_type())
      return short_text(index >= 0 ? r->GetRepeatedMessage(m, f, index) : r->GetMessage(m, f));
    std::string text;
    pb::TextFormat::PrintFieldValueToString(m, f, index, &text);
    return text;
  };
  if (!f->is_repeated()) return r->HasField(m, f) ? one(-1) : "none";
  if (r->FieldSize(m, f) == 0) return "none";
  std::string text;
  for (int i = 0; i < r->FieldSize(m, f); ++i) text += (i == 0 ? "" : ", ") + one(i);
  return "[" + text + "]";
}

void compare(const pb::Message& from, const pb::Message& to, const std::string& path,
             std::vector<ConfigChange>& out) {
  const pb::Reflection* r = from.GetReflection();
  for (int i = 0; i < from.GetDescriptor()->field_count(); ++i) {
    const pb::FieldDescriptor* f = from.GetDescriptor()->field(i);
    const std::string name = path.empty() ? f->name() : path + "." + f->name();
    if (f->message_type() && !f->is_repeated() && r->HasField(from, f) && r->HasField(to, f)) {
      compare(r->GetMessage(from, f), r->GetMessage(to, f), name, out);
      continue;
    }
    if (f->message_type() && f->is_repeated() && r->FieldSize(from, f) == r->FieldSize(to, f)) {
      for (int k = 0; k < r->FieldSize(from, f); ++k)
        compare(r->GetRepeatedMessage(from, f, k), r->GetRepeatedMessage(to, f, k),
                name + "." + std::to_string(k), out);
      continue;
    }
    ConfigChange change{name, field_text(from, f), field_text(to, f)};
    if (change.from == change.to) continue;
    change.breaks_resume = breaks_resume(change);
    change.of_inference = among(kOfInference, name);
    out.push_back(std::move(change));
  }
}

}  // namespace

std::string ConfigChange::to_string() const {
  return field + ": " + shortened(from, 200) + " -> " + shortened(to, 200);
}

std::vector<ConfigChange> config_changes(const Config& from, const Config& to) {
  std::vector<ConfigChange> out;
  compare(from, to, "", out);
  return out;
}

}  // namespace saccade
