// Loads untrusted YAML into libyaml's tree. libyaml's own composer takes quadratic time for deep texts and
// for many anchors.
#pragma once

#include <yaml.h>

#include <string>

namespace saccade {

// Fills `document`, which the caller deletes, even after an error. At most 100 levels. Throws InputError
// naming the file and the line.
void load_yaml(const std::string& path, yaml_document_t& document);

}  // namespace saccade
