// Lists the contents of a data set's folder, including those that are not read.
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

// Names relative to the folder, sorted; hidden files and folders are always left out.
struct FolderListing {
  std::vector<std::string> images;   // recognised by their ending
  std::vector<std::string> foreign;  // images of types that are not read
  std::vector<std::string> bare;     // images by their content whose names have no ending
  std::vector<std::string> links;    // to folders elsewhere, whose contents are listed
  std::vector<std::string> around;   // to folders that contain this one, which are not followed
  std::vector<std::string> texts;    // *.txt
  bool is_whole = true;              // there was time to list everything
};
// Lists a folder and its subfolders. Links to folders are followed. If something is reached twice, the first
// name counts, and its own name before one through a link. Throws InputError if a folder cannot be read.
FolderListing list_tree(const std::string& folder, double seconds = std::numeric_limits<double>::infinity());
// Returns "3 images in FOLDER are of an unsupported type ..." and similar notes on links;
// nothing if there are none.
std::vector<std::string> notes_on_listing(const FolderListing& listing, const std::string& folder);
// Only the notes on links.
std::vector<std::string> notes_on_links(const std::vector<std::string>& links,
                                        const std::vector<std::string>& around, const std::string& folder);

// The target of a link to a folder: inside `folder`, a folder that contains `folder`, or elsewhere.
enum class LinkKind { kInside, kAround, kOutside };
LinkKind kind_of_link(const std::string& folder, const std::string& link);
// Device and inode number.
using FileIdentity = std::pair<uint64_t, uint64_t>;
FileIdentity identity_of(const std::string& path);

// Returns the names of the folders in a folder, sorted, without hidden ones;
// none if it cannot be read.
std::vector<std::string> folders_in(const std::string& folder);
// Returns the names of the folder's own files with this ending, sorted; none if there is no such folder.
std::vector<std::string> list_files(const std::string& folder, const std::string& ending);
// The same with its subfolders and relative names; fills `links` and `around` as in FolderListing.
std::vector<std::string> list_files_below(const std::string& folder, const std::string& ending,
                                          std::vector<std::string>* links = nullptr,
                                          std::vector<std::string>* around = nullptr);
bool has_files_below(const std::string& folder, const std::string& ending);
// Returns whether an image is among the first files of the folder and its subfolders.
bool holds_image(const std::string& folder);
bool is_folder(const std::string& path);
bool is_file(const std::string& path);
// Returns folder + "/" + name, or only the name if it is absolute.
std::string joined(const std::string& folder, const std::string& name);
// Returns the folder of a file; "." for a name without one.
std::string parent_of(const std::string& path);

// Removes "." and "..", if possible, and a slash at the end.
std::filesystem::path normal_path(const std::filesystem::path& path);
// Returns the folder that contains all of these; absolute if some are, or if one leads up.
std::string common_folder(const std::vector<std::string>& folders);
// Resolves the links to folders in paths; a link to a file stays.
class RealPaths {
 public:
  std::string of(const std::string& path);

 private:
  std::map<std::string, std::string> folders_;
};
// Returns a path relative to the root if it lies below it.
std::string name_below(const std::string& path, const std::string& root);

// Returns the first of these that is a folder; "" if there is none.
std::string first_folder(const std::vector<std::string>& folders);
// Returns the first of these that contains the file; the first that is a folder if none has it (or there is
// no name).
std::string folder_of(const std::vector<std::string>& folders, const std::string& file);
// Returns the image with this name without its ending; "" if the folder has none.
std::string image_called(const std::string& folder, const std::string& stem);
// Returns the name of the file in the folder that this name means: unchanged, else with the backslashes of
// Windows as slashes, else with accents encoded as in the folder (core/files/unicode_forms.h).
// Returns it unchanged if there is no such file.
std::string name_in(const std::string& folder, const std::string& name);
// Returns all of these variants, in that order.
std::vector<std::string> writings_of(const std::string& name);

// Returns the first bytes of a file, to tell its type; "" if it cannot be read.
std::string head_of(const std::string& path, const FileKind& kind, uint64_t bytes = 4096);

struct TextLine {
  int64_t number = 0;  // from 1
  std::string text;
};
// Returns the lines that are not blank, without blanks at their ends; skips a byte order mark at the start.
std::vector<TextLine> text_lines(std::string_view text);
std::string_view trimmed(std::string_view text);
std::string_view without_mark(std::string_view text);
// Returns "a, b and 12 more" with the first `most` of them.
inline std::string some_of(const std::vector<std::string>& words, size_t most) {
  std::string text;
  for (size_t i = 0; i < std::min(words.size(), most); ++i) text += (i == 0 ? "" : ", ") + words[i];
  if (words.size() > most) text += " and " + std::to_string(words.size() - most) + " more";
  return text;
}

}  // namespace saccade
