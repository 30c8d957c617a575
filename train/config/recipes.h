// The recipes of configs/, which are part of the program, and how one is fitted to somebody's own data.
#pragma once

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
  std::string title() const;  // its first line, without the sign of a comment
};

std::span<const Recipe> recipes();  // ascending by name
// Throws InputError that begins with `where` and names the nearest recipe.
const Recipe& find_recipe(const std::string& name, const std::string& where);

// Whether one of the edits of --set changes the field, or a message that holds it.
bool is_set(const std::vector<std::string>& sets, std::string_view field);
// Of a step of the optimizer, on one process.
int64_t images_of_step(const Config& config);

struct FittedRecipe {
  Config config;
  std::optional<DataSize> size = {};  // of the data, where they are a folder's
  std::vector<std::string> notes;     // what differs from the recipe, and why: a line each
};

// The recipe for the data of a folder ("": the recipe's own), with the edits of --set, which nothing here
// overrides. Recipes are for large public sets: the classes are counted in the data, a batch is at most an
// eighth of the images and several are gathered for a step of as many images, the learning rate follows the
// images of a step in proportion, a warm-up takes at most a tenth of the steps, and without other weights
// nothing of the backbone is frozen.
FittedRecipe fit_recipe(const Recipe& recipe, const DataFlags& data, const std::vector<std::string>& sets,
                        bool has_weights, const QuickFlags& quick = {});

// Of commands that look at a recipe: the file `config`, or the recipe `model` fitted to the folder `data`,
// with the edits.
Config chosen_recipe(const std::string& config, const std::string& model, const DataFlags& data,
                     const std::vector<std::string>& sets, std::vector<std::string>& notes,
                     const QuickFlags& quick = {});

// What is unwise about a configuration that was read from a file and then edited: a line each.
std::vector<std::string> config_warnings(const Config& read, const Config& edited, bool has_weights);

}  // namespace saccade
