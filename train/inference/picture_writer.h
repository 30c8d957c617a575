// Draws and encodes pictures on threads of its own while the model looks at the next images: a PNG file takes
// longer than many models.
#pragma once

#include <algorithm>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "train/inference/bounded_queue.h"
#include "train/inference/picture_files.h"

namespace saccade {

class PictureWriter {
 public:
  PictureWriter(Workspace& workspace, int threads)
      : workspace_(workspace), tasks_(2) {  // each holds an image
    for (int i = 0; i < std::max(1, threads); ++i) threads_.emplace_back([this] { work(); });
  }
  ~PictureWriter() { tasks_.close(); }  // what waits is still made
  const Workspace& workspace() const { return workspace_; }
  // `make` writes files of these names into the workspace, from where they come to their places. Waits while
  // enough others wait. Throws what an earlier one failed with.
  void add(std::vector<std::string> names, std::function<void()> make) {
    if (!tasks_.push({std::move(names), std::move(make)})) end();
  }
  // Waits until all are in their places, or throws what one of them failed with.
  void end() {
    tasks_.close();
    threads_.clear();
    while (tasks_.pop()) {  // throws after what nobody has taken
    }
  }

 private:
  struct Task {
    std::vector<std::string> names;
    std::function<void()> make;
  };
  void work() {
    try {
      while (std::optional<Task> task = tasks_.pop()) {
        task->make();
        for (const std::string& name : task->names) workspace_.publish(name);
      }
    } catch (...) {
      tasks_.close(std::current_exception());
    }
  }

  Workspace& workspace_;
  BoundedQueue<Task> tasks_;
  std::vector<std::jthread> threads_;  // the last: they end first
};

}  // namespace saccade
