#include "train/config/config.h"

#include <fmt/ranges.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <cctype>
#include <fstream>
#include <optional>
#include <regex>
#include <sstream>

#include "core/tensor/error.h"
#include "models/build.h"
#include "train/config/config_fields.h"
#include "train/config/nearest.h"
#include "train/config/task.h"

namespace saccade {

namespace pb = google::protobuf;

namespace {

// Keeps the first error of a parse.
class FirstError : public pb::io::ErrorCollector {
 public:
  void AddError(int line, pb::io::ColumnNumber column, const std::string& message) override {
    if (!message_) {
      line_ = line;
      column_ = column;
      message_ = message;
    }
  }
  bool any() const { return message_.has_value(); }
  int line() const { return line_; }
  int column() const { return column_; }
  const std::string& message() const { return *message_; }

 private:
  int line_ = 0, column_ = 0;
  std::optional<std::string> message_;
};

std::string line_of(const std::string& text, int number) {
  std::istringstream in(text);
  std::string line;
  for (int i = 0; i <= number; ++i)
    if (!std::getline(in, line)) return "";
  return line;
}

std::string trimmed_line(const std::string& text, int number) {
  std::string line = line_of(text, number);
  size_t begin = line.find_first_not_of(" \t\r");
  size_t end = line.find_last_not_of(" \t\r");
  if (begin == std::string::npos) return "";
  line = line.substr(begin, end - begin + 1);
  return line.size() > 60 ? line.substr(0, 57) + "..." : line;
}

// The parser reports an unknown name at the token that follows it; the user wants the name.
int column_of(const FirstError& error, const std::string& text) {
  static const std::regex kNamed(
      "(?:Message type .* has no field named|Unknown enumeration value of) \"([^\"]+)\".*");
  std::smatch m;
  if (error.column() == 0 || !std::regex_match(error.message(), m, kNamed)) return error.column();
  size_t at = line_of(text, error.line()).rfind(m[1].str(), static_cast<size_t>(error.column()));
  return at == std::string::npos ? error.column() : static_cast<int>(at);
}

const pb::EnumDescriptor* enum_of_field(const std::string& field) {
  const pb::FileDescriptor* file = Config::descriptor()->file();
  for (int i = 0; i < file->message_type_count(); ++i)
    if (const pb::FieldDescriptor* f = file->message_type(i)->FindFieldByName(field))
      if (f->enum_type()) return f->enum_type();
  return nullptr;
}

// The parser's message in our words, with the nearest name for what is misspelt.
std::string explain(const FirstError& error, const std::string& text) {
  static const std::regex kNoField("Message type \"([^\"]+)\" has no field named \"([^\"]+)\"\\.?");
  static const std::regex kNoEnum("Unknown enumeration value of \"([^\"]+)\" for field \"([^\"]+)\"\\.?");
  std::smatch m;
  const pb::DescriptorPool* pool = pb::DescriptorPool::generated_pool();
  if (std::regex_match(error.message(), m, kNoField)) {
    if (const pb::Descriptor* type = pool->FindMessageTypeByName(m[1].str())) {
      std::string nearest = nearest_name(m[2].str(), field_names(type));
      return fmt::format("no field \"{}\" in {}, did you mean \"{}\"?", m[2].str(), type->name(), nearest);
    }
  }
  std::string message = error.message();
  if (std::regex_match(message, m, kNoEnum)) {
    if (const pb::EnumDescriptor* type = enum_of_field(m[2].str()))
      return fmt::format("\"{}\" is not a value of {}, expected one of {}", m[1].str(), m[2].str(),
                         enum_names(type));
  }
  if (!message.empty()) message[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(message[0])));
  if (!message.empty() && message.back() == '.') message.pop_back();
  std::string line = trimmed_line(text, error.line());
  return line.empty() ? message : fmt::format("{} (in `{}`)", message, line);
}

struct Range {
  const char* field;
  double low, high;
  bool low_is_allowed = true;
};
constexpr double kMax = 2147483647.0;
constexpr Range kRanges[] = {
    {"model.num_classes", 0, kMax},
    {"model.transformer.dropout", 0, 0.999},
    {"criterion.class_weight", 0, 1e9},
    {"criterion.bbox_weight", 0, 1e9},
    {"criterion.giou_weight", 0, 1e9},
    {"criterion.focal_alpha", 0, 1},
    {"criterion.focal_gamma", 0, 100},
    {"criterion.no_object_weight", 0, 1e9},
    {"criterion.cost_class", 0, 1e9},
    {"criterion.cost_bbox", 0, 1e9},
    {"criterion.cost_giou", 0, 1e9},
    {"criterion.extra_group_repeat", 1, 1024},
    {"criterion.label_smoothing", 0, 1},
    {"data.batch_size", 1, 65536},
    {"data.workers", 0, 1024},
    {"data.prefetch", 1, 4096},
    {"data.cache_mb", 0, kMax},
    {"data.pad_multiple", 1, 4096},
    {"data.val_short_side", 1, 65536},
    {"data.val_long_side", 1, 65536},
    {"data.val_height", 0, 65536},
    {"data.val_width", 0, 65536},
    {"data.val_center", 0, 1},
    {"data.mix.mixup_alpha", 0, 1e6},
    {"data.mix.cutmix_alpha", 0, 1e6},
    {"data.mix.probability", 0, 1},
    {"data.mix.cutmix_probability", 0, 1},
    {"data.augment.horizontal_flip", 0, 1},
    {"data.augment.vertical_flip", 0, 1},
    {"data.augment.rotate90", 0, 1},
    {"data.augment.short_sides", 1, 65536},
    {"data.augment.long_side", 1, 65536},
    {"data.augment.crop_probability", 0, 1},
    {"data.augment.crop_short_sides", 1, 65536},
    {"data.augment.crop_min", 1, 65536},
    {"data.augment.crop_max", 1, 65536},
    {"data.augment.height", 0, 65536},
    {"data.augment.width", 0, 65536},
    {"data.augment.scale_min", 0, 100, false},
    {"data.augment.scale_max", 0, 100, false},
    {"data.augment.brightness", 0, 1},
    {"data.augment.contrast", 0, 1},
    {"data.augment.saturation", 0, 1},
    {"data.augment.hue", 0, 0.5},
    {"data.augment.color_probability", 0, 1},
    {"data.augment.max_stretch", 1, 100},
    {"data.augment.min_visible", 0, 1},
    {"data.augment.crop_area_min", 0, 1},
    {"data.augment.crop_area_max", 0, 1, false},
    {"data.augment.crop_ratio_min", 0, 100, false},
    {"data.augment.crop_ratio_max", 0, 100, false},
    {"data.augment.erase_probability", 0, 1},
    {"data.std", 0, 1e9, false},
    {"optimizer.learning_rate", 0, 1e9, false},
    {"optimizer.weight_decay", 0, 1e9},
    {"optimizer.beta1", 0, 0.9999999},
    {"optimizer.beta2", 0, 0.9999999},
    {"optimizer.epsilon", 0, 1, false},
    {"optimizer.momentum", 0, 0.9999999},
    {"optimizer.clip_norm", 0, 1e9},
    {"optimizer.group.lr_mult", 0, 1e9},
    {"optimizer.group.weight_decay", 0, 1e9},
    {"schedule.warmup_steps", 0, kMax},
    {"schedule.warmup_epochs", 0, 1e9},
    {"schedule.warmup_ratio", 0, 1},
    {"schedule.drop_epochs", 0, 1e9},
    {"schedule.gamma", 0, 1e9, false},
    {"schedule.final_ratio", 0, 1},
    {"train.epochs", 0, 1e9},
    {"train.max_steps", 0, 1e15},
    {"train.log_every", 1, kMax},
    {"train.eval_every_epochs", 0, 1e9},
    {"train.checkpoint_every_steps", 0, 1e15},
    {"train.ema_decay", 0, 0.9999999},
    {"train.accumulate", 1, 65536},
    {"train.max_minutes", 0, 1e9},
    {"eval.batch_size", 0, 65536},
    {"eval.max_detections", 1, 1e6},
};

void check_choice(const char* field, const std::string& value, const std::vector<std::string>& choices) {
  for (const std::string& choice : choices)
    if (choice == value) return;
  fail_input("{}: \"{}\" is not known, expected one of {}", field, value, fmt::join(choices, ", "));
}

void check_regex(const std::string& field, const std::string& pattern) {
  try {
    std::regex compiled(pattern);
  } catch (const std::regex_error& e) {
    fail_input("{}: \"{}\" is not a regular expression: {}", field, pattern, e.what());
  }
}

void check_range(const char* low_name, double low, const char* high_name, double high) {
  if (low > high) fail_input("data.augment.{}: {} exceeds {} = {}", low_name, low, high_name, high);
}

void check_pair(const char* a_name, int a, const char* b_name, int b) {
  if ((a > 0) != (b > 0))
    fail_input("{} = {} and {} = {}: expected both to be set, or both to be 0", a_name, a, b_name, b);
}

}  // namespace

