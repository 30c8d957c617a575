#include "models/detection/set_detector.h"

#include "core/tensor/error.h"

namespace saccade {

void SetDetectorOptions::read(const Args& transformer, const Args& section, int64_t num_classes) {
  classes = num_classes;
  queries = transformer.get_int("queries");
  aux_loss = transformer.get_bool("aux_loss");
  extra_query_groups = transformer.get_int("extra_query_groups");
  constexpr int64_t kMaxQueries = 65536;  // in training: each group attends within itself and is matched
  if (queries * (1 + extra_query_groups) > kMaxQueries)
    fail_input("{}.extra_query_groups: {} extra groups of {} queries make {} in total, expected at most {}",
               transformer.path(), extra_query_groups, queries, queries * (1 + extra_query_groups),
               kMaxQueries);
  denoising = DenoisingOptions::read(transformer);
  if (denoising.queries > 0 && extra_query_groups > 0)
    fail_input("{}.denoising: cannot be combined with extra_query_groups, which is {}", transformer.path(),
               extra_query_groups);
  criterion = CriterionOptions::read(section);
}

SetOutput SetDetector::finished(SetOutput output) const {
  if (aux_loss_) return output;
  for (auto* all : {&output.layers, &output.denoising.layers})
    if (all->size() > 1) all->erase(all->begin(), all->end() - 1);
  output.first = output.denoising.first = {};
  return output;
}

}  // namespace saccade
