// What the program says about its GPU, besides cuda_problem() of core/device.h.
#pragma once

namespace saccade {

// Whether Device::kCuda is the slow emulated GPU of the tests.
bool cuda_is_emulated();

}  // namespace saccade
