// What somebody who sends an image asks for.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "train/inference/answerer.h"
#include "train/serve/http.h"

namespace saccade {

// Of "/predict?threshold=0.3": path and fields, decoded. Throws HttpError (400) for what is no such target.
struct HttpTarget {
  std::string path;
  std::map<std::string, std::string> fields;
};
HttpTarget parse_target(std::string_view target);

// Of "multipart/form-data; boundary=x" the first part, in small letters, and a parameter ("": it has none).
std::string media_type(std::string_view content_type);
std::string media_parameter(std::string_view content_type, std::string_view name);

// The one file of a form, and its other fields. Throws HttpError (400).
struct FormData {
  std::string file;
  std::map<std::string, std::string> fields;
};
FormData parse_form(std::string_view body, std::string_view boundary);

struct ImageRequest {
  std::string bytes;
  AnswerOptions options;
  std::string format = "json";  // or a picture's
};
// Throws HttpError (415) where the content is no image by its type.
void check_content(const ServiceRequest& head);
// The fields of the target and of a form say what is wanted; without `format` the header Accept may.
// Throws HttpError.
ImageRequest image_request(ServiceRequest request, const std::vector<std::string>& picture_formats);

}  // namespace saccade
