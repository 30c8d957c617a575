// Converts config.model to the Args that models are built from.
#include <google/protobuf/reflection.h>

#include <vector>

#include "core/tensor/error.h"
#include "train/config/config.h"
#include "train/config/schema/config_fields.h"
#include "train/config/schema/rules.h"

namespace saccade {

namespace {

void copy_arg(const config::Arg& arg, Args& out) {
  int lists = (arg.ints_size() > 0) + (arg.floats_size() > 0);
  bool scalar = arg.value_case() != config::Arg::VALUE_NOT_SET;
  if (lists + scalar > 1)
    fail_input("{}: argument \"{}\" has several values, expected one", out.path(), arg.key());
  if (out.has(arg.key())) fail_input("{}: argument \"{}\" is given twice", out.path(), arg.key());
  if (arg.floats_size() > 0) {
    out.set(arg.key(), std::vector<double>(arg.floats().begin(), arg.floats().end()));
    return;
  }
  switch (arg.value_case()) {
    case config::Arg::kInt:
      return out.set(arg.key(), static_cast<int64_t>(arg.int_()));
    case config::Arg::kFloat:
      return out.set(arg.key(), arg.float_());
    case config::Arg::kBool:
      return out.set(arg.key(), arg.bool_());
    case config::Arg::kString:
      return out.set(arg.key(), arg.string());
    case config::Arg::VALUE_NOT_SET:  // an empty list prints as nothing
      return out.set(arg.key(), std::vector<int64_t>(arg.ints().begin(), arg.ints().end()));
  }
}

Args::Value value_of(const pb::Message& m, const pb::FieldDescriptor* f) {
  using F = pb::FieldDescriptor;
  const bool is_float = f->cpp_type() == F::CPPTYPE_DOUBLE;
  if (is_number(f) && f->is_repeated()) {
    const std::vector<double> list = numbers_of(m, f);
    if (is_float) return list;
    return std::vector<int64_t>(list.begin(), list.end());
  }
  SACCADE_CHECK(!f->is_repeated(), "[config] {}: lists of this type are not arguments", f->full_name());
  if (is_float) return number_of(m, f, -1);
  if (is_number(f)) return static_cast<int64_t>(number_of(m, f, -1));
  if (f->cpp_type() == F::CPPTYPE_BOOL) return m.GetReflection()->GetBool(m, f);
  return value_text(m, f, -1);  // strings, and the names of enums
}

// defaults: the values if the user sets nothing.
void copy_message(const pb::Message& m, const pb::Message& defaults, Args& out) {
  const pb::Reflection* r = m.GetReflection();
  std::vector<const pb::FieldDescriptor*> fields;
  r->ListFields(m, &fields);
  for (const pb::FieldDescriptor* f : fields) {
    if (f->message_type() == config::Arg::descriptor()) continue;  // below, when the typed keys are known
    if (f->message_type()) {
      copy_message(r->GetMessage(m, f), r->GetMessage(defaults, f), out.section(f->name()));
      continue;
    }
    if (!f->is_repeated() && r->HasField(defaults, f)) out.set_default(f->name(), value_of(defaults, f));
    out.set(f->name(), value_of(m, f));
  }
  for (const pb::FieldDescriptor* f : fields)
    if (f->message_type() == config::Arg::descriptor())
      for (int i = 0; i < r->FieldSize(m, f); ++i)
        copy_arg(static_cast<const config::Arg&>(r->GetRepeatedMessage(m, f, i)), out);
}

// The configuration if only the types of model and backbone were given.
Config defaults_of(const Config& config) {
  Config bare;
  bare.mutable_model()->set_type(config.model().type());
  bare.mutable_model()->mutable_backbone()->set_type(config.model().backbone().type());
  return resolve_config(bare);
}

}  // namespace

BuildArgs build_args(const Config& config) {
  Config resolved = resolve_config(config), defaults = defaults_of(config);
  check_rules(resolved.model(), "model");
  // Builders receive the number of classes separately; it may come from the data set.
  resolved.mutable_model()->clear_num_classes();
  BuildArgs args{Args("model"), Args("criterion")};
  copy_message(resolved.model(), defaults.model(), args.model);
  copy_message(resolved.criterion(), defaults.criterion(), args.criterion);
  return args;
}

Args model_args(const Config& config) { return build_args(config).model; }
Args criterion_args(const Config& config) { return build_args(config).criterion; }

Args given_model_args(const Config& config) {
  Args args("model");
  copy_message(config.model(), config::Model(), args);
  return args;
}

}  // namespace saccade
