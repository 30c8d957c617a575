// What is in a folder of a data set, and what of it nobody reads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/files/file.h"

namespace saccade {

// Names relative to the folder, sorted; hidden files and folders are left out everywhere.
struct FolderListing {
  std::vector<std::string> images;   // by their ending
  std::vector<std::string> foreign;  // images of types that are not read
  std::vector<std::string> bare;     // images by their content whose names have no ending
  std::vector<std::string> links;    // to folders elsewhere; what is in these is listed
  std::vector<std::string> around;   // to folders that this one lies in, which are not followed
  std::vector<std::string> texts;    // *.txt
  bool is_whole = true;              // there was time for all of it
};
// Of a folder and the folders in it. Links to folders are followed; of what is reached twice the first name
// counts, and the own name before that through a link. Throws InputError when a folder cannot be read.
FolderListing list_tree(const std::string& folder, double seconds = std::numeric_limits<double>::infinity());
// "3 images in FOLDER are of a type that is not read, ..." and the same of links;
// nothing where there are none.
std::vector<std::string> notes_on_listing(const FolderListing& listing, const std::string& folder);
// That of links alone.
std::vector<std::string> notes_on_links(const std::vector<std::string>& links,
                                        const std::vector<std::string>& around, const std::string& folder);

// Where a link to a folder leads: into `folder`, to one that `folder` lies in, or elsewhere.
enum class LinkKind { kInside, kAround, kOutside };
LinkKind kind_of_link(const std::string& folder, const std::string& link);
// Device and number.
using FileIdentity = std::pair<uint64_t, uint64_t>;
FileIdentity identity_of(const std::string& path);

// Those of the folders in a folder, sorted; hidden ones are left out,
// and there are none where it cannot be read.
std::vector<std::string> folders_in(const std::string& folder);
// Names of the folder's own files that end so, sorted; none where there is no such folder.
std::vector<std::string> list_files(const std::string& folder, const std::string& ending);
// The same of the folders in it, too, relative to it; `links` and `around` get what FolderListing has.
std::vector<std::string> list_files_below(const std::string& folder, const std::string& ending,
                                          std::vector<std::string>* links = nullptr,
                                          std::vector<std::string>* around = nullptr);
bool has_files_below(const std::string& folder, const std::string& ending);
// Whether an image is among the first files of the folder and those in it.
bool holds_image(const std::string& folder);
bool is_folder(const std::string& path);
bool is_file(const std::string& path);
// folder + "/" + name; the name alone where it is absolute.
std::string joined(const std::string& folder, const std::string& name);
// The folder that a file lies in; "." for a name without one.
std::string parent_of(const std::string& path);

// Without "." and "..", where that can be, and without a slash at the end.
std::filesystem::path normal_path(const std::filesystem::path& path);
// The folder that all of these lie in; absolute where some are, or where one leads up.
std::string common_folder(const std::vector<std::string>& folders);
// Paths as they are without the links that lead to their folders; a link to a file stays.
class RealPaths {
 public:
  std::string of(const std::string& path);

 private:
  std::map<std::string, std::string> folders_;
};
// A path as a name below the root, where it lies there.
std::string name_below(const std::string& path, const std::string& root);

// The first of these that is a folder; "": none.
std::string first_folder(const std::vector<std::string>& folders);
// The first of these in which the file is; the first that is a folder where none has it (or there is no
// name).
std::string folder_of(const std::vector<std::string>& folders, const std::string& file);
// The image of this name without its ending; "": the folder has none.
std::string image_called(const std::string& folder, const std::string& stem);
// The name of the file in the folder that this one means: as it stands, else with the backslashes of Windows
// as slashes, else with its accents as the folder has them (core/files/unicode_forms.h).
// As it stands where there is no such file.
std::string name_in(const std::string& folder, const std::string& name);
// All of these, in that order.
std::vector<std::string> writings_of(const std::string& name);

// The first bytes of a file, to tell what it may be; "" where it cannot be read.
std::string head_of(const std::string& path, const FileKind& kind, uint64_t bytes = 4096);

struct TextLine {
  int64_t number = 0;  // from 1
  std::string text;
};
// The lines that are not blank, without blanks at their ends; a byte order mark at the beginning is passed
// over.
std::vector<TextLine> text_lines(std::string_view text);
std::string_view trimmed(std::string_view text);
std::string_view without_mark(std::string_view text);
// "3 files are", "1 file is".
std::string count_of(int64_t count, const std::string& one, const std::string& many);
// "a, b and 12 more": the first `most` of them.
inline std::string some_of(const std::vector<std::string>& words, size_t most) {
  std::string text;
  for (size_t i = 0; i < std::min(words.size(), most); ++i) text += (i == 0 ? "" : ", ") + words[i];
  if (words.size() > most) text += " and " + std::to_string(words.size() - most) + " more";
  return text;
}

}  // namespace saccade
