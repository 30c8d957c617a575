// A bounded cache for things that are expensive to make (plans and primitives of libraries). The least
// recently used ones are dropped first. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/tensor/error.h"

namespace saccade {

// Everything on which a cached value depends, as numbers.
class CacheKey {
 public:
  template <class... V>
  CacheKey& add(V... values) {
    (add_one(static_cast<int64_t>(values)), ...);
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  void add_one(int64_t v) { text_.append(reinterpret_cast<const char*>(&v), sizeof v); }
  std::string text_;
};

struct CacheStats {
  size_t size = 0, capacity = 0;
  uint64_t hits = 0, misses = 0;
};

// Invariant: index_ has an iterator to every entry of entries_; the front is the most recently used one.
template <class Value>
class LruCache {
 public:
  explicit LruCache(size_t capacity) : capacity_(capacity) {}

  // Returns the value of the key. make() is called without the lock; if two threads race, the second result
  // is dropped.
  template <class Make>
  std::shared_ptr<const Value> get(const std::string& key, const Make& make) {
    {
      std::lock_guard lock(mutex_);
      if (auto it = index_.find(key); it != index_.end()) {
        ++hits_;
        entries_.splice(entries_.begin(), entries_, it->second);
        return it->second->second;
      }
      ++misses_;
    }
    auto made = std::make_shared<const Value>(make());
    std::lock_guard lock(mutex_);
    if (auto it = index_.find(key); it != index_.end()) return it->second->second;
    entries_.emplace_front(key, made);
    index_[key] = entries_.begin();
    shrink();
    return made;
  }
  CacheStats stats() {
    std::lock_guard lock(mutex_);
    return {entries_.size(), capacity_, hits_, misses_};
  }
  // Throws Error if the capacity is 0.
  void set_capacity(size_t capacity) {
    SACCADE_CHECK(capacity > 0, "[cache] capacity, got 0, expected at least 1");
    std::lock_guard lock(mutex_);
    capacity_ = capacity;
    shrink();
  }

 private:
  void shrink() {
    while (entries_.size() > capacity_) {
      index_.erase(entries_.back().first);
      entries_.pop_back();
    }
  }
  using Entry = std::pair<std::string, std::shared_ptr<const Value>>;
  std::mutex mutex_;
  size_t capacity_;
  uint64_t hits_ = 0, misses_ = 0;
  std::list<Entry> entries_;
  std::unordered_map<std::string, typename std::list<Entry>::iterator> index_;
};

}  // namespace saccade
