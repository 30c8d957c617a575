// The weights that others have published, by name: what `saccade weights list` shows. The list is embedded in
// the program (train/weights/catalogue.textproto, schema configs/weights.proto); the file in
// $SACCADE_WEIGHTS_CATALOGUE replaces it.
#pragma once

#include <string>
#include <vector>

#include "configs/weights.pb.h"

namespace saccade {

using config::PublishedWeights;

// In the order of the list. Throws InputError if the list of the environment variable is invalid.
const std::vector<PublishedWeights>& published_weights();
// Describes weights whose recipe the program lacks, which a user's own list may contain; empty if none.
std::string unknown_recipes(const std::vector<PublishedWeights>& all);
// Parses a list from text; `name` stands for it in messages.
std::vector<PublishedWeights> parse_catalogue(const std::string& text, const std::string& name);
// The list that is embedded in the program.
const char* own_catalogue();

// Returns null if there are none of this name.
const PublishedWeights* find_weights(const std::string& name);
// The weights of a recipe.
std::vector<const PublishedWeights*> weights_of_recipe(const std::string& recipe);

std::string metric_text(const PublishedWeights& weights);  // "AP 42.8"; empty if unknown
std::string size_text(const PublishedWeights& weights);    // "15.5 MB", or "size unknown"
std::string megabytes(uint64_t bytes);                     // "15.5 MB"

}  // namespace saccade
