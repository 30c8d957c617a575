// The files of torch.save (https://pytorch.org/docs/stable/notes/serialization.html): a zip archive with one
// pickle, data.pkl, and an uncompressed entry per storage; or, before PyTorch 1.6, five pickles followed by
// the storages. The pickle is read as data (core/formats/pickle.h).
#pragma once

#include <memory>
#include <string>

#include "core/formats/weights_file.h"

namespace saccade {

// Judges by the first 16 bytes.
bool looks_like_torch_file(std::string_view start);

// The tensors are those of the dictionary at `key` (torch_section.h). A tensor that several names share
// appears under each of them.
std::unique_ptr<WeightsFile> open_torch_file(const std::string& path, const std::string& key);

}  // namespace saccade
