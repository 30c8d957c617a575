// The functions that the program of the Python wheel takes from the libsaccade next to it. Only that build
// has them (scripts/cmake/wheel.cmake).
#pragma once

extern "C" {

// The OpenMP entry points that oneDNN and our loops run on (core/runtime/cpu/thread_team.h).
struct SaccadeOpenMp {
  void (*parallel)(void (*body)(void*), void* data, unsigned threads, unsigned flags);
  void (*barrier)();
  int (*max_threads)();
  int (*num_threads)();
  int (*thread_num)();
  int (*in_parallel)();
  void (*set_num_threads)(int count);
};

__attribute__((visibility("default"))) const SaccadeOpenMp* saccade_open_mp();
__attribute__((visibility("default"))) int saccade_run_program(int argc, char** argv);
}
