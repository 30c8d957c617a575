#include "data/loading/loader.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>

#include "core/tensor/error.h"
#include "core/tensor/integers.h"
#include "data/loading/bad_image_lines.h"

namespace saccade {
namespace {

// Decoded images, kept until the memory is used up. Nothing is evicted: an epoch reads every image once, so
// a cache that makes room would drop every image before it is needed again.
class ImageCache {
 public:
  ImageCache(int64_t images, int64_t bytes)
      : images_(static_cast<size_t>(bytes > 0 ? images : 0)), free_bytes_(bytes) {}

  std::shared_ptr<const Image> find(int64_t index) {
    if (images_.empty()) return nullptr;
    std::lock_guard lock(mutex_);
    return images_[static_cast<size_t>(index)];
  }
  void keep(int64_t index, const std::shared_ptr<const Image>& image) {
    if (images_.empty()) return;
    std::lock_guard lock(mutex_);
    auto& slot = images_[static_cast<size_t>(index)];
    int64_t bytes = static_cast<int64_t>(image->rgb.size());
    if (slot || bytes > free_bytes_) return;
    free_bytes_ -= bytes;
    slot = image;
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<const Image>> images_;
  int64_t free_bytes_;
};

// The unreadable image is another one than the image to augment.
struct BadOtherImage : InputError {
  using InputError::InputError;
};

// One batch in progress. Each slot is written by the one thread that claimed it; the thread that finishes the
// last slot builds the batch.
struct Job {
  int64_t epoch = 0, index = 0;
  int64_t whole = 0, part_begin = 0, part_end = 0;  // this process's part; empty if it has all
  std::vector<int64_t> images;
  std::vector<int64_t> repeats;  // how often the epoch had each before; empty if never
  std::vector<Sample> samples;
  std::vector<Target> targets;
  std::vector<std::exception_ptr> errors;  // the first one, by slot, is reported
  // For each slot: images that were skipped, and why; and damaged ones that were read, with the warning.
  std::vector<std::map<int64_t, std::string>> bad, damaged;
  size_t claimed = 0, finished = 0;  // under the mutex
  bool ready = false;                // under the mutex
  Batch batch;
};

}  // namespace

// Invariants under mutex_: jobs_ holds the batches from the one next() will return onwards, in order, at most
// prefetch + 1 of them; (epoch_, index_) is the batch after the last of them.
class DataLoader::Impl {
 public:
  Impl(std::shared_ptr<const Dataset> source, LoaderOptions options)
      : source_(std::move(source)),
        options_(std::move(options)),
        cache_(source_ ? source_->num_images() : 0, options_.cache_mb << 20) {
    SACCADE_CHECK(source_ != nullptr, "[loader] no images");
    const LoaderOptions& o = options_;
    int64_t count = source_->num_images();
    if (count == 0) fail_input("{}: has no images", source_->name());
    SACCADE_CHECK(o.batch_size >= 1 && o.pad_multiple >= 1,
                  "[loader] batches of {} padded to multiples of {}, expected at least 1", o.batch_size,
                  o.pad_multiple);
    SACCADE_CHECK(
        o.threads >= 0 && o.prefetch >= 0 && o.cache_mb >= 0 && o.start_epoch >= 0 && o.start_batch >= 0,
        "[loader] {} threads, {} batches ready, {} MiB of cache, from epoch {} and batch {}, expected at least 0",
        o.threads, o.prefetch, o.cache_mb, o.start_epoch, o.start_batch);
    SACCADE_CHECK(o.rank >= 0 && o.rank < o.ranks, "[loader] rank {} of {}", o.rank, o.ranks);
    check_mix_options(o.mix);
    batches_per_epoch_ = o.drop_last ? count / o.batch_size : ceil_div(count, o.batch_size);
    if (batches_per_epoch_ == 0)
      fail_input("{}: {} image{} no full batch of {} (data.batch_size, data.drop_last)", source_->name(),
                 count, count == 1 ? " makes" : "s make", o.batch_size);
    epoch_ = o.start_epoch + o.start_batch / batches_per_epoch_;
    index_ = o.start_batch % batches_per_epoch_;
    std::vector<std::vector<int64_t>> labels;
    if (o.shuffle && o.sampling != Sampling::kUniform)
      for (int64_t i = 0; i < count; ++i) labels.push_back(source_->labels_of(i));
    weights_ = sampling_weights(labels, labels.empty() ? Sampling::kUniform : o.sampling, o.repeat_threshold);
    for (int64_t i = 0; o.group_by_shape && i < count; ++i) {
      const ImageSize size = source_->size_of(i);
      shapes_.push_back(size.height < size.width ? 2 : size.height > size.width ? 1 : 0);
    }
    begin_epoch();
    try {
      for (int i = 0; i < o.threads; ++i) threads_.emplace_back([this] { work(); });
    } catch (...) {
      stop();
      throw;
    }
  }
  ~Impl() { stop(); }

