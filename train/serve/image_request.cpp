#include "train/serve/image_request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "core/files/text.h"
#include "data/formats/listing.h"
#include "train/config/text.h"

namespace saccade {
namespace {

[[noreturn]] void bad_request(const std::string& text) { throw HttpError(400, text); }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Decodes "a%20b" and, in fields, "a+b".
std::string decoded(std::string_view text, bool plus_is_space) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus_is_space) {
      out += ' ';
    } else if (text[i] == '%') {
      const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1,
                low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
      if (high < 0 || low < 0)
        bad_request(fmt::format("the address: {}: % without two hexadecimal digits", printable(text)));
      out += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

// Returns "/predict" of "http://host:8080/predict", the form of clients that assume a proxy (RFC 9112,
// 3.2.2).
std::string origin_form(std::string_view target) {
  const std::string begin = lower_case(std::string(target.substr(0, 8)));
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!begin.starts_with(scheme)) continue;
    target.remove_prefix(scheme.size());
    const size_t host = std::min(target.find_first_of("/?"), target.size());
    if (host == 0) bad_request("the address has no host");
    target.remove_prefix(host);
    return (target.starts_with('/') ? "" : "/") + std::string(target);
  }
  return std::string(target);
}

void add_field(std::map<std::string, std::string>& fields, std::string name, std::string value) {
  if (!fields.emplace(name, std::move(value)).second)
    bad_request(fmt::format("{}: is given twice", printable(name)));
}

// The header of a part, up to its empty line: the relevant parameters of Content-Disposition.
struct PartHead {
  std::optional<std::string> name, file_name;
};
PartHead part_head(std::string_view text) {
  PartHead head;
  while (!text.empty()) {
    const size_t end = text.find("\r\n");
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? "" : text.substr(end + 2);
    constexpr std::string_view kWanted = "content-disposition:";
    if (lower_case(std::string(line.substr(0, kWanted.size()))) != kWanted) continue;
    const std::string_view value = line.substr(kWanted.size());
    if (media_type(value) != "form-data") continue;
    head.name = media_parameter(value, "name");
    // A browser writes an empty name if no file was chosen.
    if (lower_case(std::string(value)).find("filename") != std::string::npos)
      head.file_name = media_parameter(value, "filename");
  }
  return head;
}

double threshold_of(const std::string& text) {
  double value = 0;
  if (!parse_number(text, value) || !(value >= 0 && value <= 1))
    bad_request(fmt::format("threshold: \"{}\", expected a number from 0 to 1", printable(text)));
  return value;
}

std::vector<std::string> list_of(const std::string& text) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    if (words.back().empty()) bad_request("classes: a name is empty, expected NAME,NAME,...");
    begin = end + 1;
  }
  return words;
}

// Returns 0.5 for "image/png;q=0.5", from 0 to 1, and 1 without a q; nothing if it is invalid.
std::optional<double> quality_of(std::string_view range) {
  const std::string text = media_parameter(range, "q");
  if (text.empty()) return 1;
  double quality = 0;
  if (!parse_number(text, quality) || !(quality >= 0 && quality <= 1)) return std::nullopt;
  return quality;
}

// Returns the available format that Accept prefers (RFC 9110, 12.5.1): each has the quality of the range that
// names it most closely; among equal ones, the more closely named wins, then the first. JSON if Accept wants
// none.
std::string accepted_format(std::string_view accept, const std::vector<std::string>& picture_formats) {
  struct Offer {
    const char *format, *type, *family;
    double quality = 0;
    int closeness = 0, place = 0;
  };
  Offer offers[] = {{"json", "application/json", "application/*"},
                    {"png", "image/png", "image/*"},
                    {"jpg", "image/jpeg", "image/*"}};
  for (int place = 1; !accept.empty(); ++place) {
    const std::string_view range = accept.substr(0, accept.find(','));
    accept.remove_prefix(std::min(range.size() + 1, accept.size()));
    const std::optional<double> quality = quality_of(range);
    const std::string type = media_type(range);
    if (!quality) continue;
    for (Offer& offer : offers) {
      const int closeness = type == offer.type ? 3 : type == offer.family ? 2 : type == "*/*" ? 1 : 0;
      if (closeness > offer.closeness) {
        offer.quality = *quality;
        offer.closeness = closeness;
        offer.place = place;
      }
    }
  }
  const Offer* best = &offers[0];
  for (const Offer& offer : std::span(offers).subspan(1))
    if (std::ranges::find(picture_formats, offer.format) != picture_formats.end() && offer.quality > 0 &&
        std::tie(offer.quality, offer.closeness, best->place) >
            std::tie(best->quality, best->closeness, offer.place))
      best = &offer;
  return best->format;
}

}  // namespace

HttpTarget parse_target(std::string_view given) {
  const std::string origin = origin_form(given);
  const std::string_view target = origin;
  if (!target.starts_with('/')) bad_request("the address does not begin with /");
  const size_t mark = target.find('?');
  HttpTarget out{.path = decoded(target.substr(0, mark), false), .fields = {}};
  if (mark == std::string_view::npos) return out;
  std::string_view rest = target.substr(mark + 1);
  while (!rest.empty()) {
    const std::string_view field = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(field.size() + 1, rest.size()));
    if (field.empty()) continue;
    const size_t equals = field.find('=');
    if (equals == std::string_view::npos)
      bad_request(fmt::format("{}: has no value, expected NAME=VALUE", printable(field)));
    add_field(out.fields, decoded(field.substr(0, equals), true), decoded(field.substr(equals + 1), true));
  }
  return out;
}

