#include "train/config/config_fields.h"

#include <fmt/ranges.h>

#include "core/tensor/error.h"

namespace saccade {

namespace pb = google::protobuf;

namespace {

// The value of a numeric field; index < 0 for a field that is not a list.
double number_of(const pb::Message& m, const pb::FieldDescriptor* f, int index) {
  const pb::Reflection* r = m.GetReflection();
  bool list = index >= 0;
  switch (f->cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_INT32:
      return list ? r->GetRepeatedInt32(m, f, index) : r->GetInt32(m, f);
    case pb::FieldDescriptor::CPPTYPE_INT64:
      return static_cast<double>(list ? r->GetRepeatedInt64(m, f, index) : r->GetInt64(m, f));
    case pb::FieldDescriptor::CPPTYPE_UINT64:
      return static_cast<double>(list ? r->GetRepeatedUInt64(m, f, index) : r->GetUInt64(m, f));
    case pb::FieldDescriptor::CPPTYPE_DOUBLE:
      return list ? r->GetRepeatedDouble(m, f, index) : r->GetDouble(m, f);
    default:
      fail("[config] field {} is not a number", f->full_name());
  }
}

void collect(const pb::Message& m, const std::string& rest, const std::string& done,
             std::vector<NumberField>& out) {
  size_t dot = rest.find('.');
  std::string name = rest.substr(0, dot), tail = dot == std::string::npos ? "" : rest.substr(dot + 1);
  std::string path = done.empty() ? name : done + "." + name;
  const pb::FieldDescriptor* f = m.GetDescriptor()->FindFieldByName(name);
  SACCADE_CHECK(f != nullptr, "[config] {} has no field {}", m.GetDescriptor()->full_name(), name);
  const pb::Reflection* r = m.GetReflection();
  int count = f->is_repeated() ? r->FieldSize(m, f) : 1;
  for (int i = 0; i < count; ++i) {
    std::string element = f->is_repeated() ? fmt::format("{}.{}", path, i) : path;
    if (f->cpp_type() == pb::FieldDescriptor::CPPTYPE_MESSAGE) {
      collect(f->is_repeated() ? r->GetRepeatedMessage(m, f, i) : r->GetMessage(m, f), tail, element, out);
    } else if (f->is_repeated() || r->HasField(m, f) || f->has_default_value()) {
      out.push_back({element, number_of(m, f, f->is_repeated() ? i : -1)});
    }
  }
}

bool has_defaults(const pb::Descriptor* type) {
  for (int i = 0; i < type->field_count(); ++i) {
    const pb::FieldDescriptor* f = type->field(i);
    if (f->has_default_value()) return true;
    if (!f->is_repeated() && f->message_type() && has_defaults(f->message_type())) return true;
  }
  return false;
}

void set_default(pb::Message& m, const pb::FieldDescriptor* f) {
  const pb::Reflection* r = m.GetReflection();
  switch (f->cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_INT32:
      return r->SetInt32(&m, f, f->default_value_int32());
    case pb::FieldDescriptor::CPPTYPE_INT64:
      return r->SetInt64(&m, f, f->default_value_int64());
    case pb::FieldDescriptor::CPPTYPE_UINT64:
      return r->SetUInt64(&m, f, f->default_value_uint64());
    case pb::FieldDescriptor::CPPTYPE_DOUBLE:
      return r->SetDouble(&m, f, f->default_value_double());
    case pb::FieldDescriptor::CPPTYPE_BOOL:
      return r->SetBool(&m, f, f->default_value_bool());
    case pb::FieldDescriptor::CPPTYPE_ENUM:
      return r->SetEnum(&m, f, f->default_value_enum());
    case pb::FieldDescriptor::CPPTYPE_STRING:
      return r->SetString(&m, f, f->default_value_string());
    default:
      fail("[config] field {} has a type that the schema should not use", f->full_name());
  }
}

}  // namespace

std::vector<std::string> field_names(const pb::Descriptor* type) {
  std::vector<std::string> names;
  for (int i = 0; i < type->field_count(); ++i) names.push_back(type->field(i)->name());
  return names;
}

std::string enum_names(const pb::EnumDescriptor* type) {
  std::vector<std::string> names;
  for (int i = 0; i < type->value_count(); ++i) names.push_back(type->value(i)->name());
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<NumberField> numbers_at(const pb::Message& message, const std::string& path) {
  std::vector<NumberField> out;
  collect(message, path, "", out);
  return out;
}

void write_defaults(pb::Message& m) {
  const pb::Reflection* r = m.GetReflection();
  for (int i = 0; i < m.GetDescriptor()->field_count(); ++i) {
    const pb::FieldDescriptor* f = m.GetDescriptor()->field(i);
    if (f->cpp_type() == pb::FieldDescriptor::CPPTYPE_MESSAGE) {
      if (f->is_repeated()) {
        for (int k = 0; k < r->FieldSize(m, f); ++k) write_defaults(*r->MutableRepeatedMessage(&m, f, k));
      } else if (r->HasField(m, f) || has_defaults(f->message_type())) {
        write_defaults(*r->MutableMessage(&m, f));
      }
    } else if (f->has_default_value() && !r->HasField(m, f)) {
      set_default(m, f);
    }
  }
}

}  // namespace saccade
