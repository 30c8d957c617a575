// Learned queries `query_embed.weight` [Q, C] and, for training only, further groups of them
// `query_embed_groups.weight` for one-to-many supervision (Group DETR, Chen et al. 2023).
#pragma once

#include "autograd/ops.h"
#include "layers/module.h"

namespace saccade {

class QueryEmbedding : public Module {
 public:
  QueryEmbedding(int64_t queries, int64_t channels, int64_t extra_groups) : extra_groups_(extra_groups) {
    queries_ = param("query_embed.weight", {queries, channels}, init::normal(0, 1));
    if (extra_groups > 0)
      extra_ = param("query_embed_groups.weight", {extra_groups * queries, channels}, init::normal(0, 1));
  }
  // [groups() * Q, C]
  Var forward() const { return groups() > 1 ? concat({queries_, extra_}, 0) : queries_; }
  int64_t groups() const { return training() ? 1 + extra_groups_ : 1; }
  std::string type_name() const override { return "QueryEmbedding"; }

 private:
  int64_t extra_groups_;
  Var queries_, extra_;
};

}  // namespace saccade
