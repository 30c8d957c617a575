#include "tests/cuda_emulator/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#ifndef __x86_64__
#error "the CUDA emulator switches stacks in x86-64 assembly"
#endif

// Saves the registers that a call must keep and the stack pointer in *from, and continues at the stack
// pointer `to`.
extern "C" void saccade_switch_stack(void** from, void* to);
asm(R"(
.text
.globl saccade_switch_stack
.type saccade_switch_stack, @function
saccade_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size saccade_switch_stack, .-saccade_switch_stack
.section .note.GNU-stack,"",@progbits
.text
)");

namespace saccade::emulator {
namespace {

constexpr size_t kStackBytes = 256 << 10;
constexpr size_t kPage = 4096;

// Stacks are reused: a block of 1024 threads needs as many. A page without access is below each.
std::vector<char*>& free_stacks() {
  static std::vector<char*> stacks;
  return stacks;
}

char* take_stack() {
  auto& stacks = free_stacks();
  if (!stacks.empty()) {
    char* stack = stacks.back();
    stacks.pop_back();
    return stack;
  }
  void* p = mmap(nullptr, kStackBytes + kPage, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) std::abort();
  mprotect(p, kPage, PROT_NONE);
  return static_cast<char*>(p) + kPage;
}

}  // namespace

thread_local Fiber* Fiber::running_ = nullptr;

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)), stack_(take_stack()) {
  // The stack as saccade_switch_stack leaves it: six registers and the address to return to. A call would
  // have left the stack pointer 8 below a multiple of 16.
  auto* top = reinterpret_cast<void**>(stack_ + kStackBytes - 64);
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(&Fiber::entry);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  own_ = top;
}

Fiber::~Fiber() {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(stack_, kStackBytes);
#endif
  free_stacks().push_back(stack_);
}

void Fiber::resume() {
  running_ = this;
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, stack_, kStackBytes);
#endif
  saccade_switch_stack(&caller_, own_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
  running_ = nullptr;
}

void Fiber::switch_to_caller([[maybe_unused]] bool last) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(last ? nullptr : &fake_stack_, caller_stack_, caller_stack_bytes_);
#endif
  saccade_switch_stack(&own_, caller_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack_, &caller_stack_, &caller_stack_bytes_);
#endif
}

void Fiber::yield() { running_->switch_to_caller(false); }

void Fiber::entry() {
  Fiber* self = running_;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &self->caller_stack_, &self->caller_stack_bytes_);
#endif
  self->body_();
  self->finished_ = true;
  self->switch_to_caller(true);
  std::abort();  // a finished fiber is never resumed
}

}  // namespace saccade::emulator
