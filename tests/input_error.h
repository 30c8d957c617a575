// What tests check of hostile input: the one line that the user reads.
#pragma once

#include <string>

#include "core/tensor/error.h"

namespace saccade {

// The message of the InputError that f throws; "no error" if it throws none.
template <class F>
std::string input_error(F&& f) {
  try {
    f();
  } catch (const InputError& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace saccade
