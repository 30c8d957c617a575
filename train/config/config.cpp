#include "train/config/config.h"

#include <google/protobuf/text_format.h>

#include "models/backbone.h"
#include "models/build.h"
#include "train/config/config_fields.h"

namespace saccade {

Config resolve_config(const Config& config) {
  // An unknown type is reported where the fields are checked.
  const auto& types = model_types().all();
  const auto type = types.find(config.model().type());
  Config resolved;
  if (type != types.end()) resolved = parse_config(type->second.preset, "the preset of " + type->first);
  resolved.MergeFrom(config);
  // The fields of a backbone that is all arguments have no defaults.
  const config::Backbone given = resolved.model().backbone();
  write_defaults(resolved);
  if (const auto backbone = backbones().all().find(given.type());
      backbone != backbones().all().end() && !backbone->second.typed_fields)
    *resolved.mutable_model()->mutable_backbone() = given;
  if (type != types.end() && !type->second.has_transformer && !config.model().has_transformer())
    resolved.mutable_model()->clear_transformer();
  return resolved;
}

std::string config_text(const Config& config) {
  std::string text;
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseShortRepeatedPrimitives(true);
  printer.PrintToString(resolve_config(config), &text);
  return text;
}

}  // namespace saccade
