// The program `saccade` of the Python wheel: it calls that of libsaccade, which is next to it. oneDNN finds
// OpenMP's functions here before libgomp's, as in the self-contained program; the library must not offer them
// to other processes.
#include "train/python/entry.h"

namespace {
const SaccadeOpenMp& ours() {
  static const SaccadeOpenMp& functions = *saccade_open_mp();
  return functions;
}
}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags) {
  ours().parallel(body, data, threads, flags);
}
void GOMP_barrier() { ours().barrier(); }
int omp_get_max_threads() { return ours().max_threads(); }
int omp_get_num_threads() { return ours().num_threads(); }
int omp_get_thread_num() { return ours().thread_num(); }
int omp_in_parallel() { return ours().in_parallel(); }
void omp_set_num_threads(int count) { ours().set_num_threads(count); }
}
#pragma GCC visibility pop

int main(int argc, char** argv) { return saccade_run_program(argc, argv); }
