// Draws and encodes pictures on threads of its own while the model looks at the next images: a PNG file takes
// longer than many models.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "train/inference/bounded_queue.h"
#include "train/inference/picture_files.h"

namespace saccade {

class PictureWriter {
 public:
  PictureWriter(Workspace& workspace, int threads);
  ~PictureWriter() { tasks_.close(); }  // what waits is still made
  const Workspace& workspace() const { return workspace_; }
  // `make` writes files of these names into the workspace, from where they come to their places. Waits while
  // enough others wait. Throws what an earlier one failed with.
  void add(std::vector<std::string> names, std::function<void()> make);
  // Waits until all are in their places, or throws what one of them failed with.
  void end();

 private:
  struct Task {
    std::vector<std::string> names;
    std::function<void()> make;
  };
  void work();

  Workspace& workspace_;
  BoundedQueue<Task> tasks_;
  std::vector<std::jthread> threads_;  // the last: they end first
};

}  // namespace saccade
