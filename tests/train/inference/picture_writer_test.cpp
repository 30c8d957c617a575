#include "train/inference/picture_writer.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "core/files/output_file.h"
#include "core/tensor/error.h"
#include "tests/test_folder.h"

namespace saccade {
namespace {

TEST(PictureWriter, EveryPictureComesToItsPlace) {
  const TestFolder folder;
  for (const int threads : {1, 3}) {
    Workspace workspace(folder / fmt::format("out_{}", threads));
    PictureWriter writer(workspace, threads);
    for (int i = 0; i < 20; ++i) {
      const std::string name = fmt::format("crops/{}.png", i);
      writer.add({name},
                 [&writer, name] { write_file(writer.workspace().file(name), std::string_view("x")); });
    }
    writer.end();
    for (int i = 0; i < 20; ++i)
      EXPECT_TRUE(std::filesystem::exists(folder / fmt::format("out_{}/crops/{}.png", threads, i)));
  }
}

TEST(PictureWriter, OneThatFailsIsThrownAndThoseBeforeStay) {
  const TestFolder folder;
  Workspace workspace(folder / "out");
  PictureWriter writer(workspace, 1);
  writer.add({"first"}, [&] { write_file(writer.workspace().file("first"), std::string_view("x")); });
  EXPECT_THROW(
      {
        for (int i = 0; i < 100; ++i) writer.add({}, [] { fail_input("no room"); });
        writer.end();
      },
      InputError);
  EXPECT_TRUE(std::filesystem::exists(folder / "out/first"));
}

}  // namespace
}  // namespace saccade
