// Tests the list of published weights, the user's own lists, and what an argument names.
#include "train/weights/catalogue.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/input_error.h"
#include "tests/test_folder.h"
#include "train/config/recipes.h"
#include "train/weights/fetch.h"

namespace saccade {
namespace {

TEST(WeightsCatalogue, OwnOnesAreOfRecipesAndOverHttps) {
  const std::vector<PublishedWeights> all = parse_catalogue(own_catalogue(), "own");
  EXPECT_GE(all.size(), 70u);
  for (const PublishedWeights& w : all) {
    SCOPED_TRACE(w.name());
    EXPECT_TRUE(w.url().starts_with("https://"));
    EXPECT_TRUE(w.page().starts_with("https://"));
    EXPECT_FALSE(w.licence().empty());
    EXPECT_FALSE(w.recipe().empty());
    EXPECT_TRUE(w.name().ends_with("_" + w.data())) << w.data();
    EXPECT_TRUE(!w.has_sha256() || w.sha256().size() == 64 || w.sha256().size() == 8);
    EXPECT_EQ(w.has_value(), w.has_metric());
    for (const std::string& recipe : w.recipe())
      EXPECT_TRUE(std::ranges::any_of(recipes(), [&](const Recipe& r) { return r.name == recipe; }))
          << recipe;
  }
}

TEST(WeightsCatalogue, SaysWhatIsWrongWithAList) {
  const std::string good = R"(name: "a" data: "coco" url: "https://x/y" recipe: "q")";
  for (const auto& [text, part] :
       {std::pair<std::string, const char*>{"weights { name: \"../a\" data: \"coco\" url: \"https://x/y\" }",
                                            "mine: weights \"../a\": expected a name of lower-case letters"},
        {"weights { data: \"coco\" url: \"https://x/y\" }", "expected a name of lower-case letters"},
        {"weights { name: \"a\" url: \"https://x/y\" }", "data: expected a name"},
        {"weights { name: \"a\" data: \"coco\" url: \"file:///etc/passwd\" }", "url: expected an address"},
        {"weights { name: \"a\" data: \"coco\" url: \"https://x/\\ny\" }", "url: expected an address"},
        {"weights { " + good + " sha256: \"12AB\" }", "sha256: expected 64 hexadecimal digits"},
        {"weights { " + good + " sha256: \"1234567\" }", "sha256: expected 64 hexadecimal digits"},
        {"weights { " + good + " bytes: 0 }", "bytes: expected a number from 1 to "},
        {"weights { " + good + " bytes: 999999999999999 }", "bytes: expected a number from 1 to "},
        {"weights { " + good + " value: nan }",
         "mine: weights \"a\": value: expected a number from 0 to 100"},
        {"weights { " + good + " value: -inf }", "value: expected a number from 0 to 100"},
        {"weights { " + good + " figure: 1e300 }", "value: expected a number from 0 to 100"},
        {"weights { " + good + " licence: \"MIT\\nerror: x\" }",
         "mine: weights \"a\": licence: expected text of one line"},
        {"weights { " + good + " metric: \"A\\033[31m\" }", "metric: expected text of one line"},
        {"weights { " + good + " page: \"\\377\" }", "page: expected text of one line"},
        {"weights { name: \"a\" data: \"co\\nco\" url: \"https://x/y\" }", "data: expected a name"},
        {"weights { " + good + " recipe: \"r\\n\" }", "recipe: expected text of one line"},
        {"weights { name: \"a\" data: \"coco\" url: \"https://x/y\" }",
         "mine: weights \"a\": recipe: not given, expected the recipes of these weights"},
        {"weights { " + good + " } weights { " + good + " }", "mine: weights \"a\": appears twice"},
        {"weights { recipe: \"r\" " + good +
             " } weights { recipe: \"r\" name: \"b\" data: \"coco\" url: \"http://x\" }",
         "mine: weights \"b\": an earlier entry has weights of r on coco"},
        {"weights {\n nam: \"a\" }", "mine:2: no field \"nam\" in weights, did you mean \"name\"?"},
        {"weights {", "mine:1: "},
        {"\x01\xff", "mine:1: "}}) {
    const std::string line = input_error([&] { parse_catalogue(text, "mine"); });
    EXPECT_NE(line.find(part), std::string::npos) << line << "\nexpected: " << part;
    EXPECT_EQ(line.find('\n'), std::string::npos);
  }
  EXPECT_EQ(parse_catalogue("weights { " + good + " }", "mine").size(), 1u);
  const std::string begin =
      "weights { name: \"a\" data: \"coco\" url: \"https://x/y\" recipe: \"quickstart\" ";
  EXPECT_EQ(unknown_recipes(parse_catalogue(begin + "}", "mine")), "");
  EXPECT_EQ(unknown_recipes(parse_catalogue(begin + "recipe: \"quikstart\" }", "mine")),
            "weights \"a\": there is no recipe \"quikstart\", did you mean \"quickstart\"?");
  EXPECT_TRUE(unknown_recipes(parse_catalogue(begin + "recipe: \"b\" recipe: \"c\" }", "mine"))
                  .ends_with(" (and 1 more)"));
}

TEST(WeightsCatalogue, ArgumentsNameFilesOrWeights) {
  TestFolder folder;
  ::setenv("SACCADE_CACHE", folder.path().c_str(), 1);
  const auto refusal = [](const std::string& text, const std::string& model = "") {
    return input_error([&] { weights_file("--init-from", text, model, true); });
  };
  // A name with a dot or a slash is that of a file, whether it exists or not.
  EXPECT_EQ(weights_file("--init-from", "none.pth", "", true), "none.pth");
  EXPECT_EQ(weights_file("--init-from", "./coco", "dfine_n", true), "./coco");
  EXPECT_EQ(weights_file("--init-from", "", "", true), "");
  EXPECT_EQ(weights_file("--init-from", "-", "", true), "-");
  EXPECT_EQ(weights_file("--init-from", folder.path(), "", true), folder.path());
  EXPECT_NE(refusal("dfine_n_cocoo").find("\"dfine_n_cocoo\", did you mean \"dfine_n_coco\"?"),
            std::string::npos);
  EXPECT_NE(refusal("DFINE-N-COCO").find("did you mean \""), std::string::npos);
  EXPECT_EQ(
      refusal("dfine_n"),
      "--init-from: \"dfine_n\" is a recipe; its published weights are dfine_n_coco, hgnetv2_b0_imagenet");
  EXPECT_NE(refusal("coco").find("\"coco\" needs --model"), std::string::npos);
  EXPECT_EQ(
      refusal("ade20k", "dfine_n"),
      "--init-from: no file or published weights have the name \"ade20k\" (saccade weights list shows all)");
  EXPECT_EQ(
      refusal("objects365", "dfine_n"),
      "--init-from: there are no published weights of dfine_n for \"objects365\", only for coco, imagenet "
      "(saccade weights list shows all)");
  EXPECT_EQ(refusal("coco", "quickstart"),
            "--init-from: there are no published weights of quickstart "
            "(saccade weights list shows all)");
  ::unsetenv("SACCADE_CACHE");
}

}  // namespace
}  // namespace saccade
