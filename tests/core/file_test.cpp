// Tests which files are opened, read, written and refused.
#include "core/files/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "core/files/output_file.h"
#include "core/files/temporary.h"
#include "core/files/text.h"
#include "core/formats/json.h"
#include "tests/input_error.h"
#include "tests/test_folder.h"

namespace saccade {
namespace {

namespace fs = std::filesystem;

constexpr FileKind kSmallFile{"a small file", 50};

std::string door_error(const std::string& path) {
  return input_error([&] { read_file(path, kSmallFile); });
}

mode_t mode_of(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
}

TEST(FileDoor, OpensRegularFilesOfABoundedSizeOnly) {
  TestFolder dir;
  write_bytes(dir / "good", "twelve bytes");
  EXPECT_EQ(read_text(dir / "good", kSmallFile), "twelve bytes");
  fs::create_symlink(dir / "good", dir / "link");
  EXPECT_EQ(read_text(dir / "link", kSmallFile), "twelve bytes");
  write_bytes(dir / "empty", "");
  EXPECT_EQ(read_file(dir / "empty", kSmallFile).size(), 0u);

  write_bytes(dir / "sparse", "");
  fs::resize_file(dir / "sparse", uint64_t{20} << 30);
  fs::create_symlink(dir / "loop", dir / "loop");
  fs::create_symlink("/dev/zero", dir / "zero");
  fs::create_directory(dir / "folder");
  ASSERT_EQ(::mkfifo((dir / "fifo").c_str(), 0600), 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  const fs::path here = fs::current_path();
  fs::current_path(dir.path());  // a socket's path is short
  std::strcpy(address.sun_path, "socket");
  ASSERT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  fs::current_path(here);
  const auto start = std::chrono::steady_clock::now();
  const std::pair<std::string, std::string> cases[] = {
      {"none", ": cannot read the file: No such file or directory"},
      {"good/below", ": cannot read the file: Not a directory"},
      {std::string(300, 'x'), ": cannot read the file: File name too long"},
      {"loop", ": cannot read the file: Too many levels of symbolic links"},
      {"folder", ": is a folder, expected a small file"},
      {"fifo", ": is a FIFO, expected a small file"},
      {"socket", ": is a socket, expected a small file"},
      {"zero", ": is a device, expected a small file"},
      {"sparse", ": 21474836480 bytes, expected at most 50 for a small file"}};
  for (const auto& [name, expected] : cases) EXPECT_EQ(door_error(dir / name), (dir / name) + expected);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  EXPECT_EQ(door_error(""), "the name of a small file is empty");
  EXPECT_EQ(door_error(std::string("a\0b", 3)), "a\\x00b: a file name cannot contain a zero byte");
  ::close(socket);
}

TEST(FileDoor, NoticesAFileThatChanges) {
  TestFolder dir;
  write_bytes(dir / "file", "0123456789");
  InputFile file(dir / "file", kSmallFile);
  char bytes[10];
  file.check_size();
  fs::resize_file(dir / "file", 12);
  EXPECT_EQ(input_error([&] { file.check_size(); }),
            (dir / "file") + ": the file changed while it was read, from 10 bytes to 12");
  fs::resize_file(dir / "file", 5);
  EXPECT_EQ(input_error([&] { file.read_at(bytes, 10, 0); }),
            (dir / "file") + ": the file became shorter while it was read");
}

// Pipes are read if the user gave them to the program, and not otherwise.
TEST(FileDoor, ReadsItsOwnPipesToTheirEndButNotBeyondTheLimit) {
  for (size_t size : {20, 60}) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    ASSERT_EQ(::write(ends[1], std::string(size, 'x').data(), size), static_cast<ssize_t>(size));
    ::close(ends[1]);
    const std::string path = "/dev/fd/" + std::to_string(ends[0]);
    EXPECT_NE(input_error([&] { InputFile(path, kSmallFile); }).find("is a pipe"), std::string::npos);
    if (size <= kSmallFile.max_bytes)
      EXPECT_EQ(read_text(path, kSmallFile), std::string(size, 'x'));
    else
      EXPECT_EQ(door_error(path), path + ": more than 50 bytes, the limit for a small file");
    ::close(ends[0]);
  }
}

// Text that arrives in pieces of several sizes is read unchanged.
TEST(FileDoor, ReadsLongPipes) {
  std::string text;
  for (int i = 0; text.size() < 3'000'000; ++i) text += std::to_string(i);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::thread writer([&] {
    for (size_t at = 0; at < text.size();) {
      const ssize_t n = ::write(ends[1], text.data() + at, text.size() - at);
      if (n <= 0) break;
      at += static_cast<size_t>(n);
    }
    ::close(ends[1]);
  });
  EXPECT_EQ(read_text("/dev/fd/" + std::to_string(ends[0]), kTextFile), text);
  ::close(ends[0]);
  writer.join();
}

TEST(FileDoor, NeverTakesTheDescriptorOfAStandardStream) {
  TestFolder dir;
  write_bytes(dir / "file", "abc");
  const int kept = ::dup(STDIN_FILENO);
  ::close(STDIN_FILENO);
  {
    InputFile in(dir / "file", kSmallFile);
    OutputFile out(dir / "out");
    EXPECT_EQ(::fcntl(STDIN_FILENO, F_GETFD), -1);
  }
  if (kept >= 0) {
    ::dup2(kept, STDIN_FILENO);
    ::close(kept);
  }
}

TEST(FileDoor, RefusesNamesThatLeadOutOfTheirFolder) {
  TestFolder dir;
  fs::create_directories(dir / "images/below");
  write_bytes(dir / "images/a.png", "");
  write_bytes(dir / "secret", "");
  fs::create_symlink("../secret", dir / "images/out.png");
  fs::create_symlink("a.png", dir / "images/in.png");
  fs::create_directory_symlink(dir.path(), dir / "images/up");
  fs::create_directory_symlink("../images", dir / "images/around");
  fs::create_symlink("nowhere", dir / "images/broken.png");
  const NamedFolder folder(dir / "images");
  for (const char* name : {"a.png", "./a.png", "none.png", "below/none.png", "in.png", "around/a.png",
                           "..a.png", "broken.png", "a..b/c.png"})
    EXPECT_EQ(folder.refusal(name), "") << name;
  const std::pair<std::string, std::string> cases[] = {
      {"", "the file name is empty"},
      {std::string("a\0.png", 6), "zero byte"},
      {"/etc/hostname", "absolute"},
      {"/proc/self/mem", "absolute"},
      {"../secret", "contains \"..\""},
      {"below/../../secret", "contains \"..\""},
      {"below/..", "contains \"..\""},
      {"out.png", "a symbolic link leads out of the folder, to"},
      {"up/secret", "a symbolic link leads out of the folder, to"}};
  for (const auto& [name, expected] : cases)
    EXPECT_NE(folder.refusal(name).find(expected), std::string::npos) << name << ": " << folder.refusal(name);
}

TEST(FileWriter, ReplacesFilesAndNothingElse) {
  TestFolder dir;
  auto write_error = [](const std::string& path) {
    return input_error([&] { write_file(path, std::string_view("new")); });
  };
  for (mode_t mode : {0600u, 0644u, 0660u}) {
    write_bytes(dir / "file", "old");
    ::chmod((dir / "file").c_str(), mode);
    EXPECT_EQ(write_error(dir / "file"), "no error");
    EXPECT_EQ(read_bytes(dir / "file"), "new");
    EXPECT_EQ(mode_of(dir / "file"), mode);
  }
  write_bytes(dir / "file", "old");
  fs::create_symlink("file", dir / "link");
  fs::create_symlink("fresh", dir / "dangling");
  fs::create_symlink("/dev/null", dir / "null");
  for (const char* name : {"link", "dangling", "null"}) {
    EXPECT_EQ(write_error(dir / name), "no error");
    EXPECT_TRUE(fs::is_symlink(dir / name)) << name;
  }
  EXPECT_EQ(read_bytes(dir / "file") + read_bytes(dir / "fresh"), "newnew");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  const std::string longest(255, 'x');
  EXPECT_EQ(write_error(dir / longest), "no error");

  fs::create_directory(dir / "folder");
  ASSERT_EQ(::mkfifo((dir / "fifo").c_str(), 0600), 0);
  write_bytes(dir / "fixed", "old");
  ::chmod((dir / "fixed").c_str(), 0444);
  fs::create_symlink("fixed", dir / "to_fixed");
  fs::create_symlink("loop", dir / "loop");
  const std::pair<std::string, std::string> cases[] = {
      {"folder", ": is a folder, expected the name of a file to write"},
      {"fifo", ": is a FIFO, expected the name of a file to write"},
      {"fixed", ": is read-only, expected the name of a file to write"},
      {"none/file", ": cannot write the file: there is no folder " + (dir / "none")},
      {"file/below", ": cannot write the file: Not a directory"},
      {std::string(300, 'x'), ": cannot write the file: File name too long"},
      {"loop", ": cannot write the file: Too many levels of symbolic links"}};
  for (const auto& [name, expected] : cases) EXPECT_EQ(write_error(dir / name), (dir / name) + expected);
  EXPECT_NE(write_error(dir / "to_fixed").find("fixed: is read-only"), std::string::npos);
  EXPECT_EQ(write_error(""), "the name is empty, expected the name of a file to write");
  EXPECT_EQ(read_bytes(dir / "fixed"), "old");
  EXPECT_TRUE(fs::is_fifo(dir / "fifo"));
  for (const auto& entry : fs::directory_iterator(dir.path()))
    EXPECT_FALSE(entry.path().filename().string().starts_with(".")) << entry.path();
}

TEST(FileWriter, LeavesNothingWithoutCommit) {
  TestFolder dir;
  write_bytes(dir / "file", "old");
  {
    OutputFile file(dir / "file", OutputFile::Sync::kYes);
    file.write("half", 4);
    EXPECT_EQ(read_bytes(dir / "file"), "old");
  }
  EXPECT_EQ(read_bytes(dir / "file"), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), {}), 1);
  EXPECT_THROW(
      {
        OutputFile full("/dev/full");
        full.write("x", 1);
        full.commit();
      },
      Error);
}

