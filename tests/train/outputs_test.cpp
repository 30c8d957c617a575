// Tests files, streams and messages of the commands: what they open and write, what they leave alone, how
// they end when a stream is closed, full or cut, and what they print for names with any characters. A case is
// a shell script in which $S is the program.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "core/files/text.h"
#include "tests/train/program.h"

namespace saccade {
namespace {

struct ScriptCase {
  std::string script;
  int status;
  std::string error;       // part of the one line on stderr; "": stderr is empty
  std::string check = "";  // a script that ends with 0
};

const std::string kScore = "$S score --annotations shapes/annotations.json --detections d.json ";
const std::string kEval = "$S eval --checkpoint " + kCheckpoint + kShapes;
const std::string kPredict = "$S predict --threshold 0 --checkpoint " + kCheckpoint + " --output ";
const std::string kTrain = "$S train --max-steps 1 --config tiny.textproto --output ";

class Outputs : public Cli {
 protected:
  static void SetUpTestSuite() {
    Cli::SetUpTestSuite();
    expect_works("eval --detections d.json --json figures.json --checkpoint " + kCheckpoint + kShapes);
  }
  static void check(const std::vector<ScriptCase>& cases) {
    for (const ScriptCase& c : cases) {
      SCOPED_TRACE(c.script);
      Result r = run_script(c.script);
      EXPECT_EQ(r.status, c.status) << r.err;
      if (c.error.empty()) {
        EXPECT_EQ(r.err, "");
      } else {
        EXPECT_EQ(r.err.rfind("error: ", 0), 0u) << r.err;
        EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
        EXPECT_NE(r.err.find(c.error), std::string::npos) << r.err;
      }
      EXPECT_EQ(escaped_lines(r.err), r.err);
      EXPECT_EQ(escaped_lines(r.out), r.out);
      if (!c.check.empty()) {
        Result after = run_script(c.check);
        EXPECT_EQ(after.status, 0) << c.check << "\n" << after.out << after.err;
      }
    }
  }
};

TEST_F(Outputs, StreamsThatAreClosedFullOrCutEndInOneLine) {
  const std::string full = "standard output: No space left on device", closed = "standard output: ";
  std::vector<ScriptCase> cases;
  for (const std::string& command :
       {kScore, kEval, kPredict + "p1 " + image_, kTrain + "full",
        std::string("$S summary --config tiny.textproto"), std::string("$S data check") + kShapes,
        std::string("$S data shapes --images 1 --seed 1 --output s1"),
        "$S convert " + kCheckpoint + " c1.safetensors", std::string("$S describe"),
        std::string("$S --version"), std::string("$S score --help")}) {
    cases.push_back({command + " >/dev/full", 1, full, "rm -rf s1 full"});
    cases.push_back({command + " >&-", 1, closed, "rm -rf s1 full"});
  }
  cases.push_back({"{ until [ -e gone ]; do sleep 0.01; done; " + kScore +
                       "; echo $? >&3; } 3>rc | { exec <&-; : >gone; }",
                   0, "standard output: Broken pipe", "[ $(cat rc) = 1 ]"});
  // No file may get the number of a stream, or what is printed would be written into it.
  cases.push_back({kTrain + "closed <&- >&- 2>&-", 1, "",
                   "! grep -v '^{\"type\"' closed/metrics.jsonl && [ -s closed/metrics.jsonl ]"});
  cases.push_back({kScore + "--json f.json <&- >&-", 1, closed, "cmp f.json figures.json"});
  cases.push_back({kScore + "--json f.json 2>&- >/dev/null", 0, "", "cmp f.json figures.json"});
  check(cases);
}

TEST_F(Outputs, NeverReplaceWhatTheyMustNot) {
  const std::string refused = "expected the name of a file to write";
  check({
      {kScore + "--json /dev/null", 0, "", "[ -c /dev/null ]"},
      {"ln -s /dev/null null; " + kScore + "--json null", 0, "", "[ -L null ] && [ -c /dev/null ]"},
      {kScore + "--json /dev/stdout | tail -n $(wc -l <figures.json) | cmp - figures.json", 0, ""},
      {kScore + "--json /dev/stdout >both", 0, "",
       "head -n 1 both | grep -q Average && tail -n $(wc -l <figures.json) both | cmp - figures.json"},
      {kScore + "--json /dev/fd/3 3>third", 0, "", "cmp third figures.json"},
      {kScore + "--json /dev/fd/9", 2, "/dev/fd/9: is not open for writing"},
      {kScore + "--json /dev/full", 1, "/dev/full: cannot write the file: No space left"},
      {"mkfifo fifo; " + kScore + "--json fifo", 2, "fifo: is a FIFO, " + refused, "[ -p fifo ]"},
      {kScore + "--json shapes", 2, "shapes: is a folder, " + refused},
      {"echo old >target.json; ln -s target.json link.json; " + kScore + "--json link.json", 0, "",
       "[ -L link.json ] && cmp target.json figures.json"},
      {"ln -s fresh dangling; " + kScore + "--json dangling", 0, "",
       "[ -L dangling ] && cmp fresh figures.json"},
      {"echo old >private.json; chmod 600 private.json; " + kScore + "--json private.json", 0, "",
       "[ $(stat -c %a private.json) = 600 ] && cmp private.json figures.json"},
      {"echo old >figures.txt; " + kScore + "--json figures.txt", 2,
       "figures.txt: already exists, and its name does not end in .json; expected another name",
       "[ $(cat figures.txt) = old ]"},
      {"echo old >fixed; chmod 444 fixed; " + kScore + "--json fixed", 2, "fixed: is read-only, " + refused,
       "[ $(cat fixed) = old ]"},
      {"cp d.json d2.json; $S score --annotations shapes/annotations.json --detections d2.json --json d2.json",
       2, "--json is the same file as --detections", "cmp d.json d2.json"},
      {"cp shapes/annotations.json a.json; $S score --annotations a.json --detections d.json --json ./a.json",
       2, "--json is the same file as --annotations", "cmp a.json shapes/annotations.json"},
      {"cp " + kCheckpoint + " copy.safetensors; $S eval --checkpoint copy.safetensors" + kShapes +
           "--json copy.safetensors",
       2, "--json is the same file as --checkpoint", "cmp copy.safetensors " + kCheckpoint},
      {"mkdir -p set/images; cp shapes/images/* set/images; cp shapes/annotations.json set/annotations.json; "
       "$S eval --checkpoint " +
           kCheckpoint + " --data set --detections set/annotations.json",
       2, "is the same file as the annotations", "cmp set/annotations.json shapes/annotations.json"},
      {"$S eval --checkpoint " + kCheckpoint + " --data set --json set/annotations.json", 2,
       "is the same file as the annotations", "cmp set/annotations.json shapes/annotations.json"},
      {"$S eval --checkpoint " + kCheckpoint +
           " --data set --detections d4.json >/dev/null 2>&1; $S score --checkpoint " + kCheckpoint +
           " --data set --detections d4.json --json set/annotations.json",
       2, "is the same file as the annotations", "cmp set/annotations.json shapes/annotations.json"},
      {"mkdir lm; cp " + image_ +
           " lm/a.png; echo '{\"shapes\": [{\"label\": \"circle\", \"points\": [[5, 5], [20, 20]], \"shape_type\": \"rectangle\"}], \"imagePath\": \"a.png\"}' >lm/a.json; "
           "cp lm/a.json lm.json; $S eval --checkpoint " +
           kCheckpoint + " --annotations lm --images lm --json lm/a.json",
       2, "lm/a.json: --json is one of the files with the labels in lm", "cmp lm/a.json lm.json"},
      {"$S eval --checkpoint " + kCheckpoint + " --annotations lm --images lm --detections lm/a.json", 2,
       "lm/a.json: --detections is one of the files with the labels in lm", "cmp lm/a.json lm.json"},
      {"$S score --annotations lm --images lm --detections d.json --json lm/a.json", 2,
       "lm/a.json: --json is one of the files with the labels in lm", "cmp lm/a.json lm.json"},
      {"$S eval --checkpoint " + kCheckpoint + " --annotations lm --images lm --json lm.json", 0, "",
       "grep -q AP50 lm.json"},
      {kEval + "--json same --detections same", 2, "--detections and --json are the same file",
       "! [ -e same ]"},
      {"cp tiny.textproto t.textproto; $S summary --config t.textproto --json t.textproto", 2,
       "--json is the same file as --config", "cmp t.textproto tiny.textproto"},
      {kEval + "--json " + image_, 2, "is the name of an image"},
      {"mkdir own; cp tiny.textproto own/config.textproto; $S train --config own/config.textproto --output own",
       2, "the configuration of the run is the same file as --config",
       "cmp own/config.textproto tiny.textproto"},
      {"$S convert copy.safetensors copy.safetensors", 2, "OUT is the same file as IN",
       "cmp copy.safetensors " + kCheckpoint},
      {"echo old >o.safetensors; $S convert copy.safetensors o.safetensors | grep 'replaces an existing file' >/dev/null",
       0, ""},
      {"! $S convert copy.safetensors n.safetensors | grep replaces", 0, ""},
  });
}

TEST_F(Outputs, WhatAShellHandsOverIsRead) {
  std::vector<ScriptCase> cases;
  cases.push_back(
      {"cat d.json | $S score --annotations shapes/annotations.json --detections /dev/stdin --json f3.json",
       0, "", "cmp f3.json figures.json"});
  if (std::getenv("ASAN_OPTIONS") == nullptr)
    cases.push_back(
        {"yes '          ' | { ulimit -v 900000; $S score --threads 1 --annotations /dev/stdin --detections d.json; }",
         1, "/dev/stdin: "});
  else
    std::puts("no limit of memory is tried: AddressSanitizer takes more addresses than that");
  cases.push_back({"cat " + image_ + " | " + kPredict + "p3 /dev/stdin", 0, "", "[ -s p3/stdin.png ]"});
  cases.push_back({kPredict + "p4 /dev/stdin <" + image_, 0, "", "cmp p3/stdin.png p4/stdin.png"});
  cases.push_back(
      {kPredict + "p5 /dev/stdin <&-", 2, "/dev/stdin: is a device, expected an image", "! [ -e p5 ]"});
  check(cases);
}

TEST_F(Outputs, MessagesHoldNoControlCharacters) {
  const std::string name = "\"$(printf 'a\\033[31m\\n\\377')\"", shown = R"(a\x1b[31m\n\xff)";
  check({
      {"$S train --output out --config " + name, 2, shown},
      {kTrain + "out --max-steps " + name, 2, "a\\x1b[31m"},
      {kTrain + "out --set " + name, 2, "\\x1b[31m"},
      {"$S eval --checkpoint " + name + kShapes, 2, shown},
      {"$S eval --checkpoint " + kCheckpoint + " --images shapes/images --annotations " + name, 2, shown},
      {"$S eval --checkpoint " + kCheckpoint + " --annotations shapes/annotations.json --images " + name, 2,
       shown},
      {"$S describe " + name, 2, "\\x1b[31m"},
      {"$S " + name, 2, "\\x1b[31m"},
      {kPredict + "out " + name, 2, shown, "! [ -e out ]"},
      {"printf 'seed: 1 \\033[2J\\001' >esc.textproto; $S summary --config esc.textproto", 2,
       "esc.textproto:1:"},
      // The name is printed as a result and in notes.
      {"cp " + image_ + " " + name + ".png; " + kPredict + name + " " + name + ".png", 0, "",
       "[ -s " + name + "/detections.json ]"},
      {"sed 's/circle/\\\\u001b[31m\\\\nerror:/' shapes/annotations.json >esc.json; $S score --per-class --annotations esc.json "
       "--detections d.json >table",
       0, "", "grep -F '\\x1b[31m\\nerror:' table"},
      {"sed 's/\"file_name\":\"/&\\\\u001b[31m/' shapes/annotations.json >esc.json; $S data check --images shapes/images --annotations "
       "esc.json",
       2, "esc.json: "},
  });
}

// One bad file among many is reported and left out, and the exit status shows it.
TEST_F(Outputs, PredictGoesOnAfterABadFile) {
  ASSERT_EQ(
      run_script(
          "mkdir mixed mixed/below; cp shapes/images/*.png mixed; head -c 100 " + image_ +
          " >mixed/cut.png; : >mixed/zero.jpg; echo x >mixed/unread.tif; echo x >mixed/notes.txt; mkdir '[a,b]'; cp " +
          image_ + " '[a,b]'/a.png")
          .status,
      0);
  Result r = run_script(kPredict + "mixed_out mixed none.png");
  EXPECT_EQ(r.status, 2);
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 4) << r.err;
  for (const char* part : {"error: mixed/cut.png: ", "error: mixed/zero.jpg: ", "error: mixed/unread.tif: ",
                           "error: none.png: "})
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
  EXPECT_NE(r.out.find("mixed_out: 4 pictures"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("4 of 8 files could not be read; the results of the others are in mixed_out"),
            std::string::npos)
      << r.out;
  EXPECT_NE(r.out.find("mixed: left out: 1 sub-folder, 1 file not named like an image"), std::string::npos)
      << r.out;
  // The results are the same as without the bad ones.
  check({{kPredict + "good_out shapes/images", 0, "", "diff -r good_out mixed_out"},
         {kPredict + "pair '[a,b]'", 0, "", "[ -s pair/a.png ]"},
         {kPredict + "pair2 mixed/below " + image_, 2, "mixed/below: no images in this folder",
          "[ -s pair2/detections.json ]"},
         // There is nothing new, so the results of the earlier run stay.
         {"cp -r pair2 earlier; " + kPredict + "pair2 mixed/cut.png", 2,
          "mixed/cut.png: ", "diff -r pair2 earlier"},
         {kPredict + "pair2 none.png", 2, "none.png: ", "diff -r pair2 earlier"},
         // Without pictures, the old list stays until the new one replaces it.
         {kPredict + "pair2 --no-pictures mixed/cut.png", 2, "mixed/cut.png: ", "diff -r pair2 earlier"}});
}

TEST_F(Outputs, PredictLeavesTheFilesOfOthersAlone) {
  const std::string longest(251, 'y');
  check({
      // The output goes into the folder of its images.
      {"mkdir pics; cp " + image_ + " pics/photo.png; " + kPredict + "pics pics/photo.png", 0, "",
       "cmp " + image_ + " pics/photo.png && [ -s pics/photo_2.png ]"},
      // Repeated: its own picture is replaced.
      {"cp pics/photo_2.png first.png; chmod 600 pics/photo_2.png pics/detections.json; " + kPredict +
           "pics pics/photo.png",
       0, "",
       "cmp first.png pics/photo_2.png && [ $(stat -c %a pics/photo_2.png) = 600 ] && [ $(stat -c %a pics/detections.json) = 600 ] && ! [ -e pics/photo_3.png ]"},
      // Its own picture as an input stays, too.
      {kPredict + "pics pics/photo_2.png", 0, "",
       "cmp first.png pics/photo_2.png && [ -s pics/photo_2_2.png ]"},
      {"cp " + image_ + " a.png; mkdir used; echo mine >used/a.png; " + kPredict +
           "used a.png | grep 'a.png already exists and is kept' >/dev/null",
       0, "", "[ $(cat used/a.png) = mine ] && [ -s used/a_2.png ]"},
      {"mkdir -p cropped/crops; echo mine >cropped/crops/a.png; " + kPredict +
           "cropped --max 1 --crop a.png | grep 'crops/a.png already exists and is kept' >/dev/null",
       0, "", "[ $(cat cropped/crops/a.png) = mine ] && [ -s cropped/crops/a_2.png ]"},
      {"mkdir linked; ln -s ../shapes/annotations.json linked/a.png; cp shapes/annotations.json kept; " +
           kPredict + "linked a.png",
       0, "", "cmp kept shapes/annotations.json && [ -L linked/a.png ]"},
      {"mkdir listed; cp d.json listed/detections.json; " + kPredict + "listed a.png", 2,
       "listed/detections.json: already exists and is not from saccade predict",
       "cmp d.json listed/detections.json && ! [ -e listed/a.png ]"},
      {kPredict + "tiny.textproto a.png", 2, "tiny.textproto: is a file, expected a folder"},
      // The folder looks like the one in which another process with this number makes its pictures.
      {"mkdir shared; sh -c 'mkdir shared/.predict-$$ shared/.predict-$$-0; echo mine >shared/.predict-$$-0/mine; exec \"$0\" predict "
       "--threshold 0 --checkpoint " +
           kCheckpoint + " --output shared a.png' \"$S\"",
       0, "",
       "[ $(cat shared/.predict-*-0/mine) = mine ] && [ -s shared/a.png ] && ! ls -d shared/.predict-*-1"},
      // Names are as long as allowed, or not UTF-8.
      {"cp a.png " + longest + ".png; " + kPredict + "long " + longest + ".png", 0, "",
       "[ -s long/" + longest + ".png ]"},
      {"cp a.png " + longest + "zzzz; " + kPredict + "long2 " + longest + "zzzz", 0, "",
       "[ -s long2/" + longest + ".png ]"},
      {"n=\"$(printf '\\377\\376').png\"; cp a.png \"$n\"; " + kPredict + "bytes \"$n\"", 0, "",
       "iconv -f UTF-8 bytes/detections.json >/dev/null && grep -qF '\\ufffd\\ufffd.png' bytes/detections.json"},
  });
}

// A hidden file of an earlier program in a run is created again, not written through.
TEST_F(Outputs, HiddenLinksInARunLeadNowhere) {
  check(
      {{"cp -r run mined; echo precious >mine; for name in last.safetensors.tmp-next previous.safetensors.tmp-link; do ln -s "
        "../../mine mined/checkpoints/.$name; done; $S train --output mined --resume --set train.max_steps=3 --quiet",
        0, "", "[ $(cat mine) = precious ] && [ -f mined/checkpoints/last.safetensors ]"}});
}

// Runs the program with a pipe as its stdin, which stays open; ends it by a signal when `path` is there.
int status_after_signal(const std::vector<std::string>& arguments, int signal, const fs::path& path) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return -1;
  std::vector<char*> words{const_cast<char*>(SACCADE_BINARY_DIR "/saccade")};
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  const std::string folder = scratch().string();
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(signal, SIG_DFL);  // under nohup a hang-up would be ignored
    ::dup2(ends[0], STDIN_FILENO);
    ::dup2(::open("/dev/null", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
    if (::chdir(folder.c_str()) == 0) ::execv(words[0], words.data());
    ::_exit(127);
  }
  for (int i = 0; i < 3000 && !fs::exists(path); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ::kill(child, signal);
  int status = -1;
  ::waitpid(child, &status, 0);
  ::close(ends[0]);
  ::close(ends[1]);
  return WIFSIGNALED(status) ? WTERMSIG(status) : -1;
}

// Whole pictures appear as they are made; the list comes at the end.
TEST_F(Outputs, AKilledPredictLeavesWholePictures) {
  const std::string picture = fs::path(image_).stem().string() + ".png";
  ASSERT_EQ(run_script(kPredict + "ended " + image_).status, 0);
  fs::create_directory(scratch() / "old_folder");
  for (int signal : {SIGINT, SIGTERM, SIGHUP})
    for (const char* folder : {"new_folder", "old_folder"}) {
      SCOPED_TRACE(testing::Message() << "signal " << signal << ", " << folder);
      const fs::path path = scratch() / folder;
      // The list of an earlier run is not left next to the pictures of this one.
      if (fs::exists(path)) fs::copy(scratch() / "ended/detections.json", path);
      EXPECT_EQ(status_after_signal({"predict", "--threshold", "0", "--checkpoint", kCheckpoint, "--output",
                                     folder, image_, "/dev/stdin"},
                                    signal, path / picture),
                signal);
      EXPECT_EQ(std::distance(fs::directory_iterator(path), fs::directory_iterator()), 1);
      EXPECT_EQ(read_bytes(path / picture), read_bytes(scratch() / "ended" / picture));
      fs::remove(path / picture);
      if (std::string(folder) == "new_folder") fs::remove(path);
    }
}

// Every object in a large image is found once with tiles (tests/train/inference/tiles_test.cpp), with the
// same result every time and with other batches.
TEST_F(Outputs, PredictSeesTiles) {
  const std::string tiles = kPredict + "tiled --tile 32 " + image_;
  check({{tiles, 0, "", "[ -s tiled/" + fs::path(image_).stem().string() + ".png ]"},
         {"cp tiled/detections.json tiled.json; " + tiles + " --batch-size 4", 0, "",
          "cmp tiled.json tiled/detections.json"},
         {kPredict + "fits --tile 64 " + image_ + " && " + kPredict + "plain " + image_, 0, "",
          "cmp fits/detections.json plain/detections.json"},
         {tiles + " --sampling-points", 2, "--sampling-points and --tile cannot be combined"},
         {tiles + " --tile-overlap 1", 2, "--tile-overlap"},
         {kPredict + "alone --tile-overlap 0.5 " + image_, 2, "--tile-overlap needs --tile",
          "! [ -e alone ]"}});
}

TEST_F(Outputs, IgnoredSignalsAndSizeLimitsEndInOrder) {
  check({{"trap '' INT TERM HUP; $S describe", 0, ""},
         {"ulimit -f 1; $S data shapes --images 2 --seed 1 --size 400 --output s3", 1, "File too large",
          "! [ -e s3 ]"}});
}

// Root is not bound by these permissions.
TEST_F(Outputs, PermissionsThatLackAreOneLine) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may do everything";
  ASSERT_EQ(run_script("mkdir hidden fixed_folder; cp " + kCheckpoint +
                       " hidden/x.safetensors; chmod 0 hidden; chmod 555 fixed_folder")
                .status,
            0);
  const std::string denied = "Permission denied";
  check({{kTrain + "hidden/run", 2, denied},
         {kTrain + "fixed_folder/run", 2, denied},
         {kPredict + "hidden/p " + image_, 2, denied},
         {kPredict + "p hidden", 2, denied, "! [ -e p ]"},
         {kPredict + "p hidden/x.png", 2, denied, "! [ -e p ]"},
         // What is next to an unreadable folder is read.
         {"mkdir -p mixed/shut mixed/open; cp " + image_ + " mixed/open/a.png; chmod 0 mixed/shut; " +
              kPredict + "p2 mixed --recursive",
          2, "mixed/shut: the folder cannot be read: " + denied, "[ -s p2/a.png ]"},
         {"$S eval --checkpoint hidden/x.safetensors" + kShapes, 2, denied},
         {kScore + "--json hidden/f.json", 2, denied},
         {kScore + "--json fixed_folder/f.json", 2, "no permission to write to fixed_folder"},
         {"$S summary --config hidden/c.textproto", 2, denied},
         {"$S data shapes --images 1 --seed 1 --output hidden/s", 2, denied}});
  run_script("chmod 755 hidden fixed_folder mixed/shut");
}

}  // namespace
}  // namespace saccade
