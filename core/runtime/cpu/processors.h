// The number of processors that this process may use.
#pragma once

namespace saccade {

// Counts the processors of the affinity mask, limited (rounded up) by the quotas of the control groups
// (versions 1 and 2): a container that is limited to 1.5 processors has 2.
int available_processors();

}  // namespace saccade
