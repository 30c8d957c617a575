// The configuration of a run (configs/saccade.proto): reading, --set edits, validation, the resolved text
// that is written next to the results, and the translation of its model section into the Args that models are
// built from. Every mistake is an InputError that says where it is, what is wrong and what was expected.
#pragma once

#include <string>
#include <vector>

#include "configs/saccade.pb.h"
#include "layers/args.h"

namespace saccade {

using config::Config;

// Reads a textproto file. Errors read "FILE:LINE:COLUMN: ..."; a misspelt field names the nearest known one.
// The --set edits follow in their order. Names that fields had before are read as those of today, which is
// told in a line of notes.
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
//   optimizer.group={regex: "bias"}      a message in textproto syntax: replaces one, which notes tell,
//                                        is appended to a list
//   data.class_map.traffic light=sign    what a class of the data is trained as, added or replaced; "":
//                                        it is left out
void apply_set(Config& config, const std::string& assignment, std::vector<std::string>* notes = nullptr);
// What the flags --data and --classes say.
struct DataFlags {
  std::vector<std::string> folders = {}, classes = {};
};
// What is in the folders, where there are some, replaces the data sets of the configuration;
// so do the classes.
void use_data(Config& config, const DataFlags& flags);

// Checks every field's rule (configs/rules.proto) and what concerns several fields, naming the field. A
// model's own arguments are checked when it is built.
void validate_config(const Config& config);
// The parts of model that are set are those of its family. Throws InputError.
void check_parts(const config::Model& model);
// What training needs beyond that: data sets and something that ends it.
void validate_for_training(const Config& config);

// Whether training batches may hold padding, which what changes whole batches (mixing,
// resizing) does not know.
bool pads_batches(const config::Data& data);
// Throws InputError when a field that training needs has no value.
void need(const std::string& field, const std::string& value, const char* what);

// The configuration with every default written out: the preset of its family of models, then the schema's.
Config resolve_config(const Config& config);
std::string config_text(const Config& config);

// config.model as Args: messages become sections, `arg` entries plain keys, enums their names, a Layer a
// section with `type` and its arguments. Typed fields have their defaults, so a model gives them no second
// one, and their rules are checked.
Args model_args(const Config& config);
Args criterion_args(const Config& config);    // config.criterion, likewise
Args given_model_args(const Config& config);  // config.model without the defaults
// What a model is built from.
struct BuildArgs {
  Args model, criterion;
};
BuildArgs build_args(const Config& config);

}  // namespace saccade