Config parse_config(const std::string& text, const std::string& name) {
  FirstError error;
  pb::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  Config config;
  bool ok = parser.ParseFromString(text, &config);
  if (!ok && !error.any()) fail_input("{}: not a configuration (textproto of saccade.config.Config)", name);
  if (!ok && error.line() < 0) fail_input("{}: {}", name, error.message());
  if (!ok)
    fail_input("{}:{}:{}: {}", name, error.line() + 1, column_of(error, text) + 1, explain(error, text));
  return config;
}

Config load_config(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf())) {
    if (!in || !in.eof()) fail_input("{}: cannot be read, expected a configuration file (textproto)", path);
  }
  return parse_config(text.str(), path);
}

void validate_config(const Config& config) {
  for (const Range& range : kRanges) {
    for (const NumberField& number : numbers_at(config, range.field)) {
      double x = number.value;
      bool ok = x <= range.high && (range.low_is_allowed ? x >= range.low : x > range.low);
      if (!ok)
        fail_input("{}: {} is out of range, expected {} {} and at most {}", number.path, x,
                   range.low_is_allowed ? "at least" : "more than", range.low, range.high);
    }
  }
  const auto& data = config.data();
  for (auto [name, size] : {std::pair{"data.mean", data.mean_size()}, std::pair{"data.std", data.std_size()}})
    if (size != 0 && size != 3)
      fail_input("{}: {} values, expected 3 (red, green, blue) or none", name, size);
  check_pair("data.val_height", data.val_height(), "data.val_width", data.val_width());
  if (data.val_long_side() < data.val_short_side())
    fail_input("data.val_long_side: {} is less than data.val_short_side = {}", data.val_long_side(),
               data.val_short_side());
  const auto& augment = data.augment();
  check_pair("data.augment.height", augment.height(), "data.augment.width", augment.width());
  check_range("crop_min", augment.crop_min(), "crop_max", augment.crop_max());
  check_range("scale_min", augment.scale_min(), "scale_max", augment.scale_max());
  check_range("crop_area_min", augment.crop_area_min(), "crop_area_max", augment.crop_area_max());
  check_range("crop_ratio_min", augment.crop_ratio_min(), "crop_ratio_max", augment.crop_ratio_max());
  if (augment.crop_area_min() > 0 && augment.height() == 0)
    fail_input("data.augment.crop_area_min: {} without height and width, expected a size for the window",
               augment.crop_area_min());
  if (data.val_center() > 0 && data.val_height() == 0)
    fail_input("data.val_center: {} without data.val_height and data.val_width, expected the centre's size",
               data.val_center());
  task_of(config).check(config);

  check_choice("optimizer.type", config.optimizer().type(), {"adamw", "sgd"});
  for (int i = 0; i < config.optimizer().group_size(); ++i)
    check_regex(fmt::format("optimizer.group.{}.regex", i), config.optimizer().group(i).regex());
  check_choice("schedule.type", config.schedule().type(), {"constant", "step", "cosine"});
  const auto& drops = config.schedule().drop_epochs();
  for (int i = 1; i < drops.size(); ++i)
    if (!(drops[i] > drops[i - 1]))
      fail_input("schedule.drop_epochs: {} follows {}, expected rising values", drops[i], drops[i - 1]);
  for (int i = 0; i < config.train().checkpoint_modules_size(); ++i)
    check_regex(fmt::format("train.checkpoint_modules.{}", i), config.train().checkpoint_modules(i));
}

