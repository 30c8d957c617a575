// Makes the program a function of libsaccade, so that the wheel holds the code once.
#include "train/python/entry.h"

#include <omp.h>

#include "train/commands/cli/cli.h"

extern "C" {

void GOMP_parallel(void (*)(void*), void*, unsigned, unsigned);
void GOMP_barrier();

const SaccadeOpenMp* saccade_open_mp() {
  static constexpr SaccadeOpenMp kOurs{GOMP_parallel,       GOMP_barrier,       omp_get_max_threads,
                                       omp_get_num_threads, omp_get_thread_num, omp_in_parallel,
                                       omp_set_num_threads};
  return &kOurs;
}

int saccade_run_program(int argc, char** argv) {
  saccade::prepare_process();
  return saccade::run_command_line(argc, argv);
}
}
