// How the kernels of the norm and of the averages see their tensors, for optimizer.cpp and optimizer_cuda.cu.
#pragma once

#include "core/kernels/optimizer/update.h"

namespace saccade::kernels {

struct SquarePiece {
  const float* x;
  int64_t count;
  bool guard;  // adds 0 when finite, else NaN
};

inline std::vector<SquarePiece> square_pieces(const Tensor& norm, std::span<const Tensor> grads,
                                              std::span<const Tensor> guards, int64_t piece) {
  SACCADE_CHECK(norm.dtype() == DType::kF64 && norm.numel() == 1, "[gradient_norm] the norm must be one f64");
  std::vector<SquarePiece> pieces;
  for (bool guard : {false, true}) {
    for (const Tensor& t : guard ? guards : grads) {
      check_list("gradient_norm", t, t.numel());
      const float* x = t.data<float>();
      cut(t.numel(), piece, [&](int64_t begin, int64_t count) {
        pieces.push_back({x + begin, count, guard});
      });
    }
  }
  return pieces;
}

struct EmaPiece {
  float* average;
  const float* value;
  int64_t count;
};

inline std::vector<EmaPiece> ema_pieces(std::span<Tensor> averages, std::span<const Tensor> values,
                                        int64_t piece) {
  SACCADE_CHECK(averages.size() == values.size(), "[ema_update] {} averages of {} values", averages.size(),
                values.size());
  std::vector<EmaPiece> pieces;
  for (size_t k = 0; k < values.size(); ++k) {
    int64_t n = values[k].numel();
    check_list("ema_update", averages[k], n);
    check_list("ema_update", values[k], n);
    float* a = averages[k].data<float>();
    const float* v = values[k].data<float>();
    cut(n, piece, [&](int64_t begin, int64_t count) { pieces.push_back({a + begin, v + begin, count}); });
    averages[k].bump_version();
  }
  return pieces;
}

}  // namespace saccade::kernels
