#include "core/kernels/losses/losses.h"

#include <algorithm>

#include "core/kernels/common/lane_reduce.h"
#include "core/kernels/losses/loss_terms.h"
#include "core/runtime/launch.h"

namespace saccade::kernels {
namespace {

// The range of a piece of the dense class losses: elements [i * kLossElements, ...) of x [rows, K].
struct DensePiece {
  int64_t begin, length, first_row, last_row;  // rows that overlap the piece
  SACCADE_HD DensePiece(int64_t piece, int64_t n, int64_t classes) {
    begin = piece * kLossElements;
    length = n - begin < kLossElements ? n - begin : kLossElements;
    first_row = begin / classes;
    last_row = (begin + length - 1) / classes;
  }
  // Returns the position of the label of row r within the piece, or -1 if it is not in it.
  SACCADE_HD int64_t label_at(int64_t r, int64_t label, int64_t classes) const {
    int64_t at = r * classes + label - begin;
    return label >= 0 && label < classes && at >= 0 && at < length ? at : -1;
  }
};

template <class T, class Term>
struct DenseLoss {
  Term term;
  const T* x;
  const int64_t* labels;
  double* partial;
  T* grad;                     // may be null
  int64_t n, classes, pieces;  // of a part
  SACCADE_HD void operator()(int64_t i) const {
    const int64_t part = i / pieces, first = part * (n / classes);
    DensePiece piece(i % pieces, n, classes);
    // The labels are written to `target` once, so that the loop over the elements has no division.
    T target[kLossElements];
    for (int64_t e = 0; e < piece.length; ++e) target[e] = Term::kElsewhere;
    for (int64_t r = piece.first_row; r <= piece.last_row; ++r) {
      int64_t at = piece.label_at(r, labels[first + r], classes);
      if (at >= 0) target[at] = term.at_label(first + r);
    }
    const T* px = x + part * n + piece.begin;
    T* out = grad ? grad + part * n + piece.begin : nullptr;
    const Term f = term;
    for (int64_t e = 0; e < piece.length; ++e) {
      LossTerm<T> value = f(px[e], target[e]);
      if (out) out[e] = value.slope;
      target[e] = value.loss;
    }
    const T* loss = target;
    partial[i] = static_cast<double>(lane_sum<T>(piece.length, [loss](int64_t e) { return loss[e]; }));
  }
};

template <class T>
struct CrossEntropyRows {
  static constexpr int kFewClasses = 8;
  const T* x;
  const int64_t* labels;
  const T* weights;  // may be null
  double* partial;
  T* grad;                        // may be null
  int64_t rows, pieces, classes;  // rows and pieces of a part
  T smoothing;
  const T* weight_sum;  // may be null: all weights are 1
  SACCADE_HD void operator()(int64_t i) const {
    int64_t first = i / pieces * rows, piece = i % pieces;
    int64_t end = (piece + 1) * kLossRows < rows ? (piece + 1) * kLossRows : rows;
    double total = 0;
    for (int64_t r = piece * kLossRows; r < end; ++r) total += static_cast<double>(row(first + r));
    partial[i] = total;
  }
  SACCADE_HD T row(int64_t r) const {
    const T* px = x + r * classes;
    const T* w = weights;
    int64_t label = labels[r];
    if (label < 0) {
      for (int64_t k = 0; grad && k < classes; ++k) grad[r * classes + k] = T(0);
      return T(0);
    }
    if (classes <= kFewClasses && smoothing == T(0))
      return row_of_few(px, label, grad ? grad + r * classes : grad);
    T top = lane_max<T>(classes, [=](int64_t k) { return px[k]; });
    T sum = lane_sum<T>(classes, [=](int64_t k) { return math::exp(px[k] - top); });
    T log_sum = top + math::log(sum);
    T hard = (T(1) - smoothing) * (w ? w[label] : T(1)), soft = smoothing / T(classes);
    T loss = hard * (log_sum - px[label]);
    if (soft > T(0))
      loss += soft * lane_sum<T>(classes, [=](int64_t k) { return (w ? w[k] : T(1)) * (log_sum - px[k]); });
    if (grad) {
      T* out = grad + r * classes;
      T mass = (hard + soft * (weight_sum ? weight_sum[0] : T(classes))) / sum;
      for (int64_t k = 0; k < classes; ++k) out[k] = mass * math::exp(px[k] - top) - soft * (w ? w[k] : T(1));
      out[label] -= hard;
    }
    return loss;
  }
  // The same results if the classes of a row fit a vector and there is no smoothing.
  SACCADE_HD T row_of_few(const T* px, int64_t label, T* out) const {
    T z[kFewClasses], e[kFewClasses];
    for (int k = 0; k < kFewClasses; ++k) z[k] = px[k < classes ? k : 0];
    const T top = lane_max<T, kFewClasses>(kFewClasses, [&](int64_t k) { return z[k]; });
    for (int k = 0; k < kFewClasses; ++k) e[k] = k < classes ? math::exp(z[k] - top) : T(0);
    const T sum = lane_sum<T, kFewClasses>(kFewClasses, [&](int64_t k) { return e[k]; });
    const T weight = weights ? weights[label] : T(1);
    if (out) {
      const T mass = weight / sum;
      for (int64_t k = 0; k < classes; ++k) out[k] = mass * e[k];
      out[label] -= weight;
    }
    return weight * (top + math::log(sum) - px[label]);
  }
};

template <class T>
struct GiouPairs {
  const T* boxes;
  const T* targets;
  double* partial;
  T* grad;                // may be null
  int64_t pairs, pieces;  // of a part
  SACCADE_HD void operator()(int64_t i) const {
    int64_t first = i / pieces * pairs, piece = i % pieces;
    int64_t end = (piece + 1) * kLossPairs < pairs ? (piece + 1) * kLossPairs : pairs;
    double total = 0;
    for (int64_t p = first + piece * kLossPairs; p < first + end; ++p)
      total += static_cast<double>(giou_pair(boxes + 4 * p, targets + 4 * p, grad ? grad + 4 * p : nullptr));
    partial[i] = total;
  }
};

template <class T>
struct L1Piece {
  const T* x;
  const T* targets;
  double* partial;
  T* grad;            // may be null
  int64_t n, pieces;  // of a part
  SACCADE_HD void operator()(int64_t i) const {
    int64_t at = i % pieces * kLossElements, length = n - at < kLossElements ? n - at : kLossElements;
    int64_t begin = i / pieces * n + at;
    const T *px = x + begin, *pt = targets + begin;
    partial[i] =
        static_cast<double>(lane_sum<T>(length, [=](int64_t e) { return l1_term(px[e], pt[e]).loss; }));
    if (!grad) return;
    for (int64_t e = 0; e < length; ++e) grad[begin + e] = l1_term(px[e], pt[e]).slope;
  }
};

// Returns the number of rows, pairs or elements per part.
int64_t of_part(int64_t n, const Tensor& partial) { return n / std::max<int64_t>(partial.dim(0), 1); }

constexpr int64_t kLogisticCost = 40;  // element operations of one Logistic

void decision_loss_generic(const Tensor& x, const Tensor& labels, const Tensor& quality,
                           const DecisionParams& params, Tensor& partial, Tensor& grad) {
  dispatch_dtype<float, double>(x.dtype(), "decision_loss", [&]<class T>() {
    with_decision_term<T>(params, quality, [&]<class Term>(const Term& term) {
      DenseLoss<T, Term> f{term,
                           x.data<T>(),
                           labels.data<int64_t>(),
                           partial.data<double>(),
                           data_or_null<T>(grad),
                           of_part(x.numel(), partial),
                           x.dim(1),
                           partial.dim(1)};
      for_each(partial.numel(), f, kLossElements * kLogisticCost);
    });
  });
}

template <class T>
struct SumOnce {  // one index: total[0] = sum of w[0 .. n)
  const T* w;
  T* total;
  int64_t n;
  SACCADE_HD void operator()(int64_t) const {
    const T* p = w;
    total[0] = lane_sum<T>(n, [p](int64_t k) { return p[k]; });
  }
};

void cross_entropy_loss_generic(const Tensor& x, const Tensor& labels, const Tensor& weights,
                                double smoothing, Tensor& partial, Tensor& grad) {
  dispatch_dtype<float, double>(x.dtype(), "cross_entropy_loss", [&]<class T>() {
    const T* w = data_or_null<T>(weights);
    CrossEntropyRows<T> f{x.data<T>(),
                          labels.data<int64_t>(),
                          w,
                          partial.data<double>(),
                          data_or_null<T>(grad),
                          of_part(x.dim(0), partial),
                          partial.dim(1),
                          x.dim(1),
                          T(smoothing),
                          nullptr};
    Tensor total;
    if (w && smoothing > 0) {
      total = Tensor::empty({}, x.dtype(), x.device());
      for_each(1, SumOnce<T>{w, total.data<T>(), x.dim(1)});
      f.weight_sum = total.data<T>();
    }
    for_each(partial.numel(), f, kLossRows * x.dim(1) * kLogisticCost);
  });
}

template <template <class> class Piece>
void box_loss(const char* name, const Tensor& boxes, const Tensor& targets, int64_t n, int64_t cost,
              Tensor& partial, Tensor& grad) {
  dispatch_dtype<float, double>(boxes.dtype(), name, [&]<class T>() {
    Piece<T> f{boxes.data<T>(),       targets.data<T>(),   partial.data<double>(),
               data_or_null<T>(grad), of_part(n, partial), partial.dim(1)};
    for_each(partial.numel(), f, cost);
  });
}
void giou_loss_generic(const Tensor& boxes, const Tensor& targets, Tensor& partial, Tensor& grad) {
  box_loss<GiouPairs>("giou_loss", boxes, targets, boxes.dim(0), kLossPairs * 60, partial, grad);
}
void l1_loss_generic(const Tensor& boxes, const Tensor& targets, Tensor& partial, Tensor& grad) {
  box_loss<L1Piece>("l1_loss", boxes, targets, boxes.numel(), kLossElements * 4, partial, grad);
}

SACCADE_REGISTER_KERNEL(decision_loss, &decision_loss_generic);
SACCADE_REGISTER_KERNEL(cross_entropy_loss, &cross_entropy_loss_generic);
SACCADE_REGISTER_KERNEL(giou_loss, &giou_loss_generic);
SACCADE_REGISTER_KERNEL(l1_loss, &l1_loss_generic);

}  // namespace
}  // namespace saccade::kernels
