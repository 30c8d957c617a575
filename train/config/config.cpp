#include "train/config/config.h"

#include <google/protobuf/text_format.h>

#include "models/build.h"
#include "train/config/config_fields.h"

namespace saccade {

Config resolve_config(const Config& config) {
  // An unknown type is an error where the fields are checked.
  const auto& types = model_types().all();
  const auto type = types.find(config.model().type());
  Config resolved;
  if (type != types.end()) resolved = parse_config(type->second.preset, "the preset of " + type->first);
  resolved.MergeFrom(config);
  // The typed defaults of a backbone are ResNet's; the others have their own.
  const config::Backbone given = resolved.model().backbone();
  write_defaults(resolved);
  if (given.type() != "resnet") *resolved.mutable_model()->mutable_backbone() = given;
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
