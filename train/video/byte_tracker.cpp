#include "train/video/byte_tracker.h"

#include <algorithm>

#include "models/detection/assignment.h"

namespace saccade {
namespace {

// Standard deviations of positions and of velocities, relative to the height.
constexpr double kPosition = 1.0 / 20, kVelocity = 1.0 / 160;
// Those of the aspect ratio, which has no unit.
constexpr double kAspect = 1e-2, kAspectVelocity = 1e-5, kMeasuredAspect = 1e-1;

constexpr double kSecondMatch = 0.5,
                 kNewMatch = 0.7;  // largest distances for low scores, and for objects seen once
constexpr double kDouble = 0.15;   // distance below which two tracks are duplicates
constexpr double kBegins = 0.1;    // above `high`

struct Measured {
  double x, y, aspect, height;
};

Measured measured(const Box& box) {
  const double height = std::max(box.height(), 1e-6);
  return {(box.x1 + box.x2) / 2, (box.y1 + box.y2) / 2, box.width() / height, height};
}

double square(double v) { return v * v; }

template <class Axis>
void start_axis(Axis& axis, double position, double deviation, double velocity_deviation) {
  axis = {position, 0, square(deviation), 0, square(velocity_deviation)};
}

template <class Axis>
void predict_axis(Axis& axis, double deviation, double velocity_deviation) {
  axis.position += axis.velocity;
  axis.position_variance += 2 * axis.covariance + axis.velocity_variance + square(deviation);
  axis.covariance += axis.velocity_variance;
  axis.velocity_variance += square(velocity_deviation);
}

template <class Axis>
void correct_axis(Axis& axis, double position, double deviation) {
  const double all = axis.position_variance + square(deviation), error = position - axis.position;
  const double gain = axis.position_variance / all, velocity_gain = axis.covariance / all;
  axis.position += gain * error;
  axis.velocity += velocity_gain * error;
  axis.velocity_variance -= velocity_gain * axis.covariance;
  axis.covariance -= gain * axis.covariance;
  axis.position_variance -= gain * axis.position_variance;
}

}  // namespace

BoxMotion::BoxMotion(const Box& box) {
  const Measured m = measured(box);
  const double position = 2 * kPosition * m.height, velocity = 10 * kVelocity * m.height;
  start_axis(x_, m.x, position, velocity);
  start_axis(y_, m.y, position, velocity);
  start_axis(aspect_, m.aspect, kAspect, kAspectVelocity);
  start_axis(height_, m.height, position, velocity);
}

void BoxMotion::predict(bool is_lost) {
  if (is_lost) height_.velocity = 0;
  const double position = kPosition * height_.position, velocity = kVelocity * height_.position;
  predict_axis(x_, position, velocity);
  predict_axis(y_, position, velocity);
  predict_axis(aspect_, kAspect, kAspectVelocity);
  predict_axis(height_, position, velocity);
}

void BoxMotion::correct(const Box& box) {
  const Measured m = measured(box);
  const double position = kPosition * height_.position;
  correct_axis(x_, m.x, position);
  correct_axis(y_, m.y, position);
  correct_axis(aspect_, m.aspect, kMeasuredAspect);
  correct_axis(height_, m.height, position);
}

Box BoxMotion::box() const {
  return box_of_centre(x_.position, y_.position, aspect_.position * height_.position, height_.position);
}

std::vector<ByteTracker::Match> ByteTracker::match(std::vector<size_t>& tracks, std::vector<size_t>& boxes,
                                                   std::span<const Instance> found, double limit,
                                                   bool with_score) const {
  std::vector<Match> matches;
  if (tracks.empty() || boxes.empty()) return matches;
  // A pair beyond the limit costs as much as no pair, so that only pairs within the limit decide.
  std::vector<double> cost;
  for (const size_t t : tracks) {
    const Box box = tracks_[t].motion.box();
    for (const size_t b : boxes) {
      const double overlap = found[b].label == tracks_[t].label ? iou(box, found[b].box) : 0;
      cost.push_back(std::min(1 - overlap * (with_score ? found[b].score : 1), limit));
    }
  }
  const auto columns = static_cast<int64_t>(boxes.size());
  const Assignment pairs = linear_sum_assignment(cost, static_cast<int64_t>(tracks.size()), columns);
  std::vector<char> has_track(tracks.size()), has_box(boxes.size());
  for (size_t p = 0; p < pairs.rows.size(); ++p) {
    const auto t = static_cast<size_t>(pairs.rows[p]), b = static_cast<size_t>(pairs.columns[p]);
    if (cost[t * boxes.size() + b] >= limit) continue;
    matches.push_back({tracks[t], boxes[b]});
    has_track[t] = has_box[b] = 1;
  }
  auto keep_others = [](std::vector<size_t>& list, const std::vector<char>& taken) {
    size_t kept = 0;
    for (size_t i = 0; i < list.size(); ++i)
      if (!taken[i]) list[kept++] = list[i];
    list.resize(kept);
  };
  keep_others(tracks, has_track);
  keep_others(boxes, has_box);
  return matches;
}

void ByteTracker::remove_doubles() {
  std::vector<char> removed(tracks_.size());
  for (size_t a = 0; a < tracks_.size(); ++a)
    for (size_t b = 0; b < tracks_.size(); ++b) {
      const Track &seen = tracks_[a], &lost = tracks_[b];
      if (seen.state != State::kTracked || lost.state != State::kLost || seen.label != lost.label) continue;
      if (1 - iou(seen.motion.box(), lost.motion.box()) >= kDouble) continue;
      removed[seen.last - seen.begin > lost.last - lost.begin ? b : a] =
          1;  // the one that has been known for less time
    }
  size_t kept = 0;
  for (size_t t = 0; t < tracks_.size(); ++t)
    if (!removed[t]) tracks_[kept++] = tracks_[t];
  tracks_.erase(tracks_.begin() + static_cast<std::ptrdiff_t>(kept), tracks_.end());
}

std::vector<int64_t> ByteTracker::update(std::span<const Instance> found) {
  ++frame_;
  std::vector<size_t> high, low, known, unsure;
  for (size_t b = 0; b < found.size(); ++b) {
    if (found[b].score >= options_.high)
      high.push_back(b);
    else if (found[b].score >= options_.low)
      low.push_back(b);
  }
  for (size_t t = 0; t < tracks_.size(); ++t) {
    Track& track = tracks_[t];
    if (track.state != State::kNew) track.motion.predict(track.state == State::kLost);
    (track.state == State::kNew ? unsure : known).push_back(t);
  }
  std::vector<int64_t> ids(found.size(), 0);
  auto follow = [&](const std::vector<Match>& matches) {
    for (const auto [t, b] : matches) {
      Track& track = tracks_[t];
      track.motion.correct(found[b].box);
      track.state = State::kTracked;
      track.last = frame_;
      if (track.id == 0) track.id = ++count_;
      ids[b] = track.id;
    }
  };
  follow(match(known, high, found, options_.match, true));
  // Low scores only continue tracks of the previous frame: an occluded object is among them, most of the
  // background is not.
  std::erase_if(known, [&](size_t t) { return tracks_[t].state == State::kLost; });
  follow(match(known, low, found, kSecondMatch, false));
  for (const size_t t : known) tracks_[t].state = State::kLost;
  follow(match(unsure, high, found, kNewMatch, true));
  // Something seen once, and not again, is dropped.
  std::erase_if(tracks_,
                [&](const Track& t) { return t.state == State::kNew || frame_ - t.last > options_.buffer; });
  for (const size_t b : high) {
    if (found[b].score < options_.begin.value_or(options_.high + kBegins)) continue;
    const bool is_first = frame_ == 1;
    if (is_first) ids[b] = ++count_;
    tracks_.push_back({BoxMotion(found[b].box), found[b].label, ids[b], frame_, frame_,
                       is_first ? State::kTracked : State::kNew});
  }
  remove_doubles();
  return ids;
}

}  // namespace saccade