void validate_for_training(const Config& config) {
  validate_config(config);
  const TaskSpec& task = task_of(config);
  task.check_split("data.train", config.data().train());
  if (config.data().has_val()) task.check_split("data.val", config.data().val());
  const auto& train = config.train();
  if (train.epochs() <= 0 && train.max_steps() <= 0 && train.max_minutes() <= 0)
    fail_input(
        "train.epochs, train.max_steps and train.max_minutes are all 0, expected at least one of them");
}

void need(const std::string& field, const std::string& value, const char* what) {
  if (value.empty())
    fail_input("{}: not set, expected {} (in the file or with --set {}=...)", field, what, field);
}

Config resolve_config(const Config& config) {
  Config resolved = config;
  write_defaults(resolved);
  // The typed defaults of a backbone are ResNet's; the others have their own.
  config::Backbone& backbone = *resolved.mutable_model()->mutable_backbone();
  if (backbone.type() != "resnet") backbone = config.model().backbone();
  if (!config.model().has_transformer() && model_types().contains(config.model().type()) &&
      !model_types().find(config.model().type()).has_transformer)
    resolved.mutable_model()->clear_transformer();
  return resolved;
}

std::string config_text(const Config& config) {
  std::string text;
  pb::TextFormat::Printer printer;
  printer.SetUseShortRepeatedPrimitives(true);
  printer.PrintToString(resolve_config(config), &text);
  return text;
}

}  // namespace saccade
