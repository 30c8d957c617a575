// A model's forward pass in evaluation, called again and again. On a GPU, the launches of a pass that returns
// with the same sizes are recorded after its second call, and replayed as one from then on.
#pragma once

#include <algorithm>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include "autograd/scope.h"
#include "autograd/var.h"
#include "core/runtime/lru_cache.h"
#include "core/runtime/recording.h"
#include "core/tensor/allocator.h"
#include "core/tensor/error.h"
#include "train/logs/print.h"

namespace saccade {

// Output: Vars or structs of them. The model, its weights and its mode must not change during the lifetime of
// this object.
template <class Output>
class RecordedForward {
 public:
  // Each recording holds the memory of a forward pass.
  static constexpr size_t kMaxRecordings = 4;

  // Runs forward(images), which must depend on nothing but its argument and the key. The next call with the
  // same key overwrites the result without changing its version, so ops that cache results by version must
  // not take it.
  Output run(CacheKey key, const Tensor& images, const std::function<Output(const Tensor&)>& forward) {
    if (images.device() == Device::kCpu || execution().grad_enabled || execution().observer)
      return forward(images);
    for (int64_t size : images.shape()) key.add(size);
    Entry& entry = find(key.text());
    if (!entry.work) {
      // The pass has now made everything it keeps (plans, constants, folded norms), so a recording finds it.
      Output output = eager(images, forward);
      if (!entry.is_refused && ++entry.calls >= entry.wanted) record(entry, images, forward);
      return output;
    }
    entry.images.copy_from(images);
    entry.work->start();
    return entry.output;
  }

 private:
  static constexpr int kFirstCalls = 2, kMaxCalls = 1 << 20;
  static constexpr size_t kMaxEntries = 64;
  struct Entry {
    std::string key;
    int calls = 0, wanted = kFirstCalls;  // since it was dropped, and before it is recorded
    bool is_refused = false;
    Tensor images;
    Output output;
    std::unique_ptr<RecordedWork> work;

    void drop() {
      work.reset();
      output = {};
      images = {};
    }
  };

  // Finds or adds the entry, and moves it to the front.
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

  // Runs the pass; drops the recordings if the GPU's memory is too full alongside them.
  Output eager(const Tensor& images, const std::function<Output(const Tensor&)>& forward) {
    try {
      return forward(images);
    } catch (const OutOfMemory&) {
      bool dropped = false;
      for (Entry& entry : entries_) {
        if (!entry.work) continue;
        entry.drop();
        entry.is_refused = dropped = true;
      }
      if (!dropped) throw;
    }
    return forward(images);
  }

  // Refuses if the GPU's memory is too full, or the model does something that cannot be recorded.
  void record(Entry& entry, const Tensor& images, const std::function<Output(const Tensor&)>& forward) {
    drop_the_oldest();
    for (bool is_last : {false, true}) {
      try {
        entry.images = Tensor::empty(images.shape(), images.dtype(), images.device());
        entry.work = record_work(images.device(), [&] { entry.output = forward(entry.images); });
        break;
      } catch (const OutOfMemory& error) {
        entry.drop();
        allocator(images.device()).trim();  // its cached memory is not available to the recording
        if (is_last && !std::exchange(is_told_, true))
          print_note(
              fmt::format("forward passes are not recorded, so the host needs more time: {}", error.what()));
      } catch (const Error&) {
        break;
      }
    }
    entry.is_refused = !entry.work;
    if (entry.is_refused) entry.drop();
  }
  void drop_the_oldest() {
    size_t recordings = 0;
    for (Entry& entry : entries_)
      if (entry.work && ++recordings == kMaxRecordings) {
        entry.drop();
        // With more sizes in turn than recordings, each would be recorded again and again.
        entry.calls = 0;
        entry.wanted = std::min(entry.wanted * 8, kMaxCalls);
      }
  }

  std::list<Entry> entries_;  // most recently used first
  bool is_told_ = false;      // that the GPU's memory is too full
};

}  // namespace saccade
