// D-FINE's configuration from weights.
#pragma once

namespace saccade {

class Inference;

bool infer_d_fine(Inference& weights);  // see ModelSpec::infer

}  // namespace saccade
