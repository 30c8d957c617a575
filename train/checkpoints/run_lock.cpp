#include "train/checkpoints/run_lock.h"

#include "core/tensor/error.h"

namespace saccade {

RunLock::RunLock(const std::string& folder) : lock_(folder + "/.lock") {
  if (const std::string owner = lock_.take(); !owner.empty())
    fail_input("{}: {} is training in this folder; expected its end, or another --output", folder, owner);
}

}  // namespace saccade
