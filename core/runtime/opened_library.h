// A library that is opened when it is first needed. The program is not linked against it, so it starts as
// fast as without the library, and everything else works where the library is missing.
//
//   static const OpenedLibrary library("libcurl", "libcurl.so.4", "libcurl4");
//   static const auto init = library.symbol<decltype(curl_easy_init)>("curl_easy_init");
#pragma once

#include <optional>
#include <string>
#include <type_traits>

namespace saccade {

// The library stays open to the end of the program.
class OpenedLibrary {
 public:
  // `file` is a name that the loader searches for, such as "libcurl.so.4", or a path; `debian_package` is
  // what an error tells the user to install. Throws Error with a one-line message.
  OpenedLibrary(const std::string& name, const std::string& file, const std::string& debian_package);
  // Returns nothing if the file cannot be opened; `problem` then says why.
  static std::optional<OpenedLibrary> open(const std::string& name, const std::string& file,
                                           std::string& problem);

  // Returns the function or object `symbol`. Throws Error if the library lacks it.
  template <class T>
  std::add_pointer_t<T> symbol(const char* symbol) const {
    return reinterpret_cast<std::add_pointer_t<T>>(find(symbol));
  }
  const std::string& path() const { return path_; }

 private:
  OpenedLibrary(const std::string& name, const std::string& file, void* handle)
      : name_(name), path_(file), handle_(handle) {}
  void* find(const char* symbol) const;

  std::string name_, path_;
  void* handle_;
};

}  // namespace saccade
