#include "train/optimizers/schedule.h"

namespace saccade {
namespace {

double constant(const config::Schedule&, const SchedulePoint&) { return 1; }

[[maybe_unused]] const bool constant_registered = schedules().add({.name = "constant", .factor = &constant});

}  // namespace
}  // namespace saccade