TEST(FileWriter, OutputsAreNoInputsAndDiffer) {
  TestFolder dir;
  write_bytes(dir / "in", "x");
  fs::create_symlink("in", dir / "link");
  fs::create_hard_link(dir / "in", dir / "twin");
  auto error = [&](const std::string& a, const std::string& b) {
    return input_error([&] {
      check_outputs({{"--a", a}, {"--b", b}}, {{"--in", dir / "in"}, {"--none", ""}});
    });
  };
  for (const char* name : {"in", "link", "twin", "./in"})
    EXPECT_EQ(error("", dir / name), (dir / name) + ": --b is the same file as --in, expected another name");
  EXPECT_EQ(error(dir / "out", dir / "./out"),
            (dir / "./out") + ": --a and --b are the same file, expected different ones");
  EXPECT_EQ(error(dir / "out", dir / "other"), "no error");
  EXPECT_EQ(error("/dev/null", "/dev/null"), "no error");
  EXPECT_EQ(error("", ""), "no error");
  // A user who may write everywhere finds out only by trying; nothing is left behind by that.
  EXPECT_TRUE(error("", "/proc/out").starts_with("/proc/out: ")) << error("", "/proc/out");
  EXPECT_FALSE(fs::exists(dir / "out"));
  write_bytes(dir / "old", "x");
  EXPECT_EQ(error("", dir / "old"), "no error");
  EXPECT_EQ(read_text(dir / "old", kSmallFile), "x");
}

