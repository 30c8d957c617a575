#include "train/config/config_fields.h"

#include <fmt/ranges.h>
#include <google/protobuf/text_format.h>

#include "core/tensor/error.h"

namespace saccade {

namespace pb = google::protobuf;

namespace {

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

bool is_number(const pb::FieldDescriptor* f) {
  using F = pb::FieldDescriptor;
  return f->cpp_type() == F::CPPTYPE_INT32 || f->cpp_type() == F::CPPTYPE_INT64 ||
         f->cpp_type() == F::CPPTYPE_UINT64 || f->cpp_type() == F::CPPTYPE_DOUBLE;
}

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
    case pb::FieldDescriptor::CPPTYPE_BOOL:
      return list ? r->GetRepeatedBool(m, f, index) : r->GetBool(m, f);
    default:
      fail("[config] field {} is not a number", f->full_name());
  }
}

std::vector<double> numbers_of(const pb::Message& m, const pb::FieldDescriptor* f) {
  if (!f->is_repeated()) return {number_of(m, f, -1)};
  std::vector<double> numbers;
  for (int i = 0; i < m.GetReflection()->FieldSize(m, f); ++i) numbers.push_back(number_of(m, f, i));
  return numbers;
}

std::string value_text(const pb::Message& m, const pb::FieldDescriptor* f, int index) {
  const pb::Reflection* r = m.GetReflection();
  if (f->cpp_type() == pb::FieldDescriptor::CPPTYPE_STRING)
    return index >= 0 ? r->GetRepeatedString(m, f, index) : r->GetString(m, f);
  std::string text;
  pb::TextFormat::PrintFieldValueToString(m, f, index, &text);
  return text;
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
