// Instead of thread_team.cpp's, which replaces GCC's OpenMP and so is not for clang.
#include "core/runtime/cpu/thread_team.h"

int saccade::thread_count() { return 1; }
