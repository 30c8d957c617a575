// The configuration of a run (configs/saccade.proto): reading it, --set edits, validation, the resolved text
// that is written next to the results, and the translation of its model section into the Args that models are
// built from. Every mistake is an InputError that says where it is, what is wrong and what was expected.
#pragma once

#include <string>
#include <vector>

#include "configs/saccade.pb.h"
#include "layers/args.h"

namespace saccade {

using config::Config;

// Reads a textproto file. Errors read "FILE:LINE:COLUMN: ..."; for a misspelt field they name the nearest
// known one. Then applies the --set edits in order. Old names of fields are read as the current ones, each
// with a line in notes.
Config load_config(const std::string& path, const std::vector<std::string>& sets = {},
                   std::vector<std::string>* notes = nullptr);
// The same from memory; `name` stands in for the file name in errors.
Config parse_config(const std::string& text, const std::string& name,
                    std::vector<std::string>* notes = nullptr);

// Applies one --set edit, "path.to.field=value":
//   data.batch_size=4          a scalar, enum (by name), bool or string (quotes optional)
//   data.augment.short_sides=480,512     a list; [] empties it
//   model.backbone.arg.points=4          a keyed argument, added or replaced; its type follows from the value
//   optimizer.group.0.lr_mult=0.1        an element of a list of messages, by index
//   optimizer.group={regex: "bias"}      a message in textproto syntax: replaces a single message, which
//                                        notes tell, or is appended to a list
//   data.class_map.traffic light=sign    the class that a class of the data is trained as, added or replaced;
//                                        if it is empty, the class is left out
void apply_set(Config& config, const std::string& assignment, std::vector<std::string>* notes = nullptr);
// The values of the flags --data and --classes.
struct DataFlags {
  std::vector<std::string> folders = {}, classes = {};
};
// Replaces the configuration's data sets by those in the folders, and its classes, if they are given.
void use_data(Config& config, const DataFlags& flags);

// Checks every field's rule (configs/rules.proto) and the rules that involve several fields, naming the
// field. A model's own arguments are checked when it is built.
void validate_config(const Config& config);
// Checks that only parts of the model's own family are set. Throws InputError.
void check_parts(const config::Model& model);
// Checks what training also needs: data sets, and something that ends it.
void validate_for_training(const Config& config);

// Whether training batches may hold padding, which operations on whole batches (mixing, resizing) cannot
// handle.
bool pads_batches(const config::Data& data);
// Throws InputError if a field that training needs has no value.
void need(const std::string& field, const std::string& value, const char* what);

// Returns the configuration with every default written out: the preset of its model family, then the
// schema's.
Config resolve_config(const Config& config);
std::string config_text(const Config& config);

// Returns config.model as Args: messages become sections, `arg` entries become plain keys, enums their names,
// and a Layer becomes a section with `type` and its arguments. Typed fields have their defaults, so a model
// defines no second default for them, and their rules are checked.
Args model_args(const Config& config);
Args criterion_args(const Config& config);    // config.criterion, in the same way
Args given_model_args(const Config& config);  // config.model without the defaults
// The arguments from which a model is built.
struct BuildArgs {
  Args model, criterion;
};
BuildArgs build_args(const Config& config);

}  // namespace saccade