  std::optional<Batch> next() {
    std::unique_lock lock(mutex_);
    if (failed_) std::rethrow_exception(failed_);
    if (jobs_.empty() && !add_job()) return std::nullopt;
    std::shared_ptr<Job> job = jobs_.front();
    work_wanted_.notify_all();
    if (threads_.empty() || job->images.empty()) {
      while (job->claimed < job->images.size()) run_slot(lock, job);
    } else {
      batch_ready_.wait(lock, [&] { return job->ready; });
    }
    if (job->images.empty()) finish(*job);  // this process has no part of a small batch
    jobs_.pop_front();
    work_wanted_.notify_all();
    for (const auto& error : job->errors) {
      if (!error) continue;
      failed_ = error;
      std::rethrow_exception(error);
    }
    for (const auto* slots : {&job->bad, &job->damaged})
      for (const auto& slot : *slots)
        for (const auto& [index, why] : slot)
          if (reported_.insert(index).second) job->batch.bad_images.push_back(why);
    return std::move(job->batch);
  }

  int64_t batches_per_epoch() const { return batches_per_epoch_; }

 private:
  // Moves to the next batch.
  void advance() {
    if (++index_ < batches_per_epoch_) return;
    index_ = 0;
    ++epoch_;
    begin_epoch();
  }

  // Returns whether batches of the epoch are mixed from several images.
  bool is_mixed(int64_t epoch) const {
    return options_.mix.on() ||
           (options_.batch_mixup.probability > 0 && options_.batch_mixup.epochs.contains(epoch));
  }

  // Returns false if there are no more batches. Under the mutex.
  bool add_job() {
    while (options_.sharing == Sharing::kTurns && index_ % options_.ranks != options_.rank &&
           (options_.epochs == 0 || epoch_ < options_.epochs))
      advance();
    if (options_.epochs > 0 && epoch_ >= options_.epochs) return false;
    auto job = std::make_shared<Job>();
    job->epoch = epoch_;
    job->index = index_;
    int64_t begin = index_ * options_.batch_size;
    int64_t end = std::min<int64_t>(begin + options_.batch_size, static_cast<int64_t>(order_.size()));
    job->whole = end - begin;
    const int64_t rank = options_.rank, ranks = options_.ranks;
    if (ranks > 1 && options_.sharing == Sharing::kParts) {
      job->part_begin = job->whole * rank / ranks;
      job->part_end = job->whole * (rank + 1) / ranks;
      if (!is_mixed(job->epoch)) {  // else each needs images of the others
        end = begin + job->part_end;
        begin += job->part_begin;
      }
    }
    job->images.assign(order_.begin() + begin, order_.begin() + end);
    if (!weights_.empty()) job->repeats.assign(repeats_.begin() + begin, repeats_.begin() + end);
    job->samples.resize(job->images.size());
    job->targets.resize(job->images.size());
    job->errors.resize(job->images.size());
    job->bad.resize(job->images.size());
    job->damaged.resize(job->images.size());
    jobs_.push_back(std::move(job));
    advance();
    return true;
  }

