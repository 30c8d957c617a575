// The threads of the CPU's parallel loops: OpenMP's, on which parallel_for and oneDNN both run,
// with waiting of our own.
// libgomp waits for the next loop by spinning for milliseconds, which on a machine with other work takes the
// processor from the very thread that is waited for, or else sleeps at once, which costs a third of a
// training step on an idle one. Here a thread spins for as long as the gaps between the loops of a step last,
// then sleeps. The entry points that compiled code and oneDNN call (GOMP_parallel and its kin) are defined in
// thread_team.cpp and take precedence over libgomp's.
#pragma once

namespace saccade {

// More threads for each processor, and more than 64, are a mistake: they wait for each other.
int max_threads();

// Threads of a loop, the calling one included: at first OMP_NUM_THREADS,
// or else available_processors() (processors.h).
int thread_count();
void set_thread_count(int count);

// Starts the calling thread's helpers, so that a loop finds them; a loop that lacks its threads can only end
// the program. Throws InputError when there are to be more than max_threads(),
// and Error when the machine starts fewer.
void start_threads();

// Does the calling thread run a part or a loop? Then others that it meets are its own.
bool in_parallel();

// part(data, i) for 0 <= i < parts, on at most as many threads. Unlike those of an OpenMP loop, parts may not
// wait for each other: the caller takes what no helper has begun, so that a helper that has no processor is
// not waited for.
// Expects parts <= max_threads(); no exception may leave a part.
void run_parts(int parts, void (*part)(void*, int), void* data);

// While it lives, the OpenMP loops that this thread begins are run as parts: for calls of a library whose
// threads do not wait for each other.
class IndependentLoops {
 public:
  IndependentLoops();
  ~IndependentLoops();
  IndependentLoops& operator=(IndependentLoops&&) = delete;
};

}  // namespace saccade
