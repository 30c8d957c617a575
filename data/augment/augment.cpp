#include "data/augment/augment.h"

#include <algorithm>

namespace saccade {

const std::vector<double>& AugmentFields::list(const std::string& name) const {
  static const std::vector<double> kNone;
  auto it = values.find(name);
  SACCADE_CHECK(it != values.end() || !complete, "[augment] there is no field data.augment.{}", name);
  return it == values.end() ? kNone : it->second;
}

double AugmentFields::number(const std::string& name) const {
  const std::vector<double>& value = list(name);
  return value.empty() ? 0 : value.front();
}

std::vector<int64_t> AugmentFields::integers(const std::string& name) const {
  const std::vector<double>& all = list(name);
  return {all.begin(), all.end()};
}

EpochRange epochs_of(AugmentPhase phase, const AugmentFields& fields) {
  EpochRange epochs;
  if (phase == AugmentPhase::kAlways) return epochs;
  epochs.begin = fields.integer("strong_start_epoch");
  auto end_at = [&](const char* name) {
    if (const int64_t end = fields.integer(name); end > 0) epochs.end = std::min(epochs.end, end);
  };
  end_at("strong_stop_epoch");
  if (phase == AugmentPhase::kCombining) end_at("mosaic_stop_epoch");
  return epochs;
}

Augmentation make_augmentation(const AugmentFields& fields) {
  std::vector<const AugmentSpec*> specs;
  for (const auto& [name, spec] : augmentations().all()) specs.push_back(&spec);
  std::stable_sort(specs.begin(), specs.end(), [](auto* a, auto* b) { return a->order < b->order; });
  Augmentation steps;
  for (const AugmentSpec* spec : specs) {
    std::optional<double> probability;
    if (!spec->probability.empty()) {
      probability = fields.number(spec->probability);
      SACCADE_CHECK(*probability >= 0 && *probability <= 1, "[augment] {}: a probability must be in [0, 1]",
                    spec->probability);
      if (*probability == 0) continue;
    }
    CombineFunction apply;
    if (spec->make_of_several != nullptr) {
      apply = spec->make_of_several(fields);
    } else if (spec->make_of_pixels != nullptr) {
      if (PixelFunction pixels = spec->make_of_pixels(fields))
        apply = [pixels](Sample& sample, Rng& rng, const AnotherSample&) { pixels(sample.image, rng); };
    } else if (AugmentFunction single = spec->make(fields)) {
      apply = [single](Sample& sample, Rng& rng, const AnotherSample&) { single(sample, rng); };
    }
    if (apply) steps.push_back({spec->name, probability, epochs_of(spec->phase, fields), apply});
  }
  return steps;
}

Sample augment(Sample sample, const Augmentation& steps, Rng& rng, int64_t epoch,
               const AnotherSample& another) {
  for (const AugmentStep& step : steps) {
    if (!step.epochs.contains(epoch)) continue;
    if (!step.probability || rng.uniform() < *step.probability) step.apply(sample, rng, another);
  }
  return sample;
}

}  // namespace saccade
