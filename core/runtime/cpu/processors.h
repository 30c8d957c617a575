// How many processors this process may use.
#pragma once

namespace saccade {

// Those of its affinity mask, at most as many (rounded up) as the quotas of its control groups pay for
// (versions 1 and 2): a container that is limited to 1.5 processors has 2.
int available_processors();

}  // namespace saccade
