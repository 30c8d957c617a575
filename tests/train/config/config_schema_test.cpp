// Tests the schema's rules: every field has one, the README is printed from them, values outside are refused,
// and the presets of model families come between them and the user's values.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <sstream>

#include "core/tensor/error.h"
#include "models/build.h"
#include "tests/input_error.h"
#include "train/config/config.h"
#include "train/config/options.h"
#include "train/config/schema/config_fields.h"
#include "train/config/schema/moved_fields.h"
#include "train/config/schema/rules.h"
#include "train/config/text.h"

namespace saccade {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

void for_each_field(const std::function<void(const FieldDescriptor*)>& visit) {
  const auto* file = Config::descriptor()->file();
  for (int i = 0; i < file->message_type_count(); ++i)
    for (const FieldDescriptor* f : fields_of(file->message_type(i))) visit(f);
}

TEST(Schema, EveryFieldHasARuleWithText) {
  int count = 0;
  for_each_field([&](const FieldDescriptor* f) {
    EXPECT_FALSE(rule_of(f).text().empty()) << f->full_name();
    // The values of keyed arguments are checked by the layer that reads them.
    const bool limited = is_number(f) && f->containing_type() != config::Arg::descriptor();
    EXPECT_TRUE(!limited || !allowed_text(f).empty()) << f->full_name();
    ++count;
  });
  EXPECT_GT(count, 120);
}

// Counts the fields below a message. What a resumed run may do with them is stated once: at a field, or at a
// message that contains it.
int count_decided(const Descriptor* type, bool decided_above) {
  int count = 0;
  for (const FieldDescriptor* f : fields_of(type)) {
    const bool decided = rule_of(f).has_on_resume();
    EXPECT_FALSE(decided && decided_above) << f->full_name() << ": said of its message already";
    if (f->message_type() && !decided && !decided_above && !f->is_repeated()) {
      count += count_decided(f->message_type(), false);
    } else {
      EXPECT_TRUE(decided || decided_above) << f->full_name() << ": no on_resume";
      count += f->message_type() ? count_decided(f->message_type(), true) : 1;
    }
  }
  return count;
}

TEST(Schema, EveryFieldSaysWhatAResumedRunMayDo) {
  EXPECT_GT(count_decided(Config::descriptor(), false), 150);
}

TEST(Schema, TheReadmeIsPrintedFromIt) {
  std::ifstream in(SACCADE_SOURCE_DIR "/configs/README.md");
  std::ostringstream text;
  text << in.rdbuf();
  const std::string marker = "\n<!-- fields -->\n";
  const size_t at = text.str().find(marker);
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(text.str().substr(at + marker.size()), config_tables())
      << "configs/README.md says how to print it anew";
}

// Collects, for every field, values of --set that are slightly outside its rule. `path` leads to the message.
void collect_bad_sets(const Descriptor* type, const std::string& path,
                      std::vector<std::pair<std::string, std::string>>& out) {
  for (const FieldDescriptor* f : fields_of(type)) {
    const std::string name = path.empty() ? f->name() : path + "." + f->name();
    if (f->message_type() == config::Arg::descriptor()) continue;
    if (f->message_type()) {
      collect_bad_sets(f->message_type(), f->is_repeated() ? name + ".0" : name, out);
      continue;
    }
    const config::Rule& rule = rule_of(f);
    const bool whole = f->cpp_type() != FieldDescriptor::CPPTYPE_DOUBLE;
    auto add = [&](double x) { out.emplace_back(name, fmt::format("{}", x)); };
    if (rule.has_min() && f->cpp_type() != FieldDescriptor::CPPTYPE_UINT64)
      add(whole ? rule.min() - 1 : rule.min() - 1e-6);
    if (rule.has_max()) add(whole ? rule.max() + 1 : rule.max() * (1 + 1e-6));
    if (rule.has_above()) add(rule.above());
    if (rule.has_below()) add(rule.below());
    if (is_number(f) && !whole) out.emplace_back(name, "nan");
    if (is_number(f) && !whole) out.emplace_back(name, "inf");
    if (rule.choice_size() > 0) out.emplace_back(name, is_number(f) ? "1" : "nothing");
    if (rule.has_registry()) out.emplace_back(name, "nothing");
    if (rule.regex()) out.emplace_back(name, "(");
  }
}

TEST(Schema, ValuesOutsideAreRefusedByName) {
  std::vector<std::pair<std::string, std::string>> sets;
  collect_bad_sets(Config::descriptor(), "", sets);
  EXPECT_GT(sets.size(), 200u);
  for (const auto& [name, value] : sets) {
    Config c;
    for (const char* element : {"optimizer.group={regex: \"a\"}", "data.more_train={}", "data.more_val={}"})
      apply_set(c, element);
    apply_set(c, name + "=" + value);
    const std::string message = input_error([&, &name = name] { validate_config(c); });
    EXPECT_TRUE(message.starts_with(name + ": ") || message.starts_with(name + ".0: "))
        << name << "=" << value << ": " << message;
    EXPECT_NE(message.find(value == "(" ? "not a regular expression" : "expected "), std::string::npos)
        << message;
  }
}

TEST(Schema, DefaultsAreWithinTheirRules) {
  Config c;
  write_defaults(c);
  EXPECT_EQ(input_error([&] { check_rules(c); }), "no error");
}

TEST(Schema, RangesAreSaidInWords) {
  auto range = [](const char* message, const char* field) {
    const auto* file = Config::descriptor()->file();
    return allowed_text(file->FindMessageTypeByName(message)->FindFieldByName(field));
  };
  EXPECT_EQ(range("Data", "batch_size"), "1 to 65536");
  EXPECT_EQ(range("Data", "cache_mb"), "at least 0 MiB");
  EXPECT_EQ(range("Schedule", "gamma"), "more than 0, at most 1");
  EXPECT_EQ(range("Transformer", "dropout"), "at least 0, less than 1");
  EXPECT_EQ(range("Train", "max_steps"), "0 to 1e15 steps");
  EXPECT_EQ(range("Backbone", "depth"), "18, 34, 50, 101");
  EXPECT_EQ(range("Backbone", "dilation"), "");
}

TEST(Presets, DetrAloneIsThePublishedModel) {
  const Config c = parse_config("model { type: \"detr\" }", "F");
  EXPECT_EQ(input_error([&] { validate_config(c); }), "no error");
  const Config resolved = resolve_config(c);
  EXPECT_EQ(resolved.criterion().class_loss(), config::softmax);
  EXPECT_EQ(resolved.criterion().cost_class(), 1);
  // DETR-R50 with COCO's 91 classes and "no object"
  EXPECT_EQ(build_as<Detector>(model_args(c), 91, criterion_args(c))->parameter_count(), 41524768);
  // The user's values take precedence.
  Config user = c;
  apply_set(user, "model.transformer.ffn_dim=64");
  apply_set(user, "criterion.class_weight=3");
  EXPECT_EQ(resolve_config(user).model().transformer().ffn_dim(), 64);
  EXPECT_EQ(resolve_config(user).model().transformer().queries(), 100);
  EXPECT_EQ(resolve_config(user).criterion().class_weight(), 3);
  // The resolved text gives the same configuration.
  EXPECT_EQ(config_text(parse_config(config_text(c), "resolved")), config_text(c));
}

TEST(Presets, AClassLossHasWeightsOfItsOwn) {
  auto criterion = [](const std::string& text) {
    return resolve_config(parse_config(text, "F")).criterion();
  };
  for (const char* type : {"deformable_detr", "rt_detr"}) {
    const config::Criterion c =
        criterion(fmt::format("model {{ type: \"{}\" }} criterion {{ class_loss: varifocal }}", type));
    EXPECT_EQ(c.class_weight(), 1);
    EXPECT_EQ(c.focal_alpha(), 0.75);
    EXPECT_EQ(c.cost_alpha(), 0.25);
  }
  EXPECT_EQ(criterion("model { type: \"rt_detr\" }").focal_alpha(), 0.75);
  // With another loss than the family's, the weights are that loss's defaults and none of the family's.
  const config::Criterion focal = criterion("model { type: \"rt_detr\" } criterion { class_loss: focal }");
  EXPECT_EQ(focal.class_weight(), 2);
  EXPECT_EQ(focal.focal_alpha(), 0.25);
  EXPECT_FALSE(focal.has_cost_alpha());
  EXPECT_EQ(criterion("model { type: \"dino\" }").class_weight(), 1);  // the family's, with the same loss
  EXPECT_EQ(criterion("criterion { class_loss: mal focal_gamma: 2 }").focal_gamma(), 2);
}

TEST(Presets, FieldsOfTheOtherFamilyMayStandAtTheirDefaults) {
  auto checked = [](const std::string& text) {
    return input_error([&] {
      const Config c = parse_config("model { backbone { depth: 18 } " + text + " }", "F");
      validate_config(c);
      build_as<Detector>(model_args(c), 4, criterion_args(c));
    });
  };
  const std::string detr = "type: \"detr\" ";
  EXPECT_EQ(checked(detr + "transformer { levels: 1 } deformable_detr { box_refine: false }"), "no error");
  EXPECT_EQ(checked(detr + "rt_detr { hybrid_encoder { dim: 256 } } deformable_detr { }"), "no error");
  EXPECT_EQ(checked(detr + "transformer { levels: 4 }"),
            "model.transformer.levels: 4 is not used by DETR, expected 1");
  EXPECT_EQ(checked("detr { pre_norm: false position_encoding: \"sine\" }"), "no error");
  EXPECT_EQ(checked(detr + "deformable_detr { box_refine: true }"),
            "model.deformable_detr: is set, but model.type \"detr\" does not read it, expected only "
            "model.backbone, model.transformer, model.detr");
  EXPECT_EQ(checked("transformer { position_encoding: \"learned\" }"),
            "model.detr: is set, but model.type \"deformable_detr\" does not read it, expected only "
            "model.backbone, model.transformer, model.deformable_detr");
  EXPECT_EQ(checked("type: \"dino\" rt_detr { hybrid_encoder { ffn_dim: 32 } }"),
            "model.rt_detr: is set, but model.type \"dino\" does not read it, expected only model.backbone, "
            "model.transformer");
}

// Every old name is read as today's: in a file, in --set, and in a message that --set gives.
TEST(MovedFields, AreReadUnderTheirOldNames) {
  const Descriptor* all = Config::descriptor();
  int count = 0;
  std::function<void(const Descriptor*, const std::string&)> look = [&](const Descriptor* type,
                                                                        const std::string& path) {
    for (int i = 0; i < type->field_count(); ++i) {
      const FieldDescriptor* f = type->field(i);
      const std::string old_path = path + f->name();
      if (!rule_of(f).has_moved_to()) {
        if (f->message_type() && !f->is_repeated()) look(f->message_type(), old_path + ".");
        continue;
      }
      ++count;
      SCOPED_TRACE(old_path);
      const std::string& today = rule_of(f).moved_to();
      std::string value = f->message_type()                                  ? "{dim: 12}"
                          : f->cpp_type() == FieldDescriptor::CPPTYPE_BOOL   ? "true"
                          : f->cpp_type() == FieldDescriptor::CPPTYPE_STRING ? "\"x\""
                                                                             : "3";
      if (f->is_repeated()) value = "[" + value + ", " + value + "]";
      const std::string parent = path.substr(0, path.size() - 1), inner = f->name() + ": " + value;
      Config want, set, message;
      for (Config* c : {&want, &set}) apply_set(*c, parent + "={}");
      apply_set(want, today + "=" + value);
      apply_set(set, old_path + "=" + value);
      EXPECT_EQ(path_of_today(old_path + ".dim"), today + ".dim");
      EXPECT_EQ(set.DebugString(), want.DebugString());
      apply_set(message, parent + "={" + inner + "}");
      EXPECT_EQ(message.DebugString(), want.DebugString());
      std::string text = inner;
      const std::vector<std::string> messages = split(parent, '.');
      for (size_t k = messages.size(); k-- > 0;) text = messages[k] + " { " + text + " }";
      std::vector<std::string> notes;
      const Config file = parse_config(text, "F", &notes);
      EXPECT_EQ(notes, std::vector{"note: F: " + old_path + " is now " + today});
      EXPECT_EQ(file.DebugString(), want.DebugString());
      EXPECT_FALSE(rule_of(f).has_text() || f->has_default_value());
    }
  };
  look(all, "");
  EXPECT_EQ(count, 21);
}

TEST(MovedFields, StandOnceInAFile) {
  EXPECT_EQ(
      input_error(
          [] { parse_config("model { transformer { eval_layers: 2 } rt_detr { eval_layers: 3 } }", "F"); }),
      "F: model.transformer.eval_layers is the old name of model.rt_detr.eval_layers; they cannot be combined");
  EXPECT_EQ(input_error([] { parse_config("train { checkpoint_modules: \"a\" recompute: \"b\" }", "F"); }),
            "F: train.checkpoint_modules is the old name of train.recompute; they cannot be combined");
  Config c = parse_config("model { rt_detr { hybrid_encoder { dim: 12 } } }", "F");
  apply_set(c, "model.transformer.hybrid_encoder.ffn_dim=34");
  EXPECT_EQ(c.model().rt_detr().hybrid_encoder().dim(), 12);
  EXPECT_EQ(c.model().rt_detr().hybrid_encoder().ffn_dim(), 34);
  EXPECT_EQ(input_error([&] { apply_set(c, "model.transformer.eval_layers=many"); }),
            "--set model.rt_detr.eval_layers: \"many\" is not valid, expected a whole number from 0 to 64");
  std::vector<std::string> notes;
  parse_config("model { transformer { box_refine: true two_stage: true } }", "F", &notes);
  EXPECT_EQ(notes, std::vector<std::string>{
                       "note: F: model.transformer.box_refine is now model.deformable_detr.box_refine, "
                       "model.transformer.two_stage is now model.deformable_detr.two_stage"});
}

}  // namespace
}  // namespace saccade
