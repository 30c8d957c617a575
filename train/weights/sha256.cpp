#include "train/weights/sha256.h"

#include <algorithm>
#include <vector>

#include "core/files/file.h"
#include "core/runtime/interrupt.h"
#include "core/runtime/opened_library.h"
#include "core/tensor/error.h"

namespace saccade {
namespace {

constexpr size_t kSha256Bytes = 32;

// These functions have been stable since OpenSSL 1.1; their types appear only as pointers.
struct CryptoApi {
  OpenedLibrary library{"OpenSSL", "libcrypto.so.3", "libssl3"};
  void* (*make)() = library.symbol<void*()>("EVP_MD_CTX_new");
  void (*release)(void*) = library.symbol<void(void*)>("EVP_MD_CTX_free");
  const void* (*sha256)() = library.symbol<const void*()>("EVP_sha256");
  int (*begin)(void*, const void*,
               void*) = library.symbol<int(void*, const void*, void*)>("EVP_DigestInit_ex");
  int (*update)(void*, const void*,
                size_t) = library.symbol<int(void*, const void*, size_t)>("EVP_DigestUpdate");
  int (*finish)(void*, unsigned char*,
                unsigned*) = library.symbol<int(void*, unsigned char*, unsigned*)>("EVP_DigestFinal_ex");
};
const CryptoApi& crypto() {
  static const CryptoApi api;
  return api;
}

void check_crypto(int done) {
  if (done != 1) fail("OpenSSL cannot compute a SHA-256");
}

}  // namespace

Sha256::Sha256() : context_(crypto().make()) {
  check_crypto(context_ != nullptr);
  check_crypto(crypto().begin(context_, crypto().sha256(), nullptr));
}

Sha256::~Sha256() { crypto().release(context_); }

void Sha256::add(const void* data, size_t bytes) { check_crypto(crypto().update(context_, data, bytes)); }

std::string Sha256::digits() {
  unsigned char sum[64] = {};
  unsigned size = 0;
  check_crypto(crypto().finish(context_, sum, &size));
  std::string text;
  for (size_t i = 0; i < kSha256Bytes; ++i) text += fmt::format("{:02x}", sum[i]);
  return text;
}

void add_file(Sha256& sum, const std::string& path, size_t bytes) {
  const InputFile file(path, kWeightsFile);
  std::vector<char> piece(size_t{1} << 20);
  for (size_t at = 0; at < bytes; at += piece.size()) {
    check_interrupt();
    const size_t n = std::min(piece.size(), bytes - at);
    file.read_at(piece.data(), n, at);
    sum.add(piece.data(), n);
  }
}

std::string sha256_of_file(const std::string& path) {
  Sha256 sum;
  add_file(sum, path, InputFile(path, kWeightsFile).size());
  return sum.digits();
}

}  // namespace saccade
