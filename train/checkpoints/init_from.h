// Weights that somebody else trained, into a model of ours: --init-from and convert.
#pragma once

#include <string>
#include <vector>

#include "layers/module.h"
#include "models/weights/weight_names.h"

namespace saccade {

// What was done, by name.
struct InitReport {
  std::string naming;                      // of the file, see OfficialWeights
  std::vector<std::string> loaded;         // of the model, taken from the file
  std::vector<std::string> skipped;        // of the file, without a place in the model
  std::vector<std::string> reinitialized;  // class heads that were asked to start anew
  std::vector<std::string> missing;        // of the model, not in the file: they keep their initial values
  std::vector<std::string> repeated;       // class heads whose rows are the file's, repeated or cut
  std::vector<std::string> resized;      // of those loaded: positions of another image size, with both shapes
  std::vector<std::string> cut_queries;  // the same: tables of which the file holds more queries
  bool has_averages = false;             // the file holds moving averages besides the weights that were taken
  std::string other_classes;       // what the file's classes are, where the heads were taken and they differ
  std::vector<std::string> notes;  // what else is to be known, a line each
  // One for each that is not empty, with its count and the first names.
  std::vector<std::string> lines() const;
};

// Class heads of the file: all are taken, none, or only those that were trained for the same classes (as
// many, and of the same names where the file is a checkpoint of ours).
// What is not taken keeps its initial values; with kTakeIfSame, rows of classes that the file knows by name
// are taken, and families that repeat the others (Module::repeats_class_rows) do so.
enum class ClassHeads { kTake, kReinitialize, kTakeIfSame };

struct InitOptions {
  ClassHeads heads = ClassHeads::kTake;
  std::vector<std::string> class_names = {};  // of the model; empty: not known
  std::string key = {};                       // of the tensors in a .pth file, see open_weights
  // What is said of a class head that has another shape in the file.
  const char* other_head = "--reinit-heads initialises the class heads anew";
};

// Fills the model's tensors from those of the file with the same official name; a tensor that the model
// shares among several names is filled from any of them. A file of a bare backbone fills a detector's, and a
// detector's backbone a classifier. Positions that were learned on images of another size are resized
// (layers/position_tables.h). Throws InputError when nothing fits, naming the tensor when one has
// another shape or type in the file (with InitOptions::other_head when it is a class head), and when names
// that the model shares differ in the file. The model is then unchanged.
InitReport fill_model(const WeightsFile& file, const OfficialWeights& weights, Module& model,
                      const InitOptions& options = {});
InitReport init_from(const std::string& path, Module& model, const InitOptions& options = {});

}  // namespace saccade
