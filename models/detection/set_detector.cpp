#include "models/detection/set_detector.h"

namespace saccade {

void SetDetectorOptions::read(const Args& transformer, const Args& section, int64_t num_classes) {
  classes = num_classes;
  queries = transformer.get_int("queries");
  aux_loss = transformer.get_bool("aux_loss");
  extra_query_groups = transformer.get_int("extra_query_groups");
  criterion = CriterionOptions::read(section);
}

}  // namespace saccade
