#include "core/kernels/random.h"

#include "core/launch.h"
#include "core/philox.h"

namespace saccade::kernels {
namespace {

constexpr int kGroups = 16;  // Philox counters evaluated side by side
constexpr int kBlock = 4 * kGroups;

// The bits of counters [counter, counter + kGroups): the loops over g become vector instructions.
SACCADE_HD void philox_block(uint64_t key, uint64_t hi, uint64_t counter, uint32_t* bits) {
  uint32_t x0[kGroups], x1[kGroups], x2[kGroups], x3[kGroups];
  for (int g = 0; g < kGroups; ++g) {
    uint64_t lo = counter + static_cast<uint64_t>(g);
    x0[g] = static_cast<uint32_t>(lo);
    x1[g] = static_cast<uint32_t>(lo >> 32);
    x2[g] = static_cast<uint32_t>(hi);
    x3[g] = static_cast<uint32_t>(hi >> 32);
  }
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int g = 0; g < kGroups; ++g) {
      uint64_t p0 = uint64_t{0xD2511F53u} * x0[g], p1 = uint64_t{0xCD9E8D57u} * x2[g];
      x0[g] = static_cast<uint32_t>(p1 >> 32) ^ x1[g] ^ k0;
      x2[g] = static_cast<uint32_t>(p0 >> 32) ^ x3[g] ^ k1;
      x1[g] = static_cast<uint32_t>(p1);
      x3[g] = static_cast<uint32_t>(p0);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (int g = 0; g < kGroups; ++g) {
    bits[4 * g] = x0[g];
    bits[4 * g + 1] = x1[g];
    bits[4 * g + 2] = x2[g];
    bits[4 * g + 3] = x3[g];
  }
}

template <class T>
struct Dropout {
  using A = acc_t<T>;
  const T* x;
  T* y;
  int64_t n;
  uint64_t key, call;
  float p;
  A scale;
  SACCADE_HD void operator()(int64_t block) const {
    uint32_t bits[kBlock];
    philox_block(key, call, static_cast<uint64_t>(block) * kGroups, bits);
    int64_t begin = block * kBlock;
    const T* from = x + begin;
    T* to = y + begin;
    if (n - begin >= kBlock) {
      for (int i = 0; i < kBlock; ++i) to[i] = T(uniform_from_bits(bits[i]) < p ? A(0) : A(from[i]) * scale);
    } else {
      int rest = static_cast<int>(n - begin);
      for (int i = 0; i < rest; ++i) to[i] = T(uniform_from_bits(bits[i]) < p ? A(0) : A(from[i]) * scale);
    }
  }
};

template <class T>
struct DropPath {
  using A = acc_t<T>;
  const T* x;
  T* y;
  int64_t size;  // elements a sample
  uint64_t key, call;
  float p;
  A scale;
  SACCADE_HD void operator()(int64_t sample) const {
    uint32_t bits = Philox::generate(key, call, static_cast<uint64_t>(sample / 4)).x[sample % 4];
    A factor = uniform_from_bits(bits) < p ? A(0) : scale;
    const T* from = x + sample * size;
    T* to = y + sample * size;
    for (int64_t i = 0; i < size; ++i) to[i] = T(factor == A(0) ? A(0) : A(from[i]) * factor);
  }
};

double keep_scale(double p) { return p < 1 ? 1 / (1 - p) : 0; }

void dropout_generic(const Tensor& x, double p, uint64_t key, uint64_t call, Tensor& y) {
  dispatch_float(x.dtype(), "dropout", [&]<class T>() {
    for_each((x.numel() + kBlock - 1) / kBlock,
             Dropout<T>{x.data<T>(), y.data<T>(), x.numel(), key, call, static_cast<float>(p),
                        acc_t<T>(keep_scale(p))},
             4 * kBlock);
  });
}

void drop_path_generic(const Tensor& x, double p, uint64_t key, uint64_t call, Tensor& y) {
  if (x.numel() == 0) return;
  dispatch_float(x.dtype(), "drop_path", [&]<class T>() {
    int64_t size = x.numel() / x.dim(0);
    for_each(x.dim(0),
             DropPath<T>{x.data<T>(), y.data<T>(), size, key, call, static_cast<float>(p),
                         acc_t<T>(keep_scale(p))},
             size);
  });
}

SACCADE_REGISTER_KERNEL(dropout, &dropout_generic);
SACCADE_REGISTER_KERNEL(drop_path, &drop_path_generic);

}  // namespace
}  // namespace saccade::kernels
