// The classes of ImageNet-1k (ILSVRC 2012) in the usual order, that of their WordNet numbers.
#pragma once

#include <string>
#include <vector>

namespace saccade {

const std::vector<std::string>& imagenet_class_names();  // [1000], all different

}  // namespace saccade
