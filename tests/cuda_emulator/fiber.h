// Fibers: functions on stacks of their own that can be suspended and resumed. A CUDA thread that waits at a
// barrier is a suspended fiber.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace saccade::emulator {

class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs the body from where it was left until it yields or returns. Called from outside all fibers.
  void resume();
  // Returns to whoever resumed the running fiber.
  static void yield();
  static bool inside() { return running_ != nullptr; }
  bool finished() const { return finished_; }
  // Abandons the rest of the body: objects on its stack are never destroyed (device code owns nothing).
  void abandon() { finished_ = true; }

 private:
  static void entry();
  void switch_to_caller(bool last);

  static thread_local Fiber* running_;
  std::function<void()> body_;
  char* stack_;
  void* own_ = nullptr;  // saved stack pointers
  void* caller_ = nullptr;
  const void* caller_stack_ = nullptr;  // for AddressSanitizer
  size_t caller_stack_bytes_ = 0;
  void* fake_stack_ = nullptr;
  bool finished_ = false;
};

}  // namespace saccade::emulator
