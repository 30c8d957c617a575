// SHA-256 (FIPS 180-4), by OpenSSL's libcrypto. It is opened when needed: whoever fetches over https has it,
// since libcurl needs it too.
#pragma once

#include <cstddef>
#include <string>

namespace saccade {

// The checksum of bytes that arrive in pieces.
class Sha256 {
 public:
  // Throws Error if libcrypto is missing.
  Sha256();
  ~Sha256();
  Sha256& operator=(Sha256&&) = delete;

  void add(const void* data, size_t bytes);
  std::string digits();  // 64 hexadecimal digits; nothing can be added after this

 private:
  void* context_ = nullptr;
};

// Adds the first `bytes` of a file. Throws Interrupted after a signal.
void add_file(Sha256& sum, const std::string& path, size_t bytes);
std::string sha256_of_file(const std::string& path);

}  // namespace saccade
