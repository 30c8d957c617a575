// config.model as the Args that models are built from.
#include <vector>

#include "core/tensor/error.h"
#include "train/config/config.h"

namespace saccade {

namespace pb = google::protobuf;

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

void copy_message(const pb::Message& m, Args& out) {
  const pb::Reflection* r = m.GetReflection();
  std::vector<const pb::FieldDescriptor*> fields;
  r->ListFields(m, &fields);
  for (const pb::FieldDescriptor* f : fields) {
    using F = pb::FieldDescriptor;
    if (f->is_repeated()) {
      if (f->message_type() == config::Arg::descriptor()) continue;  // below, when the typed keys are known
      if (f->cpp_type() == F::CPPTYPE_INT32) {
        std::vector<int64_t> list;
        for (int i = 0; i < r->FieldSize(m, f); ++i) list.push_back(r->GetRepeatedInt32(m, f, i));
        out.set(f->name(), list);
      } else if (f->cpp_type() == F::CPPTYPE_DOUBLE) {
        std::vector<double> list;
        for (int i = 0; i < r->FieldSize(m, f); ++i) list.push_back(r->GetRepeatedDouble(m, f, i));
        out.set(f->name(), list);
      } else {
        fail("[config] {}: lists of this type are not arguments", f->full_name());
      }
      continue;
    }
    switch (f->cpp_type()) {
      case F::CPPTYPE_INT32:
        out.set(f->name(), static_cast<int64_t>(r->GetInt32(m, f)));
        break;
      case F::CPPTYPE_INT64:
        out.set(f->name(), static_cast<int64_t>(r->GetInt64(m, f)));
        break;
      case F::CPPTYPE_DOUBLE:
        out.set(f->name(), r->GetDouble(m, f));
        break;
      case F::CPPTYPE_BOOL:
        out.set(f->name(), r->GetBool(m, f));
        break;
      case F::CPPTYPE_STRING:
        out.set(f->name(), r->GetString(m, f));
        break;
      case F::CPPTYPE_ENUM:
        out.set(f->name(), r->GetEnum(m, f)->name());
        break;
      case F::CPPTYPE_MESSAGE:
        copy_message(r->GetMessage(m, f), out.section(f->name()));
        break;
      default:
        fail("[config] {}: this type is not an argument", f->full_name());
    }
  }
  for (const pb::FieldDescriptor* f : fields)
    if (f->message_type() == config::Arg::descriptor())
      for (int i = 0; i < r->FieldSize(m, f); ++i)
        copy_arg(static_cast<const config::Arg&>(r->GetRepeatedMessage(m, f, i)), out);
}

}  // namespace

Args model_args(const Config& config) {
  Args args("model");
  copy_message(resolve_config(config).model(), args);
  return args;
}

Args criterion_args(const Config& config) {
  Args args("criterion");
  copy_message(resolve_config(config).criterion(), args);
  return args;
}

}  // namespace saccade
