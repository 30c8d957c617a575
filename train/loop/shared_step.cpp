// The exchanges between the ranks of a process group, so that all of them take the step that a single process
// would take.
#include <dlfcn.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

#include "core/files/checksum.h"
#include "core/files/text.h"
#include "core/tensor/error.h"
#include "train/loop/training_run.h"

namespace saccade {
namespace {

// The checksum of the program, or of the library that contains this code.
std::string program_checksum() {
  Dl_info info = {};
  const bool known = ::dladdr(reinterpret_cast<void*>(&join_processes), &info) != 0 && info.dli_fname;
  std::FILE* file = std::fopen(known ? info.dli_fname : "/proc/self/exe", "rb");
  if (!file) return "";
  Checksum sum;
  std::vector<char> buffer(1 << 20);
  while (const size_t bytes = std::fread(buffer.data(), 1, buffer.size(), file))
    sum.add(buffer.data(), bytes);
  std::fclose(file);
  return checksum_text(sum.value());
}

constexpr char kEnd = '\0';  // ends a field of a message

std::vector<std::string> fields_of(const std::string& message) {
  std::vector<std::string> fields;
  std::istringstream in(message);
  for (std::string field; std::getline(in, field, kEnd);) fields.push_back(field);
  return fields;
}

// Parses a number written by fmt, independently of the host program's locale.
template <class T>
T shared_number(std::string_view text) {
  T number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  // No rank writes a number that is too small or too large for the type.
  SACCADE_CHECK(error == std::errc() && end == text.data() + text.size(), "[ranks] \"{}\" is not a number",
                printable(text));
  return number;
}

// Reads the numbers of a text, separated by spaces.
class SharedNumbers {
 public:
  explicit SharedNumbers(std::string_view text) : rest_(text) {}
  template <class T>
  T next() {
    const size_t end = std::min(rest_.find(' '), rest_.size());
    const T number = shared_number<T>(rest_.substr(0, end));
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return number;
  }

