// The text that scripts/checks/mutate.py puts before every source of its copy: SACCADE_MUTANT=17 switches on
// the seventeenth change.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>
#include <type_traits>

namespace mutants {

inline constexpr int kMax = 4096;
inline std::atomic<bool> reached[kMax];

// With SACCADE_MUTANT=-1 and SACCADE_MUTANT_TRACE=FILE, writes a line with the numbers of the changes that a
// test, or a program that it starts, has reached.
struct State {
  int active = std::getenv("SACCADE_MUTANT") ? std::atoi(std::getenv("SACCADE_MUTANT")) : 0;

  void write(const std::string& name) const {
    const char* file = std::getenv("SACCADE_MUTANT_TRACE");
    if (active >= 0 || !file) return;
    std::string line = name;
    for (int id = 0; id < kMax; ++id) {
      if (reached[id].exchange(false)) line += " " + std::to_string(id);
    }
    line += "\n";
    const int out = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (out >= 0 && ::write(out, line.data(), line.size()) >= 0) close(out);
  }
  ~State() { write("exit 0"); }
};
inline State state;

constexpr bool on(int id) {
  if (std::is_constant_evaluated()) return false;
  if (state.active < 0 && !reached[id].load(std::memory_order_relaxed)) reached[id] = true;
  return state.active == id;
}

// one is 1, or `changed`; zero is 0, or `changed`.
constexpr int one(int id, int changed) { return on(id) ? changed : 1; }
constexpr int zero(int id, int changed) { return on(id) ? changed : 0; }
// 'n' negates the condition; 't' and 'f' replace it by true and false.
constexpr bool condition(int id, char kind, bool value) {
  return on(id) ? (kind == 'n' ? !value : kind == 't') : value;
}

template <class T>
constexpr T max(int id, const T& a, const T& b) {
  return on(id) ? std::min(a, b) : std::max(a, b);
}
template <class T>
constexpr T min(int id, const T& a, const T& b) {
  return on(id) ? std::max(a, b) : std::min(a, b);
}

template <class T>
requires std::is_arithmetic_v<T>
constexpr T result(int id, T value) {
  if (!on(id)) return value;
  if constexpr (std::is_same_v<T, bool>) {
    return !value;
  } else if constexpr (std::is_floating_point_v<T>) {
    return -value;
  } else {
    return value + 1;
  }
}

}  // namespace mutants
