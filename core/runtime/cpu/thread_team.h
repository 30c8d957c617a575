// The threads of the CPU's parallel loops. They run OpenMP loops, which parallel_for and oneDNN both use, but
// with our own waiting. libgomp waits for the next loop either by spinning for milliseconds, which on a busy
// machine takes the processor from the very thread that is waited for, or by sleeping at once, which costs a
// third of a training step on an idle machine. Here a thread spins for as long as the gaps between the loops
// of a step last, then sleeps. The entry points that compiled code and oneDNN call (GOMP_parallel and its
// kin) are defined in thread_team.cpp and take precedence over libgomp's.
#pragma once

namespace saccade {

// The larger of 64 and 8 threads per processor. More must be a mistake: they would wait for each other.
int max_threads();

// The threads of a loop, including the calling one: initially OMP_NUM_THREADS, or else available_processors()
// (processors.h).
int thread_count();
void set_thread_count(int count);

// Starts the calling thread's helpers in advance, since a loop that lacks its threads can only end the
// program. Throws InputError if more than max_threads() are wanted, and Error if the machine starts fewer.
void start_threads();

// Returns whether the calling thread is running a part or a loop. Loops that it begins then run on it alone.
bool in_parallel();
// The threads of a loop that begins here: 1 inside another one.
int loop_threads();

// Runs part(data, i) for 0 <= i < parts, on at most as many threads. Unlike the threads of an OpenMP loop,
// parts may not wait for each other: the caller takes over what no helper has begun, so that it never waits
// for a helper that has no processor. Expects parts <= max_threads(); no exception may leave a part.
void run_parts(int parts, void (*part)(void*, int), void* data);

// While it lives, the OpenMP loops that this thread begins run as parts: for calls of a library whose threads
// do not wait for each other.
class IndependentLoops {
 public:
  IndependentLoops();
  ~IndependentLoops();
  IndependentLoops& operator=(IndependentLoops&&) = delete;
};

}  // namespace saccade
