// Tests hostile configurations: whatever a field or a file contains, the answer is a model that can be built
// or one short error, at once. The loops walk the schema, so that a new field is tested as soon as it exists.
// Single texts are in bad_inputs/config.table.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "core/files/nearest.h"
#include "core/tensor/philox.h"
#include "tests/input_error.h"
#include "tests/test_folder.h"
#include "train/checkpoints/load_model.h"
#include "train/config/config.h"
#include "train/config/schema/config_fields.h"
#include "train/config/schema/rules.h"

namespace saccade {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

const std::string kLongWord(30000, 'x');

// Returns the message of f's error, which must come soon and be one line that a person can read.
template <class F>
std::string quick_error(const std::string& what, F&& f) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string message = input_error(f);
  // It takes milliseconds; the rest is for a sanitizer on a busy machine.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << what;
  EXPECT_LT(message.size(), 700u) << what;
  EXPECT_EQ(message.find('\n'), std::string::npos) << what << ": " << message;
  return message;
}

struct Field {
  std::string path;
  const FieldDescriptor* field;
};

void collect_fields(const Descriptor* type, const std::string& path, std::vector<Field>& out) {
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* f = type->field(i);
    std::string name = path.empty() ? f->name() : path + "." + f->name();
    out.push_back({name, f});
    if (f->message_type() && f->message_type() != config::Arg::descriptor())
      collect_fields(f->message_type(), f->is_repeated() ? name + ".0" : name, out);
  }
}

std::vector<std::string> hostile_values(const FieldDescriptor* f) {
  std::vector<std::string> values{"",
                                  kLongWord,
                                  "\x1b[31m",
                                  "%s%n",
                                  "{",
                                  "[",
                                  "[]",
                                  "{}",
                                  "-1",
                                  "0",
                                  "1",
                                  "65536",
                                  "2147483647",
                                  "-2147483648",
                                  "9223372036854775807",
                                  "1e18",
                                  "-1e18",
                                  "1e-300",
                                  "nan",
                                  "inf",
                                  "1,1",
                                  "1,1,1",
                                  "2147483647,1,1,1",
                                  "1e18,1e18,1e18",
                                  "1e-30,1e-30,1e-30",
                                  std::string(20000, '('),
                                  "(a{1000}){1000}",
                                  "(a*)*b(a*)*b(a*)*"};
  const config::Rule& rule = rule_of(f);
  for (auto [has, limit] : {std::pair{rule.has_min(), rule.min()},
                            {rule.has_max(), rule.max()},
                            {rule.has_above(), rule.above()},
                            {rule.has_below(), rule.below()}})
    if (has)
      for (int step : {-1, 0, 1}) values.push_back(fmt::format("{:.0f}", limit + step));
  return values;
}

// Three small models: a value may meet any of their fields.
const char* kModels[] = {
    "model { backbone { blocks: [1, 1] width: 4 outputs: [2] } transformer { hidden_dim: 8 heads: 2 encoder_layers: 1 "
    "decoder_layers: 1 ffn_dim: 8 queries: 2 levels: 1 } }",
    "model { type: \"detr\" backbone { depth: 18 } transformer { encoder_layers: 1 decoder_layers: 1 } }",
    "model { type: \"classifier\" backbone { type: \"swin\" arg { key: \"depths\" ints: [1] } arg { key: \"heads\" "
    "ints: [1] } } } data { augment { height: 32 width: 32 } val_height: 32 val_width: 32 }"};

TEST(HostileConfig, EveryFieldRefusesOrFits) {
  std::vector<Field> fields;
  collect_fields(Config::descriptor(), "", fields);
  ASSERT_GT(fields.size(), 130u);
  int refused = 0, taken = 0;
  for (const char* model : kModels) {
    const Config base = parse_config(model, "base");
    for (const Field& field : fields)
      for (const std::string& value : hostile_values(field.field)) {
        const std::string set = field.path + "=" + value;
        const std::string message = quick_error(shortened(set), [&] {
          Config config = base;
          apply_set(config, "optimizer.group={regex: \"a\"}");
          apply_set(config, set);
          validate_config(config);
          sketch_model(build_args(config), std::max(1, config.model().num_classes()));
        });
        ++(message == "no error" ? taken : refused);
      }
  }
  EXPECT_GT(refused, 8000);
  EXPECT_GT(taken, 500);
}