  // Sets the order of epoch_. Under the mutex.
  void begin_epoch() {
    const LoaderOptions& o = options_;
    order_ = weights_.empty() ? epoch_order(source_->num_images(), o.shuffle, o.seed, epoch_)
                              : weighted_order(weights_, o.seed, epoch_);
    if (!shapes_.empty()) order_ = grouped_order(order_, shapes_, o.batch_size);
    if (weights_.empty()) return;
    repeats_.clear();
    std::unordered_map<int64_t, int64_t> seen;
    for (const int64_t image : order_) repeats_.push_back(seen[image]++);
  }

  // Returns the oldest batch with an unclaimed slot, adding some up to the prefetch depth. Under the mutex.
  std::shared_ptr<Job> claimable() {
    for (const auto& job : jobs_) {
      if (job->claimed < job->images.size()) return job;
    }
    while (!failed_ && static_cast<int64_t>(jobs_.size()) < int64_t{options_.prefetch} + 1 && add_job())
      if (!jobs_.back()->images.empty()) return jobs_.back();
    return nullptr;
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      std::shared_ptr<Job> job;
      work_wanted_.wait(lock, [&] { return stopping_ || (job = claimable()) != nullptr; });
      if (stopping_) return;
      run_slot(lock, job);
    }
  }

  // Claims a slot, works on it without the lock, and finishes the batch if it was the last.
  void run_slot(std::unique_lock<std::mutex>& lock, const std::shared_ptr<Job>& job) {
    size_t slot = job->claimed++;
    lock.unlock();
    try {
      load(*job, slot);
    } catch (...) {
      job->errors[slot] = std::current_exception();
    }
    lock.lock();
    if (++job->finished < job->images.size()) return;
    lock.unlock();
    try {
      finish(*job);
    } catch (...) {
      job->errors.back() = std::current_exception();
    }
    lock.lock();
    job->ready = true;
    batch_ready_.notify_all();
  }

  void load(Job& job, size_t slot) {
    const int64_t count = source_->num_images();
    for (int64_t index = job.images[slot];; index = (index + 1) % count) {
      try {
        load_image(job, slot, index);
        return;
      } catch (const BadOtherImage&) {
        throw;
      } catch (const InputError& e) {
        std::string why = e.what();
        const std::string path = source_->image_path(index);
        if (!why.starts_with(path)) why = path + ": " + why;
        if (options_.bad_images == BadImages::kFail) throw InputError(why);
        job.bad[slot].emplace(index, why);
        if (options_.bad_images == BadImages::kLeaveOut) return;
        if (static_cast<int64_t>(job.bad[slot].size()) == count)
          fail_input("{}: none of its images can be read; {}", source_->name(), why);
      } catch (const std::bad_alloc&) {
        fail("{}: out of memory", source_->image_path(index));
      }
    }
  }

  std::shared_ptr<const Image> decoded(Job& job, size_t slot, int64_t index) {
    std::shared_ptr<const Image> cached = cache_.find(index);
    if (!cached) {
      const std::string path = source_->image_path(index);
      std::string damage;
      cached = std::make_shared<const Image>(read_image(path, nullptr, &damage));
      if (!damage.empty())
        job.damaged[slot].emplace(index, fmt::format("{}{}: {}", kDamagedImage, path, damage));
      cache_.keep(index, cached);
    }
    return cached;
  }

  void load_image(Job& job, size_t slot, int64_t index) {
    std::shared_ptr<const Image> cached = decoded(job, slot, index);
    uint64_t key =
        mix_key(mix_key(options_.seed, static_cast<uint64_t>(job.epoch)), static_cast<uint64_t>(index));
    if (!job.repeats.empty() && job.repeats[slot] > 0)
      key = mix_key(key, static_cast<uint64_t>(job.repeats[slot]));
    Rng rng(key);
    auto another = [&](Rng& chance) { return another_sample(job, slot, chance); };
    Sample sample = source_->make_sample(index, *cached);
    std::shared_ptr<const LabelMap> read;
    if (options_.label_maps == LabelMapsOf::kFile && !sample.label_map.values.empty())
      read = std::make_shared<const LabelMap>(std::exchange(sample.label_map, {}));
    job.samples[slot] = augment(std::move(sample), options_.augment, rng, job.epoch, another);
    Target& target = job.targets[slot];
    target = make_target(job.samples[slot], {cached->height, cached->width});
    if (read) target.label_map = std::move(read);
    target.image_id = source_->image_id(index);
    target.file_name = source_->file_name(index);
  }

