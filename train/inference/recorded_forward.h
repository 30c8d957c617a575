// A model's forward pass in evaluation, called again and again. On a GPU the launches of one that comes back with the same sizes are
// recorded at its third call, and started as one from then on.
#pragma once

#include <algorithm>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "autograd/scope.h"
#include "autograd/var.h"
#include "core/runtime/lru_cache.h"
#include "core/runtime/recording.h"
#include "core/tensor/error.h"

namespace saccade {

// Output: Vars or structs of them. The model, its weights and its mode stay as they are for as long as this lives.
template <class Output>
class RecordedForward {
 public:
  // Each holds the memory of a forward pass.
  static constexpr size_t kMaxRecordings = 4;

  // forward(images), which depends on nothing but its argument and the key. What comes back is overwritten by the next call with the
  // same key.
  Output run(CacheKey key, const Tensor& images, const std::function<Output(const Tensor&)>& forward) {
    if (images.device() == Device::kCpu || execution().grad_enabled || execution().observer)
      return forward(images);
    for (int64_t size : images.shape()) key.add(size);
    Entry& entry = find(key.text());
    if (!entry.work && (entry.is_refused || ++entry.calls <= kEagerCalls || !record(entry, images, forward)))
      return forward(images);
    entry.images.copy_from(images);
    entry.work->start();
    return entry.output;
  }

 private:
  // The first makes plans and constants, which the second finds; some are made for a second shape only then.
  static constexpr int kEagerCalls = 2;
  static constexpr size_t kMaxEntries = 64;
  struct Entry {
    std::string key;
    int calls = 0;
    bool is_refused = false;
    Tensor images;
    Output output;
    std::unique_ptr<RecordedWork> work;
  };

  // Moves it to the front.
  Entry& find(const std::string& key) {
    auto it = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.key == key; });
    if (it == entries_.end()) {
      if (entries_.size() == kMaxEntries) entries_.pop_back();
      it = entries_.emplace(entries_.begin());
      it->key = key;
    }
    entries_.splice(entries_.begin(), entries_, it);
    return entries_.front();
  }

  // False where that cannot be done: the GPU is too full, or the model does what cannot be recorded.
  bool record(Entry& entry, const Tensor& images, const std::function<Output(const Tensor&)>& forward) {
    drop_the_oldest();
    try {
      entry.images = Tensor::empty(images.shape(), images.dtype(), images.device());
      entry.work = record_work(images.device(), [&] { entry.output = forward(entry.images); });
    } catch (const Error&) {
    }
    if (entry.work) return true;
    entry.is_refused = true;
    entry.images = {};
    entry.output = {};
    return false;
  }
  void drop_the_oldest() {
    size_t recordings = 0;
    for (Entry& entry : entries_)
      if (entry.work && ++recordings == kMaxRecordings) {
        entry.work.reset();
        entry.output = {};
        entry.images = {};
        entry.calls = 0;
      }
  }

  std::list<Entry> entries_;  // the most recent one first
};

}  // namespace saccade
