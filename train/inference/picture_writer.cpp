#include "train/inference/picture_writer.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace saccade {

PictureWriter::PictureWriter(Workspace& workspace, int threads)
    : workspace_(workspace), tasks_(2) {  // each holds an image
  for (int i = 0; i < std::max(1, threads); ++i) threads_.emplace_back([this] { work(); });
}

void PictureWriter::add(std::vector<std::string> names, std::function<void()> make) {
  if (!tasks_.push({std::move(names), std::move(make)})) end();
}

void PictureWriter::end() {
  tasks_.close();
  threads_.clear();
  while (tasks_.pop()) {  // throws after what nobody has taken
  }
}

void PictureWriter::work() {
  try {
    while (std::optional<Task> task = tasks_.pop()) {
      task->make();
      for (const std::string& name : task->names) workspace_.publish(name);
    }
  } catch (...) {
    tasks_.close(std::current_exception());
  }
}

}  // namespace saccade
