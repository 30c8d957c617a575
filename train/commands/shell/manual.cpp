// Writes the pages of the manual from the definitions of the commands.
#include <fmt/format.h>

#include <sstream>

#include "train/commands/shell/completion.h"

namespace saccade {

namespace {

// Escapes text for man(7): hyphens can be copied, and nothing is a request.
std::string roff(const std::string& text) {
  std::string out;
  bool at_start = true;
  for (char c : text) {
    if (at_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '-')
      out += "\\-";
    else if (c == '\\')
      out += "\\e";
    else
      out += c;
    at_start = c == '\n';
  }
  return out;
}

std::string file_name_of(const std::string& name) {
  std::string page = name;
  for (char& c : page)
    if (c == ' ') c = '-';
  return page;
}

std::string options_text(const CLI::App& command) {
  std::string out;
  for (const CLI::Option* option : command.get_options()) {
    std::string name;
    if (option->get_positional()) {
      name = "\\fI" + roff(option->get_single_name()) + "\\fR";
    } else {
      for (const std::string& flag : option->get_lnames())
        name += (name.empty() ? "" : ", ") + ("\\fB" + roff("--" + flag) + "\\fR");
      // CLI11 appends the descriptions of its checks after a colon.
      const std::string type = option->get_type_name();
      const std::string value = type.substr(0, type.find(':'));
      if (option->get_items_expected_max() > 0 && !value.empty()) name += " \\fI" + roff(value) + "\\fR";
    }
    out += ".TP\n" + name + "\n" + roff(option->get_description()) +
           (option->get_required() ? " (required)" : "") + "\n";
  }
  return out;
}

// Formats the footer: "Examples:" and indented commands.
std::string examples_text(const std::string& footer) {
  std::istringstream lines(footer);
  std::string out;
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("  ")) out += roff(line.substr(2)) + "\n";
  return out.empty() ? "" : ".SH EXAMPLES\n.nf\n" + out + ".fi\n";
}

std::string head(const std::string& name, const std::string& text, const std::string& version) {
  std::string title = file_name_of(name);
  for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return fmt::format(".TH {} 1 \"\" \"saccade {}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n", roff(title),
                     version, roff(file_name_of(name)), roff(text));
}

constexpr const char* kExitStatus =
    ".SH EXIT STATUS\n0: success. 2: invalid input, with one line that says what and where. 1: any other error. Training ended by a "
    "signal: 128 plus the signal's number.\n";

void add_pages(const CLI::App& command, const std::string& name, const std::string& version,
               std::vector<ManualPage>& pages) {
  std::string text = head(name, command.get_description(), version);
  const auto below = command.get_subcommands([](const CLI::App*) { return true; });
  text += ".SH SYNOPSIS\n\\fB" + roff(name) + "\\fR";
  if (!below.empty()) {
    text += " \\fICOMMAND\\fR ...\n.SH COMMANDS\n";
    for (const CLI::App* sub : below)
      text +=
          ".TP\n\\fB" + roff(name + " " + sub->get_name()) + "\\fR\n" + roff(sub->get_description()) + "\n";
    text += ".PP\nEach has a page of its own, \\fB" + roff(file_name_of(name)) + "\\-\\fICOMMAND\\fR(1).\n";
  } else {
    text += " [\\fIOPTION\\fR]...";
    for (const CLI::Option* option : command.get_options())
      if (option->get_positional()) text += " \\fI" + roff(option->get_single_name()) + "\\fR";
    text += "\n";
  }
  text += ".SH OPTIONS\n" + options_text(command) + examples_text(command.get_footer()) + kExitStatus;
  if (name != "saccade") text += ".SH SEE ALSO\n\\fBsaccade\\fR(1)\n";
  pages.push_back({file_name_of(name) + ".1", text});
  for (const CLI::App* sub : below) add_pages(*sub, name + " " + sub->get_name(), version, pages);
}

}  // namespace

std::vector<ManualPage> manual_pages(const CLI::App& app, const std::string& version) {
  std::vector<ManualPage> pages;
  add_pages(app, app.get_name(), version, pages);
  return pages;
}

}  // namespace saccade
