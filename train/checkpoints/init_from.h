// Loads weights that were trained elsewhere into one of our models: --init-from and convert.
#pragma once

#include <string>
#include <vector>

#include "layers/module.h"
#include "models/weights/weight_names.h"

namespace saccade {

// The outcome for each tensor, by name.
struct InitReport {
  std::string naming;                      // the naming of the file, see OfficialWeights
  std::vector<std::string> loaded;         // tensors of the model that were taken from the file
  std::vector<std::string> skipped;        // tensors of the file that have no place in the model
  std::vector<std::string> reinitialized;  // class heads that were initialised anew on request
  std::vector<std::string> missing;      // tensors of the model that the file lacks; they stay as initialised
  std::vector<std::string> repeated;     // class heads filled with the file's rows, repeated or cut
  std::vector<std::string> resized;      // loaded position tables of another image size, with both shapes
  std::vector<std::string> cut_queries;  // loaded query tables that were cut: the file holds more queries
  bool has_averages = false;             // the file also holds moving averages besides the loaded weights
  std::string other_classes;             // the file's classes, if its heads were taken and the classes differ
  std::vector<std::string> notes;        // further remarks, one line each
  // One line for each list that is not empty, with its count and the first names.
  std::vector<std::string> lines() const;
};

// Which class heads of the file are loaded: all, none, or only those trained for the same classes (the same
// number, and the same names if the file is a checkpoint of ours). Other heads keep their initial values; but
// with kTakeIfSame, rows of classes that the file knows by name are loaded, and model families that repeat
// class rows (Module::repeats_class_rows) do so.
enum class ClassHeads { kTake, kReinitialize, kTakeIfSame };

struct InitOptions {
  ClassHeads heads = ClassHeads::kTake;
  std::vector<std::string> class_names = {};  // of the model; empty if unknown
  std::string key = {};                       // the key of the tensors in a .pth file, see open_weights
  // The advice of the error message for a class head that has another shape in the file.
  const char* other_head = "--reinit-heads initialises the class heads anew";
};

// Fills the model's tensors from the tensors of the file with the same official name; a tensor that the model
// shares among several names is filled from any of them. The file of a bare backbone fills the backbone of a
// detector, and a detector's backbone fills a classifier. Positions that were learned on images of another
// size are resized (layers/position_tables.h). Throws InputError if nothing fits, if a tensor has another
// shape or type in the file (naming it, with InitOptions::other_head for a class head), or if names that the
// model shares differ in the file. The model then stays unchanged.
InitReport fill_model(const WeightsFile& file, const OfficialWeights& weights, Module& model,
                      const InitOptions& options = {});
InitReport init_from(const std::string& path, Module& model, const InitOptions& options = {});

}  // namespace saccade
