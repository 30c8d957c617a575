// What a browser shows of the service: how it is asked, and a form to try it.
#pragma once

#include <string>
#include <vector>

namespace saccade {

std::string welcome_page(const std::string& model, const std::vector<std::string>& classes,
                         const std::vector<std::string>& picture_formats);

}  // namespace saccade
