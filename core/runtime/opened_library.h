// A library that is opened when it is first needed: the program is not linked against it, so that it starts
// as fast as without it and does the rest of its work where it is missing.
//
//   static const OpenedLibrary library("libcurl", "libcurl.so.4", "libcurl4");
//   static const auto init = library.symbol<decltype(curl_easy_init)>("curl_easy_init");
#pragma once

#include <optional>
#include <string>
#include <type_traits>

namespace saccade {

// Stays open to the end of the program.
class OpenedLibrary {
 public:
  // `file`: a name such as "libcurl.so.4", which the loader searches, or a path; `debian_package`: what an
  // error tells the user to install. Throws Error in one line.
  OpenedLibrary(const std::string& name, const std::string& file, const std::string& debian_package);
  // Nothing where the file cannot be opened; `problem` then says why.
  static std::optional<OpenedLibrary> open(const std::string& name, const std::string& file,
                                           std::string& problem);

  // The function or object `symbol`; throws Error when the library lacks it.
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
