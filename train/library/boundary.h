// What stands between libsaccade and its callers: the errors of the inside become those of the standard library.
#pragma once

#include <new>
#include <stdexcept>

#include "core/tensor/error.h"

namespace saccade {

// Whose names callers know.
template <class F>
auto with_standard_errors(F&& f) {
  try {
    return f();
  } catch (const InputError& error) {
    throw std::invalid_argument(error.what());
  } catch (const OutOfMemory&) {
    throw std::bad_alloc();
  } catch (const Error& error) {
    throw std::runtime_error(error.what());
  }
}

}  // namespace saccade
