// The recipes of configs/, which are embedded in the program, and how one is fitted to the user's data.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/config/config.h"
#include "train/config/quick_flags.h"
#include "train/config/task.h"

namespace saccade {

struct Recipe {
  std::string name, text;
  std::string title() const;  // its first line, without the comment sign
};

std::span<const Recipe> recipes();  // ascending by name
// Throws InputError that begins with `where` and names the nearest recipe.
const Recipe& find_recipe(const std::string& name, const std::string& where);

// Whether one of the --set edits changes the field, or a message that contains it.
bool is_set(const std::vector<std::string>& sets, std::string_view field);
// A note for each of the --set edits that changes nothing in a command that reads no data set and measures
// nothing.
std::vector<std::string> notes_without_data(const std::vector<std::string>& sets);
// The number of images in an optimizer step, on one process.
int64_t images_of_step(const Config& config);

struct FittedRecipe {
  Config config;
  std::optional<DataSize> size = {};      // of the data, if they come from a folder
  std::vector<std::string> notes;         // the differences from the recipe and their reasons, one line each
  std::vector<std::string> further = {};  // the differences in fields that a further step changed
};
// A step after the fitting, such as fine-tuning. size: of the data, if it is known.
using FurtherFit = std::function<void(Config& config, const std::optional<DataSize>& size)>;

// Shortens a warm-up to a tenth of the steps that the epochs take with this many images, unless --set says
// how long it is.
void fit_warmup(Config& config, int64_t images, const std::vector<std::string>& sets);

// Fits the recipe to the data of a folder (if empty, the recipe's own), with the edits of --set, which
// nothing here overrides. Recipes are for large public data sets, so: the classes are counted in the data, a
// batch has at most an eighth of the images and several are accumulated for a step of as many images, the
// learning rate scales with the images of a step, a warm-up takes at most a tenth of the steps, and without
// pretrained weights nothing of the backbone is frozen.
FittedRecipe fit_recipe(const Recipe& recipe, const DataFlags& data, const std::vector<std::string>& sets,
                        bool has_weights, const QuickFlags& quick = {}, const FurtherFit& further = {});

// For commands that look at a recipe: returns the file `config`, or the recipe `model` fitted to the folder
// `data`, with the edits.
Config chosen_recipe(const std::string& config, const std::string& model, const DataFlags& data,
                     const std::vector<std::string>& sets, std::vector<std::string>& notes,
                     const QuickFlags& quick = {});

// Returns a note that a configuration chooses no model; "" if it does.
std::string note_on_model(const Config& config);
// Warnings about a configuration that was read from a file and then edited, one line each.
std::vector<std::string> config_warnings(const Config& read, const Config& edited, bool has_weights);

}  // namespace saccade