std::string media_type(std::string_view content_type) {
  return lower_case(std::string(trimmed(content_type.substr(0, content_type.find(';')))));
}

std::string media_parameter(std::string_view content_type, std::string_view name) {
  size_t at = content_type.find(';');
  while (at != std::string_view::npos && at < content_type.size()) {
    const size_t equals = content_type.find('=', at + 1);
    if (equals == std::string_view::npos) return "";
    const std::string key = lower_case(std::string(trimmed(content_type.substr(at + 1, equals - at - 1))));
    std::string value;
    at = equals + 1;
    if (at < content_type.size() && content_type[at] == '"') {
      for (++at; at < content_type.size() && content_type[at] != '"'; ++at) {
        if (content_type[at] == '\\' && at + 1 < content_type.size()) ++at;
        value += content_type[at];
      }
      at = content_type.find(';', at);
    } else {
      const size_t end = content_type.find(';', at);
      value = trimmed(content_type.substr(at, end == std::string_view::npos ? end : end - at));
      at = end;
    }
    if (key == name) return value;
  }
  return "";
}

FormData parse_form(std::string_view body, std::string_view boundary) {
  if (boundary.empty() || boundary.size() > 70)
    bad_request("multipart/form-data: the boundary is missing or has more than 70 characters");
  const std::string mark = fmt::format("\r\n--{}", boundary);
  FormData form;
  bool has_file = false;
  // Text before the first boundary is ignored; the first boundary may be at the very beginning.
  size_t at = body.starts_with(std::string_view(mark).substr(2)) ? mark.size() - 2 : body.find(mark);
  if (at == std::string_view::npos)
    bad_request("multipart/form-data: the boundary does not appear in the body");
  if (!body.starts_with(std::string_view(mark).substr(2))) at += mark.size();
  for (;;) {
    std::string_view rest = body.substr(at);
    if (rest.starts_with("--")) break;
    const size_t line_end = rest.find("\r\n");
    const size_t head_end = rest.find("\r\n\r\n");
    const size_t end = rest.find(mark, head_end == std::string_view::npos ? head_end : head_end + 4);
    if (head_end == std::string_view::npos || end == std::string_view::npos)
      bad_request("multipart/form-data: the body is cut off");
    const PartHead head =
        part_head(rest.substr(line_end + 2, head_end > line_end ? head_end - line_end - 2 : 0));
    const std::string_view content = rest.substr(head_end + 4, end - head_end - 4);
    if (!head.name) bad_request("multipart/form-data: a part has no name");
    if (head.file_name) {
      if (has_file) bad_request("multipart/form-data: has several files, expected one image");
      has_file = true;
      form.file = content;
    } else if (head.name == "file" || head.name == "image") {
      bad_request(fmt::format("{}: is not a file (with curl: -F {}=@photo.jpg)", *head.name, *head.name));
    } else {
      add_field(form.fields, *head.name, std::string(content));
    }
    at += end + mark.size();
  }
  if (!has_file) bad_request("multipart/form-data: has no file, expected an image as \"file\"");
  return form;
}

void check_content(const ServiceRequest& head) {
  if (!head.content_encoding.empty() && lower_case(head.content_encoding) != "identity")
    throw HttpError(415, fmt::format("Content-Encoding: {}, expected an image without an encoding",
                                     printable(head.content_encoding)));
  const std::string type = media_type(head.content_type);
  if (type.empty() || type.starts_with("image/") || type == "application/octet-stream" ||
      type == "multipart/form-data")
    return;
  throw HttpError(415, fmt::format("Content-Type: {}, expected image/..., application/octet-stream or "
                                   "multipart/form-data (with curl: -H 'Content-Type: image/jpeg')",
                                   printable(type)));
}

ImageRequest image_request(ServiceRequest request, const std::vector<std::string>& picture_formats) {
  HttpTarget target = parse_target(request.target);
  ImageRequest wanted;
  if (media_type(request.content_type) == "multipart/form-data") {
    FormData form = parse_form(request.body, media_parameter(request.content_type, "boundary"));
    for (auto& [name, value] : form.fields) add_field(target.fields, name, std::move(value));
    wanted.bytes = std::move(form.file);
  } else {
    wanted.bytes = std::move(request.body);
  }
  if (wanted.bytes.empty()) bad_request("the body is empty, expected the bytes of an image");
  bool has_format = false;
  for (const auto& [name, value] : target.fields) {
    if (name == "threshold") {
      wanted.options.threshold = threshold_of(value);
    } else if (name == "classes") {
      wanted.options.classes = list_of(value);
    } else if (name == "format") {
      wanted.format = value;
      has_format = true;
    } else {
      bad_request(fmt::format("{}: is unknown, expected threshold, classes or format", printable(name)));
    }
  }
  if (!has_format) wanted.format = accepted_format(request.accept, picture_formats);
  std::vector<std::string> formats{"json"};
  formats.insert(formats.end(), picture_formats.begin(), picture_formats.end());
  if (std::ranges::find(formats, wanted.format) == formats.end())
    bad_request(
        fmt::format("format: \"{}\", expected {}", printable(wanted.format), fmt::join(formats, ", ")));
  return wanted;
}

}  // namespace saccade
