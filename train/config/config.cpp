#include "train/config/config.h"

#include <fmt/format.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>

#include <algorithm>

#include "models/backbone.h"
#include "models/build.h"
#include "models/detection/class_loss.h"
#include "train/config/schema/config_fields.h"

namespace saccade {

namespace {

// The layer between the schema's defaults and a configuration: the preset of the model's family over that of
// its class loss.
Config preset_of(const Config& config) {
  Config family;
  if (const auto type = model_types().all().find(config.model().type()); type != model_types().all().end())
    family = parse_config(type->second.preset, "the preset of " + type->first);
  const config::ClassLoss loss =
      config.criterion().has_class_loss() ? config.criterion().class_loss() : family.criterion().class_loss();
  const ClassLossSpec& spec = class_losses().find(config::ClassLoss_Name(loss));
  Config preset = parse_config(fmt::format("criterion {{ {} }}", spec.preset), "the preset of " + spec.name);
  if (loss != family.criterion().class_loss()) family.clear_criterion();
  preset.MergeFrom(family);
  return preset;
}

}  // namespace

std::vector<const pb::FieldDescriptor*> other_parts(const config::Model& model) {
  std::vector<const pb::FieldDescriptor*> others;
  const auto type = model_types().all().find(model.type());
  if (type == model_types().all().end()) return others;  // reported where the fields are checked
  for (const auto* f : fields_of(model.GetDescriptor()))
    if (f->message_type() && f->name() != "backbone" &&
        std::ranges::find(type->second.parts, f->name()) == type->second.parts.end())
      others.push_back(f);
  return others;
}

Config resolve_config(const Config& config) {
  Config resolved = preset_of(config);
  resolved.MergeFrom(config);
  // A backbone that takes only keyed arguments has no defaults in its fields.
  const config::Backbone given = resolved.model().backbone();
  write_defaults(resolved);
  if (const auto backbone = backbones().all().find(given.type());
      backbone != backbones().all().end() && !backbone->second.typed_fields)
    *resolved.mutable_model()->mutable_backbone() = given;
  // Fields of other model families may be present with their default values.
  config::Model &model = *resolved.mutable_model(), defaults;
  write_defaults(defaults);
  const pb::Reflection* r = model.GetReflection();
  for (const auto* part : other_parts(model))
    if (pb::util::MessageDifferencer::Equals(r->GetMessage(model, part), r->GetMessage(defaults, part)))
      r->ClearField(&model, part);
  return resolved;
}

std::string config_text(const Config& config) {
  std::string text;
  pb::TextFormat::Printer printer;
  printer.SetUseShortRepeatedPrimitives(true);
  printer.PrintToString(resolve_config(config), &text);
  return text;
}

}  // namespace saccade
