#include "data/formats/csv/csv_text.h"

#include "data/formats/listing.h"

namespace saccade {

CsvText::CsvText(std::string_view text) : text_(without_mark(text)) {
  const std::string_view first = text_.substr(0, text_.find('\n'));
  if (first.find(',') != first.npos) return;
  for (const char other : {';', '\t'})
    if (first.find(other) != first.npos) {
      separator_ = other;
      return;
    }
}

bool CsvText::next(std::vector<std::string>& fields, std::string& problem) {
  do {
    if (at_ >= text_.size()) return false;
    line_ = ++lines_;
    fields.assign(1, "");
    problem.clear();
    read_line(fields, problem);
  } while (fields.size() == 1 && fields[0].empty() && problem.empty());
  return true;
}

void CsvText::read_line(std::vector<std::string>& fields, std::string& problem) {
  bool is_quoted = false;
  auto end_field = [&] {
    if (!is_quoted) fields.back() = std::string(trimmed(fields.back()));
    is_quoted = false;
  };
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (c == '\n') {
      ++at_;
      break;
    }
    if (c == separator_) {
      end_field();
      fields.emplace_back();
    } else if (c == '"' && !is_quoted && trimmed(fields.back()).empty()) {
      fields.back().clear();
      is_quoted = true;
      read_quoted(fields.back(), problem);
    } else if (!(is_quoted && (c == ' ' || c == '\t')) && c != '\r') {
      fields.back() += c;
    }
  }
  end_field();
}

// From the first quote to the last.
void CsvText::read_quoted(std::string& field, std::string& problem) {
  for (++at_; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    lines_ += c == '\n';
    if (c != '"') {
      field += c;
    } else if (at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
      field += '"';
      ++at_;
    } else {
      return;
    }
  }
  problem = "the quote is not closed";
}

}  // namespace saccade
