// Parses the requests of clients that send images.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "train/inference/answerer.h"
#include "train/serve/http.h"

namespace saccade {

// The decoded path and fields of "/predict?threshold=0.3". Throws HttpError (400) for an invalid target.
struct HttpTarget {
  std::string path;
  std::map<std::string, std::string> fields;
};
HttpTarget parse_target(std::string_view target);

// The media type in "multipart/form-data; boundary=x", in lower case, and a parameter (empty if missing).
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
  std::string format = "json";  // or that of a picture
};
// Throws HttpError (415) if the content type is not that of an image.
void check_content(const ServiceRequest& head);
// Reads the request from the fields of the target and of a form; without `format`, the header Accept may
// choose it. Throws HttpError.
ImageRequest image_request(ServiceRequest request, const std::vector<std::string>& picture_formats);

}  // namespace saccade
