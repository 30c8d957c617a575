// The class head of most official backbones: the mean of the last map, followed by one linear layer.
#pragma once

#include "layers/linear.h"
#include "models/backbone.h"

namespace saccade {

class PooledClassifier : public Classifier {
 public:
  // body: returns one map; its tensors keep their names. type: of the classifier, for summaries.
  // head: the linear layer's name
  PooledClassifier(const char* type, std::shared_ptr<Backbone> body, const std::string& head, int64_t classes,
                   const LinearOptions& linear = {})
      : type_(type), head_name_(head), body_(child("", std::move(body))) {
    head_ = make_child<Linear>(head, body_->channels().back(), classes, linear);
  }
  Var forward(const Var& images) override {
    const int space[] = {1, 2};
    return head_(mean(body_(images).back(), space));
  }
  int64_t num_classes() const override { return head_->weight().dim(0); }
  std::string type_name() const override { return type_; }
  std::vector<std::string> class_heads() const override { return {head_name_ + "."}; }

 private:
  std::string type_, head_name_;
  Child<Backbone> body_;
  Child<Linear> head_;
};

}  // namespace saccade
