// Exponential moving average of a model's weights and floating-point buffers: the values that are evaluated
// and saved as the best model.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/formats/safetensors.h"
#include "layers/module.h"

namespace saccade {

// Copies a tensor stored in a checkpoint. Throws InputError "what: missing, expected f32 [..]" for another
// type or shape.
void copy_stored(const std::string& what, const Tensor& stored, Tensor& to);

class Ema {
 public:
  // Starts as a copy of the model. Throws Error unless 0 < decay < 1 and tau >= 0.
  Ema(const Module& model, double decay, double tau = 0);

  // average += weight * (value - average) after an optimizer step: the first steps are forgotten quickly.
  // After t earlier updates, weight = 1 - min(decay, (1 + t) / (10 + t)), or with a tau, 1 - decay * (1 -
  // exp(-(t + 1) / tau)). The optimizer's kernel updates the averages that it takes, while it has the values
  // at hand; finish() updates the others. Nothing changes on the device if `norm`, that of the optimizer's
  // step, is not finite.
  class Update {
   public:
    double weight() const { return weight_; }
    Tensor take(const Var& var);  // undefined if the variable has no average
    void finish(const Tensor& norm);

   private:
    friend class Ema;
    Update(Ema& ema, double weight) : ema_(ema), weight_(weight), taken_(ema.slots_.size()) {}
    Ema& ema_;
    double weight_;
    std::vector<bool> taken_;
  };
  Update update();
  int64_t updates() const { return updates_; }

  // Exchanges the model's values with the averages; a second call reverses it. See EmaScope.
  void swap();

  // The averages by tensor name; constants of the model (frozen weights) are not among them.
  NamedValues state() const;
  void load_state(int64_t updates, const std::function<Tensor(const std::string&)>& find);

 private:
  struct Slot {
    std::string name;
    Var var;
    Tensor average;
  };
  double decay_, tau_;
  int64_t updates_ = 0;
  bool swapped_ = false;
  std::vector<Slot> slots_;
  std::map<const VarState*, size_t> slot_of_;
};

// The model holds the averages inside the block. A null ema does nothing.
class EmaScope {
 public:
  explicit EmaScope(Ema* ema) : ema_(ema) {
    if (ema_) ema_->swap();
  }
  ~EmaScope() {
    if (ema_) ema_->swap();
  }
  EmaScope& operator=(EmaScope&&) = delete;

 private:
  Ema* ema_;
};

}  // namespace saccade
