// Tests the parts of pages: escaping, numbers, axes, histograms and small pictures.
#include <gtest/gtest.h>

#include <cmath>

#include "data/images/resize.h"
#include "data/pages/chart.h"
#include "data/pages/picture.h"
#include "tests/data/test_files.h"

namespace saccade {
namespace {

TEST(Pages, TextFromOutsideIsEscaped) {
  const std::string hostile = "<script>a&b</script> \"x\" 'y' \x01\xff\u202e";
  EXPECT_EQ(
      html("<b title=\"{}\">{}</b>", hostile, Html{"<i>1</i>"}).code,
      "<b title=\"&lt;script&gt;a&amp;b&lt;/script&gt; &quot;x&quot; &#39;y&#39; \\x01\\xff\\u202e\"><i>1</i></b>");
  Page page(hostile, html("{}", hostile));
  page.section(hostile);
  page.add(html_table({{hostile, false, hostile}}, {{html("{}", hostile)}}));
  page.add(bar_cell(0.5, hostile));
  page.add(details(hostile, note(hostile)));
  page.add(
      line_chart({{hostile, {{0, 1}, {1, 2}}}}, {.title = hostile, .subtitle = hostile, .x_label = hostile}));
  page.add(picture(Image(4, 4), hostile, html("{}", hostile)));
  const std::string text = page.finish(hostile);
  const size_t script = text.find("<script");  // the page's own, and no other
  EXPECT_TRUE(text.substr(script).starts_with("<script>\n'use strict';\n"));
  EXPECT_TRUE(text.ends_with("\n</script></body></html>\n"));
  for (const char* other : {"<script", "&lt;", "&amp;"})
    EXPECT_EQ(text.find(other, script + 1), std::string::npos) << other;
  EXPECT_EQ(text.find("\"x\""), std::string::npos);
  for (const char* load : {"http:", "https:", "url(", "@import", "=\"//", "<link", "<iframe"})
    EXPECT_EQ(text.find(load), std::string::npos) << load;  // nothing from the network
  EXPECT_NE(text.find("content=\"default-src 'none'; img-src data:"), std::string::npos);
}

TEST(Pages, NumbersAreReadable) {
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(118287), "118,287");
  EXPECT_EQ(count_text(-1234567), "-1,234,567");
  EXPECT_EQ(number_text(0), "0");
  EXPECT_EQ(number_text(12.5), "12.5");
  EXPECT_EQ(number_text(0.0003), "0.0003");
  EXPECT_EQ(number_text(2e-6), "2.00e-06");
  EXPECT_EQ(number_text(1840.2), "1,840");
  EXPECT_EQ(number_text(NAN), "–");
  EXPECT_EQ(share_text(0.125), "12.5 %");
  EXPECT_EQ(share_text(1e-5), "< 0.1 %");
  EXPECT_EQ(metric_text(-1), "–");
  EXPECT_EQ(metric_text(0.43974), "0.440");
}

TEST(Pages, AxesHaveRoundTicks) {
  EXPECT_EQ(axis_ticks(0, 1, 5), (std::vector<double>{0, 0.2, 0.4, 0.6000000000000001, 0.8, 1}));
  EXPECT_EQ(axis_ticks(0, 850, 4), (std::vector<double>{0, 200, 400, 600, 800}));
  EXPECT_EQ(log_ticks(3, 250), (std::vector<double>{5, 10, 20, 50, 100, 200}));
  EXPECT_EQ(log_ticks(14, 19), (std::vector<double>{14, 15, 16, 17, 18, 19}));
  EXPECT_LE(log_ticks(1e-300, 1e300).size(), 12u);
}

// A label at the edge stays in the picture: it is moved in on the right and set narrower on the left.
TEST(Pages, LabelsOfAxesAreNotCutOff) {
  const std::string code =
      line_chart({{"rate", {{0, 0.000125}, {7000, 0.00021}}}}, {.title = "learning rate"}).code;
  EXPECT_NE(code.find(" textLength=\"39\""), std::string::npos) << code;
  const size_t last = code.find(">7,000<");
  ASSERT_NE(last, std::string::npos) << code;
  const size_t x = code.rfind("<text x=\"", last) + 9;
  EXPECT_LE(std::stod(code.substr(x)) + 0.5 * 5 * 6.3, 360);
}

// Values that are all 0 so far do not appear in the middle of -0.5 to 0.5.
TEST(Pages, AnAxisBeginsWhereItIsToldTo) {
  const std::string code = line_chart({{"AP", {{0, 0}, {1, 0}}}}, {.title = "AP", .y_low = 0}).code;
  EXPECT_EQ(code.find(">-0"), std::string::npos) << code;
  EXPECT_NE(code.find("text-anchor=\"end\">1<"), std::string::npos) << code;
}

TEST(Pages, ChartsTakeAnyNumbers) {
  for (double v : std::vector<double>{0.0, 1e300, -1e300, NAN, INFINITY, 1e-300}) {
    for (bool is_log : {false, true}) {
      const Html chart = line_chart({{"a", {{0, v}, {1, 1}}}}, {.title = "t", .log_y = is_log});
      EXPECT_EQ(chart.code.find("nan"), std::string::npos) << v << chart.code;
      EXPECT_EQ(chart.code.find("inf"), std::string::npos) << v << chart.code;
      const Html bars = histogram_chart(Histogram::of({v, 1, 1}, is_log), {.title = "t"});
      EXPECT_EQ(bars.code.find("nan"), std::string::npos) << v << bars.code;
    }
  }
  EXPECT_NE(line_chart({}, {.title = "t"}).code.find("nothing to show"), std::string::npos);
}

TEST(Pages, HistogramsCountEachValueOnce) {
  std::vector<double> values;
  for (int i = 1; i <= 1000; ++i) values.push_back(i);
  for (bool is_log : {false, true}) {
    const Histogram h = Histogram::of(values, is_log);
    int64_t sum = 0;
    for (int64_t n : h.counts) sum += n;
    EXPECT_EQ(sum, 1000);
  }
  EXPECT_EQ(Histogram::of({2, 2, 3, 5}, false, true).counts, (std::vector<int64_t>{2, 1, 0, 1}));
}

TEST(Pages, CurvesAreThinnedByMeans) {
  std::vector<ChartPoint> points;
  for (int i = 0; i < 1000; ++i) points.push_back({static_cast<double>(i), i % 2 ? 1.0 : 3.0});
  const std::vector<ChartPoint> thin = thinned(points, 100);
  ASSERT_EQ(thin.size(), 100u);
  for (const ChartPoint& p : thin) EXPECT_EQ(p.y, 2);
  EXPECT_EQ(thin[0].x, 4.5);
}

TEST(Pages, MasksGoWithTheirBoxes) {
  const ImageSize size{40, 80};
  const std::vector<double> corners{20, 10, 60, 10, 60, 30, 20, 30};
  const auto mask = std::make_shared<const Mask>(Mask::from_polygons(size, {{corners}}));
  const Instance box{.label = 4, .box = {20, 10, 60, 30}, .score = -1, .mask = mask};
  const Image image(size.height, size.width);
  auto tinted = [](const Image& drawn) {
    int64_t count = 0;
    const Rgb color = color_of_label(4);
    for (size_t i = 0; i < drawn.rgb.size(); i += 3)
      count += std::abs(drawn.rgb[i] - 0.4 * color[0]) < 1 && std::abs(drawn.rgb[i + 1] - 0.4 * color[1]) < 1;
    return count;
  };
  // At half the size, and enlarged; the tag hides some of it.
  EXPECT_GT(tinted(small_picture(image, {box}, {}, 40)), 40);
  EXPECT_EQ(tinted(small_picture(image, {{20, 10, 60, 30, 4}}, {}, 40)), 0);
  EXPECT_GT(tinted(cut_around(image, box, {}, {}, 160)), 500);
}

TEST(Pages, SmallPicturesOfJpegFilesAreTheLargeOnesResized) {
  Image image(250, 403);
  for (int64_t y = 0; y < 250; ++y)
    for (int64_t x = 0; x < 403; ++x)
      for (int c = 0; c < 3; ++c)
        image.row(y)[3 * x + c] = static_cast<uint8_t>((x / 2 + y / 3 + 60 * c) % 256);
  const std::vector<uint8_t> file = encode_jpeg(image, 95);
  const Image read = decode_image(file, "f");
  ASSERT_EQ(read.width, 403);
  for (int64_t side : {403, 200, 100, 50, 40}) {
    const Image small = decode_small_image(file, "f", side),
                resized = resize_image(read, small.height, small.width);
    EXPECT_EQ(std::max(small.width, small.height), side);
    EXPECT_NEAR(static_cast<double>(small.height) / static_cast<double>(small.width), 250.0 / 403, 0.02);
    double difference = 0;
    for (size_t i = 0; i < small.rgb.size(); ++i) difference += std::abs(small.rgb[i] - resized.rgb[i]);
    EXPECT_LT(difference / static_cast<double>(small.rgb.size()), 5) << side;
  }
  EXPECT_EQ(decode_small_image(encode_png(image), "f", 1000), image);
}

}  // namespace
}  // namespace saccade