 private:
  std::string_view rest_;
};

}  // namespace

// Checked before any training: a difference would show later as weights that nobody can explain.
void TrainingRun::check_same_run() {
  if (group_.alone()) return;
  // The images of a batch, and of the last batch of an epoch.
  const int64_t images = std::strtoll(info_.images.c_str(), nullptr, 10), batch = config_.data().batch_size();
  const int64_t rest = config_.data().drop_last() || images == 0 ? 0 : images % batch;
  if (batch < group_.size() || (rest > 0 && rest < group_.size()))
    fail_input(
        "data.batch_size: {} per batch{} for {} ranks, expected at least one per rank{}",
        count_of(batch, "image", "images"),
        rest > 0 ? fmt::format(" and {} in the last batch of an epoch (data.drop_last: false)", rest) : "",
        group_.size(), batch < group_.size() ? fmt::format(", for example --batch {}", group_.size()) : "");
  const std::vector<std::string> own{program_checksum(), info_.config, info_.images,
                                     fmt::format("{} (to end after step {})", info_.step, stop_step_)};
  const std::vector<std::string> all =
      group_.exchange(fmt::format("{}", fmt::join(own, std::string(1, kEnd))));
  const std::vector<std::string> first = fields_of(all[0]);
  for (int r = 1; r < group_.size(); ++r) {
    const std::vector<std::string> other = fields_of(all[static_cast<size_t>(r)]);
    if (other == first) continue;
    if (other.size() != first.size() || other[0] != first[0])
      fail_input("rank {} runs a different program from rank 0, expected the same file on all machines", r);
    if (other[1] != first[1])
      fail_input(
          "rank {} has a different configuration from rank 0: {}", r,
          config_changes(parse_config(first[1], "rank 0"), parse_config(other[1], "rank")).at(0).to_string());
    if (other[2] != first[2])
      fail_input("rank {} has different training images ({}) from rank 0 ({})", r, other[2], first[2]);
    fail_input(
        "rank {} continues after step {}, rank 0 after step {}: expected a run folder that all ranks share",
        r, other[3], first[3]);
  }
}

// Checks that all ranks start with the bytes of rank 0, whatever files they were read from.
void TrainingRun::check_same_weights() {
  if (group_.alone()) return;
  Checksum sum;
  auto add = [&](const Tensor& t) {
    const Tensor here = t.to(Device::kCpu).contiguous();
    sum.add(here.raw(), here.bytes());
  };
  for (const NamedTensor& t : model_.named_tensors()) add(t.var.value());
  for (const auto& [name, t] : optimizer_->state()) add(t);
  const std::vector<std::string> all = group_.exchange(checksum_text(sum.value()));
  for (size_t r = 1; r < all.size(); ++r)
    if (all[r] != all[0])
      fail_input("rank {} starts with different weights from rank 0, expected the same files", r);
}

// Shares the size of each batch and what its images count for: all ranks divide the losses by the same
// numbers, and pad as one process would.
void TrainingRun::share_batches(PendingStep& now, const std::string& problem) {
  std::string own;
  for (size_t i = 0; i < now.batches.size(); ++i) {
    const Batch& batch = now.batches[i];
    const StepImages& images = now.of_batches[i];
    own += fmt::format("{} {} {} ", batch.images.dim(1), batch.images.dim(2), images.images());
    for (const StepImages::Image& image : images.each())
      own += fmt::format("{} {} ", image.objects, image.count);
  }
  own += kEnd + problem + kEnd;
  for (const Batch& batch : now.batches)
    for (const std::string& image : batch.bad_images) own += image + kEnd;
  const std::vector<std::string> all = group_.exchange(own);
  for (const std::string& other : all) {
    const std::vector<std::string> fields = fields_of(other);
    for (size_t i = 2; i < fields.size(); ++i) tell_skipped(fields[i]);
  }
  now.images = {};
  std::vector<std::array<int64_t, 2>> largest(static_cast<size_t>(plan_.accumulate));
  for (size_t r = 0; r < all.size(); ++r) {
    const std::vector<std::string> fields = fields_of(all[r]);
    if (!fields.at(1).empty()) {
      const bool is_alike = std::ranges::all_of(
          all, [&](const std::string& other) { return fields_of(other).at(1) == fields[1]; });
      fail_input("{}{}", is_alike ? "" : fmt::format("rank {}: ", r), fields[1]);
    }
    SharedNumbers numbers(fields.at(0));
    for (auto& sizes : largest) {
      for (int64_t& size : sizes) size = std::max(size, numbers.next<int64_t>());
      for (int64_t images = numbers.next<int64_t>(); images > 0; --images) {
        const auto objects = numbers.next<int64_t>();
        now.images.add({objects, numbers.next<int64_t>()});
      }
    }
  }
  for (size_t i = 0; i < now.batches.size(); ++i) pad_batch(now.batches[i], largest[i][0], largest[i][1]);
}

void TrainingRun::share_losses(PendingStep& now, std::vector<Tensor>& losses) {
  int64_t count = 0;
  for (const Tensor& t : losses) count += t.numel();
  Tensor all = Tensor::empty({count}, DType::kF32, options_.device);
  auto each = [&](auto&& visit) {
    int64_t begin = 0;
    for (size_t i = 0; i < losses.size(); ++i) {
      Tensor place = all.slice(0, begin, begin + losses[i].numel());
      visit(i, place);
      begin += losses[i].numel();
    }
  };
  each([&](size_t i, Tensor& place) { place.copy_from(losses[i]); });
  const double seconds = config_.train().max_minutes() * 60;
  const bool out_of_time = seconds > 0 && log_.elapsed_seconds() >= seconds;
  const std::vector<std::string> words =
      sum_->finish(all, fmt::format("{} {}", interrupt_signal(), out_of_time ? 1 : 0));
  for (size_t r = 0; r < words.size(); ++r) {
    SharedNumbers in(words[r]);
    agreed_signal_ = std::max(agreed_signal_, in.next<int>());
    const bool late = in.next<int>() != 0;
    if (r == 0) agreed_out_of_time_ = late;
  }
  each([&](size_t i, Tensor& place) {
    losses[i] = place;
    now.losses[i].values = HostCopy(place);
  });
  const ProcessGroup::SumTimes times = group_.take_times();
  now.metrics.emplace_back("reduction_ms", times.busy_ms);
  now.metrics.emplace_back("reduction_wait_ms", times.waited_ms);
}

// Adds up the means of all ranks on rank 0, which writes them.
void TrainingRun::share_means(MeanMetrics& means) const {
  std::vector<double> numbers;
  for (const MeanMetric& m : means) numbers.insert(numbers.end(), {m.sum, m.count});
  group_.add_up(numbers, false);
  for (size_t i = 0; i < means.size(); ++i) {
    means[i].sum = numbers[2 * i];
    means[i].count = numbers[2 * i + 1];
  }
}

// Called after an evaluation that one rank's signal ended on all ranks.
void TrainingRun::agree_on_signal() {
  if (group_.alone()) return;
  for (const std::string& signal : group_.exchange(std::to_string(interrupt_signal())))
    agreed_signal_ = std::max(agreed_signal_, shared_number<int>(signal));
}

// Gives all ranks the metrics of rank 0, which has the detections of all of them.
void TrainingRun::share_metrics(Metrics& metrics) const {
  std::string own;
  for (const auto& [name, value] : metrics) own += fmt::format("{}{}{}{}", value, kEnd, name, kEnd);
  const std::vector<std::string> fields = fields_of(group_.exchange(group_.is_first() ? own : "")[0]);
  metrics.clear();
  for (size_t i = 0; i + 1 < fields.size(); i += 2)
    metrics.emplace_back(fields[i + 1], shared_number<double>(fields[i]));
}

std::string TrainingRun::first_finding(const std::string& own) const {
  const std::vector<std::string> all = group_.exchange(own);
  for (size_t r = 0; r < all.size(); ++r)
    if (!all[r].empty()) return group_.alone() ? own : fmt::format("rank {}: {}", r, all[r]);
  return "";
}

}  // namespace saccade
