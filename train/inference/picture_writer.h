// Draws and encodes pictures on threads of its own while the model processes the next images: a PNG file
// takes longer than many models.
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
      : workspace_(workspace), tasks_(2) {  // each task holds an image
    for (int i = 0; i < std::max(1, threads); ++i) threads_.emplace_back([this] { work(); });
  }
  ~PictureWriter() { tasks_.close(); }  // tasks that wait are still done
  const Workspace& workspace() const { return workspace_; }
  // `make` writes files of these names into the workspace, from where they are moved to their places. Waits
  // while the queue is full. Rethrows the failure of an earlier task.
  void add(std::vector<std::string> names, std::function<void()> make) {
    if (!tasks_.push({std::move(names), std::move(make)})) end();
  }
  // Waits until all files are in their places, or rethrows the failure of one of the tasks.
  void end() {
    tasks_.close();
    threads_.clear();
    while (tasks_.pop()) {  // rethrows after the tasks that no thread took
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
