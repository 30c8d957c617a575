// The language of the tables next to this file. A block ends with an empty line:
//
//   sh COMMANDS              run by a shell in the table's folder, where it stands
//   env NAME=VALUE           for the commands of the block
//   file NAME [FORM OF]      what the rows write: their text or, with a FORM,
//                            another file that they change (see write_row)
//   run WORDS                a command of the program; ROW is the row's text (also within a word),
//                            ROWS its words
//   | TEXT => PART           a row: every command ends with status 2 and one line on stderr that holds PART
//   | TEXT =0> PART          a row that is told and counted: status 0, and stdout holds PART
//
// Lines that begin with # are comments. In rows and words \n, \t, \r, \\, \xNN, \uNNNN (of JSON, as it
// stands) and \{N:TEXT} (N times) are escapes; words are parted by spaces, unless within '...'.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace saccade {

struct BadRow {
  int line = 0;
  std::string text, part;
  bool is_skip = false;
};

struct BadBlock {
  std::vector<std::string> shell;  // before the rows
  std::map<std::string, std::string> environment;
  std::string file, form, of;
  std::vector<std::string> commands;
  std::vector<BadRow> rows;
};

// Throws std::runtime_error that names the line.
std::vector<BadBlock> read_bad_table(const std::string& path);

std::string unescaped(const std::string& text);
std::vector<std::string> bad_words(const std::string& command, const std::string& row);

// Writes what a row of the block stands for:
//   no form       its text
//   edits OF      the bytes of OF after some of: cut N; put AT TEXT; swap OLD NEW;
//                 add TEXT (AT may count from the end, below 0)
//   header        a safetensors file: the text is its header, before 64 zeros
//   set OF        a checkpoint like OF, whose configuration has this --set edit
//   meta OF       a checkpoint like OF, with KEY=VALUE among its metadata
//   weights OF    a checkpoint like OF, with NUMBER instead of every element of a tensor: NAME=NUMBER
void write_row(const BadBlock& block, const BadRow& row);

}  // namespace saccade
