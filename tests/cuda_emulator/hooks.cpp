// g++ -fsanitize=thread puts a call before every load and store. These are the calls: the emulated kernels
// are compiled with that flag and linked with this file instead of the ThreadSanitizer library, so that the
// emulator sees every access of device code.
#include "tests/cuda_emulator/emulator.h"
#include "tests/cuda_emulator/memory.h"

using saccade::emulator::Access;
using saccade::emulator::check_access;

namespace {

void check_whole(const void* p, unsigned long bytes, Access access) {
  if (!saccade::emulator::device_addresses.contains(p)) return;
  saccade::emulator::check_alignment(p, bytes);
  check_access(p, bytes, access);
}

}  // namespace

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

#define SACCADE_HOOK(bytes)                                                              \
  void __tsan_read##bytes(void* p) { check_whole(p, bytes, Access::kRead); }             \
  void __tsan_write##bytes(void* p) { check_whole(p, bytes, Access::kWrite); }           \
  void __tsan_unaligned_read##bytes(void* p) { check_whole(p, bytes, Access::kRead); }   \
  void __tsan_unaligned_write##bytes(void* p) { check_whole(p, bytes, Access::kWrite); } \
  void __tsan_volatile_read##bytes(void* p) { check_whole(p, bytes, Access::kRead); }    \
  void __tsan_volatile_write##bytes(void* p) { check_whole(p, bytes, Access::kWrite); }
SACCADE_HOOK(1)
SACCADE_HOOK(2)
SACCADE_HOOK(4)
SACCADE_HOOK(8)
SACCADE_HOOK(16)
#undef SACCADE_HOOK

void __tsan_read_range(void* p, unsigned long bytes) { check_access(p, bytes, Access::kRead); }
void __tsan_write_range(void* p, unsigned long bytes) { check_access(p, bytes, Access::kWrite); }

// Atomics of host code in the same files (reference counts, guards of static variables).
#define SACCADE_ATOMIC(bits, T)                                                                           \
  T __tsan_atomic##bits##_load(const volatile T* p, int) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); } \
  void __tsan_atomic##bits##_store(volatile T* p, T v, int) { __atomic_store_n(p, v, __ATOMIC_SEQ_CST); } \
  T __tsan_atomic##bits##_exchange(volatile T* p, T v, int) {                                             \
    return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                                                   \
  }                                                                                                       \
  T __tsan_atomic##bits##_fetch_add(volatile T* p, T v, int) {                                            \
    return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);                                                    \
  }                                                                                                       \
  T __tsan_atomic##bits##_fetch_sub(volatile T* p, T v, int) {                                            \
    return __atomic_fetch_sub(p, v, __ATOMIC_SEQ_CST);                                                    \
  }                                                                                                       \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile T* p, T* expected, T v, int, int) {          \
    return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);        \
  }
SACCADE_ATOMIC(8, unsigned char)
SACCADE_ATOMIC(32, unsigned)
SACCADE_ATOMIC(64, unsigned long)
#undef SACCADE_ATOMIC

}  // extern "C"