TEST(Text, IsSafeToPrint) {
  const std::pair<std::string, std::string> cases[] = {
      {"plain größe 猫 😀", "plain größe 猫 😀"},
      {std::string("a\0b", 3), "a\\x00b"},
      {"\x1b[31mred\x1b[0m\a\x7f", "\\x1b[31mred\\x1b[0m\\x07\\x7f"},
      {"line\nnext\r\ttab", "line\\nnext\\x0d\\ttab"},
      {"\xc2\x9b"
       "31m",
       "\\u009b31m"},
      {"\xe2\x80\xae"
       "gpj",
       "\\u202egpj"},
      {"\xff\xfe.png", "\\xff\\xfe.png"},
      {"\xc3", "\\xc3"},
      {"\xc0\xaf", "\\xc0\\xaf"},
      {"\xed\xa0\x80", "\\xed\\xa0\\x80"},
      {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"}};
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(escaped(text), expected);
    EXPECT_TRUE(is_utf8(escaped(text)));
  }
  EXPECT_EQ(escaped_lines("a\nb\x1b"), "a\nb\\x1b");
  EXPECT_EQ(printable(std::string(500, 'x')), std::string(120, 'x') + "...");
  EXPECT_EQ(printable(std::string(119, 'x') + "ü" + "yyy"), std::string(119, 'x') + "...");
  EXPECT_FALSE(is_utf8("a\xffz"));
  EXPECT_EQ(json_quote("\xff\"\\\n猫"), "\"\\ufffd\\\"\\\\\\u000a猫\"");
}

// Values that nobody reads must be JSON, too.
TEST(JsonSyntax, IsCheckedInValuesThatAreNotRead) {
  TestFolder dir;
  const std::string path = dir / "a.json";
  auto error = [&](const std::string& value) {
    write_bytes(path, "{\"read\": 1,\n\"other\": " + value + ",\n\"last\": [1, " + value + "]}");
    return input_error([&] {
      JsonFile json(path);
      int64_t number = 0;
      json.root_fields([&](std::string_view key, JsonValue v) {
        if (key == "read") {
          EXPECT_TRUE(json.read(v, number));
        }
        if (key == "last") {
          EXPECT_TRUE(json.elements(v, [&](JsonValue) {}));
        }
      });
    });
  };
  for (const char* value : {"1", "\"a\"", "{}", "{\"a\": [1, {\"b\": null}]}", "[[1.5, -2], []]", "true"})
    EXPECT_EQ(error(value), "no error") << value;
  for (const char* value :
       {"{\"a\" 1}", "[1,]", "tru", "01", "\"\\q\"", "[1 2]", "{\"a\":{\"b\":nul}}", "1.e5", "[1}", "NaN"})
    EXPECT_EQ(error(value).find(path + ": line 2, byte "), 0u) << value << ": " << error(value);
}

TEST(ReadText, NamesOtherEncodingsAndKnowsAllLineEnds) {
  using namespace std::string_view_literals;
  TestFolder dir;
  const std::string path = dir / "a.txt";
  auto read = [&](std::string_view bytes, bool has_own_encodings = false) {
    write_bytes(path, std::string(bytes));
    return read_text(path, {"a text", 50, has_own_encodings});
  };
  for (const auto& [bytes, name] : {std::pair{"\xFF\xFE"
                                              "a\0"sv,
                                              "UTF-16"},
                                    {"\xFE\xFF\0a"sv, "UTF-16"},
                                    {"a\0b\0"sv, "UTF-16"},
                                    {"\0a\0b"sv, "UTF-16"},
                                    {"\xFF\xFE\0\0"sv, "UTF-32"},
                                    {"\0\0\xFE\xFF"sv, "UTF-32"}}) {
    EXPECT_EQ(input_error([&] { read(bytes); }), fmt::format("{}: is {} text, expected UTF-8", path, name));
    EXPECT_EQ(read(bytes, true), bytes);
    EXPECT_EQ(input_error([&] { JsonFile json(path); }),
              fmt::format("{}: is {} text, expected UTF-8", path, name));
  }
  EXPECT_EQ(read("a\rb\r"), "a\nb\n");
  EXPECT_EQ(read("a\rb\r", true), "a\rb\r");
  for (const std::string_view text : {"a\r\nb\rc"sv, "a\0\0b"sv, ""sv, "\0\0\0\0"sv, "\xEF\xBB\xBF"sv})
    EXPECT_EQ(read(text), text);
}

// Each process removes the folders that it has made, as long as they are empty.
TEST(MadeFolder, TwoMayMakeTheSameParentsAtOnce) {
  TestFolder dir;
  int made[2] = {};
  auto work = [&](int own) {
    const std::string path = dir / fmt::format("x/y/z/{}", own);
    for (int i = 0; i < 3000; ++i) {
      const MadeFolder folder(path);
      made[own] += std::filesystem::is_directory(path);
    }
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  EXPECT_EQ(made[0], 3000);
  EXPECT_EQ(made[1], 3000);
}

TEST(MadeFolder, SaysWhyThereIsNone) {
  TestFolder dir;
  write_bytes(dir / "file", "");
  std::filesystem::create_symlink("nothing", dir / "link");
  EXPECT_EQ(input_error([&] { MadeFolder(dir / "a/b/c"); }), "no error");
  EXPECT_NE(input_error([&] { MadeFolder(dir / "file/b"); }).find("file: is a file, expected a folder"),
            std::string::npos);
  EXPECT_NE(input_error([&] { MadeFolder(dir / "link/b"); }).find("cannot create the folder: File exists"),
            std::string::npos);
  EXPECT_NE(
      input_error([&] { MadeFolder("/proc/nothing/b"); }).find("cannot create the folder: No such file"),
      std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(dir / "a"));
}

}  // namespace
}  // namespace saccade