  // An unreadable image ends the run, or is replaced by the next readable one.
  Sample another_sample(Job& job, size_t slot, Rng& rng) {
    const int64_t count = source_->num_images(), first = rng.below(count);
    for (int64_t k = 0;; ++k) {
      const int64_t index = (first + k) % count;
      try {
        return source_->make_sample(index, *decoded(job, slot, index));
      } catch (const InputError& e) {
        if (options_.bad_images == BadImages::kFail || k + 1 == count) throw BadOtherImage(e.what());
        job.bad[slot].emplace(index, e.what());
      }
    }
  }

  void finish(Job& job) {
    for (const auto& error : job.errors) {
      if (error) return;
    }
    if (options_.bad_images == BadImages::kLeaveOut) leave_out(job);
    const bool is_part = options_.ranks > 1 && options_.sharing == Sharing::kParts;
    if (job.samples.empty() && !is_part) return;
    job.batch = collate(job.samples, std::move(job.targets), options_.pad_multiple);
    job.batch.epoch = job.epoch;
    job.batch.index = job.index;
    Rng mixing = batch_rng(job, "mix");
    mix_batch(job.batch, options_.mix, mixing);
    if (options_.batch_mixup.epochs.contains(job.epoch)) {
      Rng rng = batch_rng(job, "batch mix-up");
      if (rng.uniform() < options_.batch_mixup.probability)
        mix_up_objects(job.batch, rng.uniform(0.45, 0.55));
    }
    const std::vector<int64_t>& heights = options_.multi_scale.heights;
    if (!heights.empty() && options_.multi_scale.epochs.contains(job.epoch)) {
      Rng rng = batch_rng(job, "batch size");
      resize_batch(job.batch, heights[static_cast<size_t>(rng.below(std::ssize(heights)))],
                   options_.multi_scale.bilinear);
    }
    job.samples.clear();
    if (is_part) take_part(job.batch, job.part_begin, job.part_end, job.whole);
    if (options_.made) options_.made(job.batch);
  }

  Rng batch_rng(const Job& job, std::string_view purpose) const {
    return Rng(mix_key(mix_key(options_.seed ^ hash_name(purpose), static_cast<uint64_t>(job.epoch)),
                       static_cast<uint64_t>(job.index)));
  }

  // Removes the slots of images that cannot be read.
  static void leave_out(Job& job) {
    size_t kept = 0;
    for (size_t i = 0; i < job.samples.size(); ++i) {
      if (!job.bad[i].empty()) continue;
      if (kept < i) {
        job.samples[kept] = std::move(job.samples[i]);
        job.targets[kept] = std::move(job.targets[i]);
      }
      ++kept;
    }
    job.samples.resize(kept);
    job.targets.resize(kept);
  }

  void stop() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    work_wanted_.notify_all();
    for (std::thread& t : threads_) t.join();
  }

  std::shared_ptr<const Dataset> source_;
  LoaderOptions options_;
  ImageCache cache_;
  int64_t batches_per_epoch_ = 0;

  std::mutex mutex_;
  std::condition_variable work_wanted_, batch_ready_;
  std::deque<std::shared_ptr<Job>> jobs_;
  int64_t epoch_ = 0, index_ = 0;
  std::vector<double> weights_;           // of the images; empty if all are equal
  std::vector<uint8_t> shapes_;           // of the images; empty if not requested
  std::vector<int64_t> order_, repeats_;  // of epoch_
  std::exception_ptr failed_;
  std::set<int64_t> reported_;  // bad images
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

DataLoader::DataLoader(std::shared_ptr<const Dataset> source, LoaderOptions options)
    : impl_(std::make_unique<Impl>(std::move(source), std::move(options))) {}
DataLoader::~DataLoader() = default;
std::optional<Batch> DataLoader::next() { return impl_->next(); }
int64_t DataLoader::batches_per_epoch() const { return impl_->batches_per_epoch(); }

}  // namespace saccade
