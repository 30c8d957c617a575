// A cache of tensors that depend only on sizes (position codes, token maps, anchors, grids), kept from step
// to step as a member of the module that uses them. On a GPU nothing is then made or uploaded twice while the
// sizes stay the same.
#pragma once

#include <list>
#include <mutex>
#include <string>

#include "autograd/var.h"
#include "core/runtime/lru_cache.h"
#include "core/runtime/recording.h"

namespace saccade {

class ConstantKeeper {
 public:
  // Limits: the least recently used tensors are dropped first, and larger ones are made every time.
  static constexpr size_t kMaxEntries = 16, kMaxBytes = size_t{64} << 20;

  // Returns the tensors of the key, from make() -> Tensors if they are not kept. The key must hold everything
  // on which they depend, including the device. Nobody may change them in place.
  template <class Make>
  Tensors get(const CacheKey& key, const Make& make) const {
    auto* recorded = kept_for_recording();
    std::lock_guard lock(mutex_);
    for (auto it = entries_.begin(); it != entries_.end(); ++it) {
      if (it->key != key.text()) continue;
      entries_.splice(entries_.begin(), entries_, it);
      if (recorded)
        for (const Tensor& t : it->tensors) recorded->push_back(t.storage());
      return it->tensors;
    }
    Tensors made = make();
    if (recorded) return made;  // they have no values until the recording is started
    size_t bytes = 0;
    for (const Tensor& t : made) bytes += t.bytes();
    if (bytes > kMaxBytes) return made;
    entries_.push_front({key.text(), made, bytes});
    bytes_ += bytes;
    while (entries_.size() > kMaxEntries || bytes_ > kMaxBytes) {
      bytes_ -= entries_.back().bytes;
      entries_.pop_back();
    }
    return made;
  }
  size_t size() const { return entries_.size(); }
  size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    std::string key;
    Tensors tensors;
    size_t bytes;
  };
  // A cache: the results of a module do not depend on it.
  mutable std::mutex mutex_;
  mutable std::list<Entry> entries_;  // most recent first
  mutable size_t bytes_ = 0;
};

}  // namespace saccade
