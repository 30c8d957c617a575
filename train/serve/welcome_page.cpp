#include "train/serve/welcome_page.h"

#include <algorithm>

#include "data/pages/html.h"

namespace saccade {

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
  return html(
             "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Saccade: {}</title>\n"
             "<style>body {{ font: 1rem sans-serif; max-width: 45rem; margin: 2rem auto; padding: 0 1rem }}\n"
             "pre {{ overflow: auto; background: #8882; padding: .7rem }}</style></head><body>\n"
             "<h1>{}</h1>\n<p>Classes: {}.</p>\n"
             "<form method=\"post\" enctype=\"multipart/form-data\"><p><input type=\"file\" name=\"file\" "
             "accept=\"image/*\" required> {}</p></form>\n"
             "<pre>curl -H 'Content-Type: image/jpeg' --data-binary @photo.jpg http://HOST:PORT/predict\n"
             "curl -F file=@photo.jpg http://HOST:PORT/predict</pre>\n"
             "<p><code>format</code>: json{}. A detector also takes <code>threshold</code> and "
             "<code>classes</code>: <code>/predict?threshold=0.3&amp;classes=a,b</code>.</p>\n"
             "<p><a href=\"/health\">/health</a>, <a href=\"/metrics\">/metrics</a></p>\n</body></html>\n",
             model, model, names, buttons, formats)
      .code;
}

}  // namespace saccade
