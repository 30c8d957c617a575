// SHA-256 (FIPS 180-4), by OpenSSL's libcrypto. It is opened when it is needed: who fetches over https has
// it, as libcurl needs it too.
#pragma once

#include <cstddef>
#include <string>

namespace saccade {

// Of bytes that come in pieces.
class Sha256 {
 public:
  // Throws Error where libcrypto is missing.
  Sha256();
  ~Sha256();
  Sha256& operator=(Sha256&&) = delete;

  void add(const void* data, size_t bytes);
  std::string digits();  // 64 hexadecimal ones; nothing can be added after this

 private:
  void* context_ = nullptr;
};

// Of a file's first `bytes`. Throws Interrupted after a signal.
void add_file(Sha256& sum, const std::string& path, size_t bytes);
std::string sha256_of_file(const std::string& path);

}  // namespace saccade
