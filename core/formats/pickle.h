// Reads Python's pickle format (protocols 0 to 5,
// https://github.com/python/cpython/blob/main/Lib/pickletools.py) as data. Nothing is imported or called: a
// global is a pair of names, and an object that a pickle would build by a call is either one of the few that
// this reader knows (dictionaries, tuples, tensors and their storages), or an opaque node.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "core/formats/pickle_input.h"

namespace saccade {

// A value in PickleGraph::nodes. Values refer to each other by index, shared ones exist once, and cycles are
// possible: code that walks through a graph must bound its depth and its steps.
struct PickleNode {
  enum class Kind : uint8_t {
    kNone,
    kBool,     // integer
    kInt,      // integer
    kLong,     // text: two's complement, little-endian, more than 64 bits
    kFloat,    // number
    kString,   // text
    kBytes,    // text
    kTuple,    // items
    kList,     // items
    kDict,     // items: key, value, key, value ...
    kSet,      // items
    kGlobal,   // text: "module.name"
    kObject,   // text: the class or function that would make it; items: an argparse.Namespace's kDict
    kStorage,  // text: key; items: 0 its global; integer: number of elements
    kTensor,   // items: storage, offset, sizes, strides, and the dtype if the storage has none
  };
  Kind kind = Kind::kNone;
  union {
    int64_t integer = 0;
    double number;
  };
  std::string text;
  std::vector<uint32_t> items;
};

struct PickleGraph {
  std::deque<PickleNode> nodes;
  uint32_t root = 0;

  const PickleNode& operator[](uint32_t index) const { return nodes[index]; }
  // Returns key, value, key, value ... of a dictionary or Namespace; empty for other nodes.
  const std::vector<uint32_t>& pairs(const PickleNode& dict) const;
  // Returns the value of a string key, or null if it is absent.
  const PickleNode* find(const PickleNode& dict, std::string_view key) const;
};

// Reads one pickle, up to its STOP. Throws InputError on an unknown opcode, a truncated stream, a stack or
// memo error, and on more operations than a weight file needs.
PickleGraph read_pickle(PickleInput& input);

}  // namespace saccade
