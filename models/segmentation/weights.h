// What weights of the models of this folder tell of their configuration (ModelSpec::infer).
#pragma once

namespace saccade {

class Inference;

bool infer_semantic_fpn(Inference& weights);
bool infer_uper_net(Inference& weights);

}  // namespace saccade
