// Tests the parts of a request with an image: addresses, forms, headers.
#include "train/serve/image_request.h"

#include <gtest/gtest.h>

#include "train/serve/batch_queue.h"
#include "train/serve/metrics.h"

namespace saccade {
namespace {

// Returns "STATUS line" of the HttpError that f throws.
template <class F>
std::string http_error(F&& f) {
  try {
    f();
  } catch (const HttpError& error) {
    return fmt::format("{} {}", error.status(), error.what());
  }
  return "no error";
}

std::string with_newlines(const std::string& parts) {
  std::string out;
  for (char c : parts) out += c == '\n' ? "\r\n" : std::string(1, c);
  return out;
}

TEST(ImageRequests, Addresses) {
  const HttpTarget target = parse_target("/pre%64ict?classes=red+blood%2Ccell,a%2bb&threshold=0.3&&x=");
  EXPECT_EQ(target.path, "/predict");
  EXPECT_EQ(target.fields.at("classes"), "red blood,cell,a+b");
  EXPECT_EQ(target.fields.at("threshold"), "0.3");
  EXPECT_EQ(target.fields.at("x"), "");
  EXPECT_EQ(parse_target("/a+b").path, "/a+b");
  EXPECT_EQ(parse_target("HTTP://127.0.0.1:8080/predict?threshold=0.3").path, "/predict");
  EXPECT_EQ(parse_target("https://host/a?threshold=0.3").fields.at("threshold"), "0.3");
  EXPECT_EQ(parse_target("http://host").path, "/");
  EXPECT_EQ(parse_target("http://host?x=1").fields.at("x"), "1");
  EXPECT_EQ(parse_target("/http://host/a").path, "/http://host/a");
  for (const auto& [bad, error] :
       {std::pair{"predict", "400 the address does not begin with /"},
        std::pair{"", "400 the address does not begin with /"},
        std::pair{"ftp://host/predict", "400 the address does not begin with /"},
        std::pair{"http:///predict", "400 the address has no host"},
        std::pair{"/%4", "400 the address: /%4: % without two hexadecimal digits"},
        std::pair{"/?a=%zz", "400 the address: %zz: % without two hexadecimal digits"},
        std::pair{"/?a=1&a=2", "400 a: is given twice"},
        std::pair{"/?threshold", "400 threshold: has no value, expected NAME=VALUE"}})
    EXPECT_EQ(http_error([&] { parse_target(bad); }), error);
}

TEST(ImageRequests, MediaTypes) {
  const std::string type = "Multipart/Form-Data; charset=utf-8 ; Boundary=\"a;\\\"b\" ; c = d";
  EXPECT_EQ(media_type(type), "multipart/form-data");
  EXPECT_EQ(media_parameter(type, "boundary"), "a;\"b");
  EXPECT_EQ(media_parameter(type, "c"), "d");
  EXPECT_EQ(media_parameter(type, "e"), "");
  EXPECT_EQ(media_parameter("a; boundary=\"cut", "boundary"), "cut");
  EXPECT_EQ(media_parameter("a; boundary", "boundary"), "");
  EXPECT_EQ(media_type(""), "");
}

TEST(ImageRequests, Forms) {
  const std::string whole = with_newlines(
      "in front\n--B\nContent-Disposition: form-data; name=\"threshold\"\n\n0.25\n"
      "--B\ncontent-disposition: form-data; name=\"file\"; filename=\"a b.jpg\"\nContent-Type: image/jpeg\n\n"
      "bytes\n\n--C\n--B--\nbehind");
  const FormData data = parse_form(whole, "B");
  EXPECT_EQ(data.file, with_newlines("bytes\n\n--C"));
  EXPECT_EQ(data.fields.at("threshold"), "0.25");
  // A form that is cut anywhere is refused, and nothing is read beyond its end.
  const size_t end = whole.find("--B--");
  for (size_t cut = 0; cut < end; ++cut)
    EXPECT_TRUE(
        http_error([&] { parse_form(std::string(whole, 0, cut), "B"); }).starts_with("400 multipart/"))
        << cut;
  const std::string file = "--B\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\n\nx\n";
  for (const auto& [body, error] : {
           std::pair{file + file + "--B--", "has several files, expected one image"},
           std::pair{std::string("--B\n\n\nx\n--B--"), "a part has no name"},
           std::pair{std::string("--B\nContent-Disposition: form-data; name=file\n\nx\n--B--"),
                     "file: is not a file"},
           std::pair{std::string("--B--"), "has no file"},
           std::pair{std::string("nothing"), "the boundary does not appear"},
       })
    EXPECT_NE(http_error([&] { parse_form(with_newlines(body), "B"); }).find(error), std::string::npos)
        << body;
  EXPECT_EQ(
      parse_form(with_newlines("--B\nContent-Disposition: form-data; name=f; filename=\"\"\n\n\n--B--"), "B")
          .file,
      "");
  EXPECT_NE(http_error([] { parse_form("x", ""); }).find("the boundary is missing"), std::string::npos);
}

TEST(ImageRequests, WhatIsWanted) {
  auto wanted = [](const std::string& target, const std::string& accept = "") {
    ServiceRequest request{
        .method = "POST", .target = target, .content_type = "image/png", .accept = accept, .body = "x"};
    return image_request(std::move(request), {"png", "jpg"});
  };
  EXPECT_EQ(wanted("/predict").format, "json");
  EXPECT_FALSE(wanted("/predict").options.threshold);
  for (const auto& [accept, format] : {
           std::pair{"image/png", "png"},
           std::pair{"image/jpeg, image/png", "jpg"},
           std::pair{"image/jpeg, */*;q=0.8", "jpg"},
           std::pair{"image/jpeg, */*", "jpg"},
           std::pair{"image/*", "png"},
           std::pair{"image/png;q=0, image/*", "jpg"},
           std::pair{"text/html, image/png", "png"},
           std::pair{"application/json;q=0.4, IMAGE/JPEG ; Q=0.5", "jpg"},
           std::pair{"application/json, image/png", "json"},
           std::pair{"image/png;q=0.9, application/json", "json"},
           std::pair{"image/jpeg;q=0.9, */*", "json"},
           std::pair{"*/*", "json"},
           std::pair{"text/html", "json"},
           std::pair{"image/png;q=0", "json"},
           std::pair{"image/png;q=0.000, image/jpeg;q=0", "json"},
           std::pair{"image/png;q=2, ,;q", "json"},
       })
    EXPECT_EQ(wanted("/predict", accept).format, format) << accept;
  EXPECT_EQ(wanted("/predict?format=json", "image/png").format, "json");
  const ImageRequest all = wanted("/predict?threshold=0.25&classes=a,b%20c&format=jpg");
  EXPECT_EQ(all.options.threshold, 0.25);
  EXPECT_EQ(all.options.classes, (std::vector<std::string>{"a", "b c"}));
  EXPECT_EQ(all.format, "jpg");
  EXPECT_EQ(all.bytes, "x");
  for (const auto& [bad, error] : {
           std::pair{"threshold=2", "400 threshold: \"2\", expected a number from 0 to 1"},
           std::pair{"threshold=nan", "400 threshold: \"nan\", expected a number from 0 to 1"},
           std::pair{"classes=a,,b", "400 classes: a name is empty, expected NAME,NAME,..."},
           std::pair{"classes=", "400 classes: a name is empty, expected NAME,NAME,..."},
           std::pair{"format=gif", "400 format: \"gif\", expected json, png, jpg"},
           std::pair{"tresh=0.1", "400 tresh: is unknown, expected threshold, classes or format"},
           std::pair{"%1b=1", "400 \\x1b: is unknown, expected threshold, classes or format"},
       })
    EXPECT_EQ(http_error([&] { wanted(std::string("/predict?") + bad); }), error);
  auto content = [](const std::string& type, const std::string& encoding = "") {
    return http_error([&] { check_content({.content_type = type, .content_encoding = encoding}); });
  };
  for (const char* type :
       {"", "image/jpeg", "IMAGE/x-anything", "application/octet-stream", "multipart/form-data; boundary=x"})
    EXPECT_EQ(content(type), "no error");
  EXPECT_TRUE(content("application/x-www-form-urlencoded")
                  .starts_with("415 Content-Type: application/x-www-form-urlencoded, expected image/..."));
  EXPECT_TRUE(content("text/plain").starts_with("415 "));
  EXPECT_TRUE(content("image/png", "gzip").starts_with("415 Content-Encoding: gzip"));
}

TEST(BatchQueue, TakesWhatIsOfAKind) {
  BatchQueue<int> queue;
  const std::chrono::milliseconds none(0);
  EXPECT_TRUE(queue.take(4, none).empty());
  for (const auto& [kind, thing] : {std::pair{"a", 1}, std::pair{"b", 2}, std::pair{"a", 3},
                                    std::pair{"a", 4}, std::pair{"b", 5}, std::pair{"a", 6}})
    queue.push(kind, thing);
  EXPECT_EQ(queue.take(3, none), (std::vector<int>{1, 3, 4}));
  EXPECT_EQ(queue.size(), 3u);
  EXPECT_EQ(queue.take(3, none), (std::vector<int>{2, 5}));  // the one that has waited longest
  EXPECT_EQ(queue.take(3, none), (std::vector<int>{6}));
}

TEST(ServeMetrics, AreThoseOfPrometheus) {
  ServeMetrics metrics;
  metrics.add_request(200);
  metrics.add_request(200);
  metrics.add_request(503);
  metrics.add_batch(2, 0.02);
  metrics.add_batch(3, 40);
  metrics.add_answer(0.005);
  const std::string text = metrics.text(1, 2, 64);
  for (
      const char* line :
      {"# TYPE saccade_requests_total counter\nsaccade_requests_total{status=\"200\"} 2\nsaccade_requests_total{status=\"503\"} 1\n",
       "\nsaccade_images_total 5\n", "\nsaccade_queue_waiting 1\n", "\nsaccade_queue_places_taken 2\n",
       "\nsaccade_queue_places 64\n",
       "saccade_batch_size_bucket{le=\"1\"} 0\nsaccade_batch_size_bucket{le=\"2\"} 1\nsaccade_batch_size_bucket{le=\"4\"} 2\n",
       "saccade_batch_size_bucket{le=\"+Inf\"} 2\nsaccade_batch_size_sum 5\nsaccade_batch_size_count 2\n",
       "saccade_batch_seconds_bucket{le=\"30\"} 1\nsaccade_batch_seconds_bucket{le=\"+Inf\"} 2\n",
       "saccade_answer_seconds_bucket{le=\"0.005\"} 1\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
}

}  // namespace
}  // namespace saccade