// The schema has no rules for the arguments of layers and backbones; the code that reads them checks them.
TEST(HostileConfig, EveryArgumentRefusesOrFits) {
  struct Case {
    const char *base, *section;
    std::vector<std::string> keys;
  };
  const std::string vision = "data { augment { height: 32 width: 32 } val_height: 32 val_width: 32 }";
  const std::vector<Case> kCases = {
      {"vit",
       "model.backbone",
       {"image_size", "patch", "dim", "depth", "heads", "mlp_ratio", "drop_path", "distilled"}},
      {"swin",
       "model.backbone",
       {"embed_dim", "depths", "heads", "window", "patch", "mlp_ratio", "drop_path", "attention_stages"}},
      {"dat",
       "model.backbone",
       {"blocks", "dims", "heads", "groups", "kernels", "strides", "reductions", "window", "image_size",
        "drop_path"}},
      {"dat_pp",
       "model.backbone",
       {"blocks", "dims", "heads", "groups", "kernels", "strides", "window", "image_size", "drop_path"}},
      {"pvt",
       "model.backbone",
       {"depths", "dims", "heads", "mlp_ratios", "reductions", "image_size", "drop_path"}}};
  for (const Case& c : kCases)
    for (const std::string& key : c.keys)
      for (const std::string& value :
           {kLongWord, std::string("0"), std::string("-1"), std::string("2147483647"),
            std::string("9223372036854775807"), std::string("[]"), std::string("[2147483647,1,1,1]"),
            std::string("[9223372036854775807]"), std::string("[0,0,0,0]"), std::string("nan"),
            std::string("1e18"), "\"" + std::string(5000, 'L') + "\"",
            std::string("[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]"), std::string("[1,1,1,1]"),
            std::string("true")})
        quick_error(std::string(c.base) + " " + key + "=" + shortened(value), [&] {
          Config config = parse_config("model { type: \"classifier\" } " + vision, "base");
          apply_set(config, std::string("model.backbone.type=") + c.base);
          apply_set(config, std::string(c.section) + ".arg." + key + "=" + value);
          validate_config(config);
          sketch_model(build_args(config), 1);
        });
}

TEST(HostileConfig, ExpressionsThatTakeLongElsewhereTakeNoTime) {
  for (const std::string regex : {"(x+x+)+y", "((((((((((a?)*)*)*)*)*)*)*)*)*)b"})
    quick_error(regex, [&] {
      const Config config = parse_config("optimizer { group { regex: \"" + regex + "\" } }", "F");
      validate_config(config);
      sketch_model(build_args(config), 3);
    });
}

TEST(HostileConfig, DamagedTextsEndInAnError) {
  const std::string good = config_text(parse_config(kModels[0], "base"));
  Rng rng(7);
  auto below = [&](size_t n) { return static_cast<size_t>(rng.uniform() * static_cast<double>(n)); };
  for (int i = 0; i < 400; ++i) {
    std::string text = good;
    for (size_t edits = 1 + below(4); edits > 0; --edits) {
      const size_t at = below(text.size()), length = 1 + below(8);
      switch (below(4)) {
        case 0:
          text[at] = static_cast<char>(below(256));
          break;
        case 1:
          text.erase(at, length);
          break;
        case 2:
          text.insert(at, text, below(text.size()), length);
          break;
        default:
          text.insert(at, std::string(length, "9{}[]:\"-"[below(8)]));
      }
    }
    quick_error(text, [&] {
      const Config config = parse_config(text, "F");
      validate_config(config);
      sketch_model(build_args(config), 3);
    });
  }
}

TEST(HostileConfig, NearNamesOfLongWordsAreFoundAtOnce) {
  const std::vector<std::string> names{"batch_size", "workers"};
  EXPECT_EQ(nearest_name("multi_scale_heights" + std::string(10'000'000, 's'), names), "");
}

}  // namespace
}  // namespace saccade
