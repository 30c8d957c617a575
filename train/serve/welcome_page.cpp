#include "train/serve/welcome_page.h"

#include <algorithm>

#include "data/pages/html.h"

namespace saccade {

constexpr std::string_view kWelcome =
#include "train/serve/welcome_page.html.inc"
    ;

std::string welcome_page(const std::string& model, const std::vector<std::string>& classes,
                         const std::vector<std::string>& picture_formats) {
  Html buttons = html("<button formaction=\"/predict?format=json\">JSON</button>"), formats, names;
  for (const std::string& format : picture_formats) {
    buttons += html(" <button formaction=\"/predict?format={}\">{}</button>", format, format);
    formats += html(", {}", format);
  }
  constexpr size_t kShown = 100;
  for (size_t k = 0; k < std::min(classes.size(), kShown); ++k)
    names += html("{}{}", k ? ", " : "", classes[k]);
  if (classes.size() > kShown) names += html(" and {} more", classes.size() - kShown);
  return fmt::format(fmt::runtime(kWelcome), fmt::arg("model", html_escaped(model)),
                     fmt::arg("classes", names.code), fmt::arg("buttons", buttons.code),
                     fmt::arg("formats", formats.code));
}

}  // namespace saccade
