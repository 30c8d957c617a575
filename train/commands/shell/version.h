// What `saccade --version` says.
#pragma once

#include <string>

namespace saccade {

std::string version_text();  // lines: "saccade 0.2.0 (commit 1234abc)", then what was built in

}  // namespace saccade
