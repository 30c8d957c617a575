#include "core/runtime/opened_library.h"

#include <dlfcn.h>

#include "core/tensor/error.h"

namespace saccade {
namespace {

void* open_shared(const std::string& file) { return ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL); }

}  // namespace

OpenedLibrary::OpenedLibrary(const std::string& name, const std::string& file,
                             const std::string& debian_package)
    : OpenedLibrary(name, file, open_shared(file)) {
  if (!handle_)
    fail("{} cannot be opened: {}; the Debian package is {} (apt install {})", name, ::dlerror(),
         debian_package, debian_package);
}

std::optional<OpenedLibrary> OpenedLibrary::open(const std::string& name, const std::string& file,
                                                 std::string& problem) {
  void* handle = open_shared(file);
  if (handle) return OpenedLibrary(name, file, handle);
  problem = ::dlerror();
  return std::nullopt;
}

void* OpenedLibrary::find(const char* symbol) const {
  void* address = ::dlsym(handle_, symbol);
  if (!address) fail("{} ({}) has no {}: it is older than this program needs", name_, path_, symbol);
  return address;
}

}  // namespace saccade
