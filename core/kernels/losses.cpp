#include "core/kernels/losses.h"

#include "core/kernels/lanes.h"
#include "core/launch.h"

namespace saccade::kernels {
namespace {

// log(1 + e^z), sigmoid(z) and its logarithm, exact at both ends.
template <class A>
struct Logistic {
  A softplus, p, log_p;
  SACCADE_HD explicit Logistic(A z) {
    A e = math::exp(-(z < A(0) ? -z : z));
    softplus = math::max(z, A(0)) + math::log1p(e);
    p = (z < A(0) ? e : A(1)) / (A(1) + e);
    log_p = z - softplus;
  }
  // p^gamma
  SACCADE_HD A power(A gamma) const { return gamma == A(2) ? p * p : math::exp(gamma * log_p); }
};

// The shape of the dense class losses: piece i is elements [i * kLossElements, ...) of x [rows, K].
struct DensePiece {
  int64_t begin, length, first_row, last_row;  // rows that overlap the piece
  SACCADE_HD DensePiece(int64_t piece, int64_t n, int64_t classes) {
    begin = piece * kLossElements;
    length = n - begin < kLossElements ? n - begin : kLossElements;
    first_row = begin / classes;
    last_row = (begin + length - 1) / classes;
  }
  // The position of the label of row r within the piece; -1 when it is not there.
  SACCADE_HD int64_t label_at(int64_t r, int64_t label, int64_t classes) const {
    int64_t at = r * classes + label - begin;
    return label >= 0 && label < classes && at >= 0 && at < length ? at : -1;
  }
};

template <class T>
struct FocalPiece {
  const T* x;
  const int64_t* labels;
  double* partial;
  T* grad;  // or null
  int64_t n, classes;
  T alpha, gamma;
  SACCADE_HD void operator()(int64_t i) const {
    DensePiece piece(i, n, classes);
    // -1 at labels, 1 elsewhere: found once, so that the loop over the elements has no division.
    T sign[kLossElements];
    for (int64_t e = 0; e < piece.length; ++e) sign[e] = T(1);
    for (int64_t r = piece.first_row; r <= piece.last_row; ++r) {
      int64_t at = piece.label_at(r, labels[r], classes);
      if (at >= 0) sign[at] = T(-1);
    }
    const T* px = x + piece.begin;
    T* out = grad ? grad + piece.begin : nullptr;
    T g = gamma;
    for (int64_t e = 0; e < piece.length; ++e) {
      Logistic<T> f(sign[e] * px[e]);
      T w = (sign[e] < T(0) ? alpha : T(1) - alpha) * f.power(g);
      if (out) out[e] = sign[e] * w * (g * (T(1) - f.p) * f.softplus + f.p);
      sign[e] = w * f.softplus;  // becomes the loss
    }
    const T* loss = sign;
    partial[i] = static_cast<double>(lane_sum<T>(piece.length, [loss](int64_t e) { return loss[e]; }));
  }
};

template <class T>
struct VarifocalPiece {
  const T* x;
  const int64_t* labels;
  const T* quality;
  double* partial;
  T* grad;  // or null
  int64_t n, classes;
  T alpha, gamma;
  SACCADE_HD void operator()(int64_t i) const {
    DensePiece piece(i, n, classes);
    T target[kLossElements];  // the quality at labels, -1 elsewhere
    for (int64_t e = 0; e < piece.length; ++e) target[e] = T(-1);
    for (int64_t r = piece.first_row; r <= piece.last_row; ++r) {
      int64_t at = piece.label_at(r, labels[r], classes);
      if (at >= 0) target[at] = quality[r];
    }
    const T* px = x + piece.begin;
    T* out = grad ? grad + piece.begin : nullptr;
    T a = alpha, g = gamma;
    for (int64_t e = 0; e < piece.length; ++e) {
      Logistic<T> f(px[e]);
      T q = target[e], w = a * f.power(g);
      if (out) out[e] = q < T(0) ? w * (g * (T(1) - f.p) * f.softplus + f.p) : q * (f.p - q);
      // BCE(x, q) = q log(1 + e^-x) + (1 - q) log(1 + e^x)
      T labelled = q * ((T(1) - q) * f.softplus - q * f.log_p);
      target[e] = q < T(0) ? w * f.softplus : labelled;  // becomes the loss
    }
    const T* loss = target;
    partial[i] = static_cast<double>(lane_sum<T>(piece.length, [loss](int64_t e) { return loss[e]; }));
  }
};

template <class T>
struct CrossEntropyRows {
  const T* x;
  const int64_t* labels;
  const T* weights;  // or null
  double* partial;
  T* grad;  // or null
  int64_t rows, classes;
  T smoothing, weight_sum;
  SACCADE_HD void operator()(int64_t i) const {
    int64_t end = (i + 1) * kLossRows < rows ? (i + 1) * kLossRows : rows;
    double total = 0;
    for (int64_t r = i * kLossRows; r < end; ++r) total += static_cast<double>(row(r));
    partial[i] = total;
  }
  SACCADE_HD T row(int64_t r) const {
    const T* px = x + r * classes;
    const T* w = weights;
    int64_t label = labels[r];
    T top = lane_max<T>(classes, [=](int64_t k) { return px[k]; });
    T sum = lane_sum<T>(classes, [=](int64_t k) { return math::exp(px[k] - top); });
    T log_sum = top + math::log(sum);
    T hard = (T(1) - smoothing) * (w ? w[label] : T(1)), soft = smoothing / T(classes);
    T loss = hard * (log_sum - px[label]);
    if (soft > T(0))
      loss += soft * lane_sum<T>(classes, [=](int64_t k) { return (w ? w[k] : T(1)) * (log_sum - px[k]); });
    if (grad) {
      T* out = grad + r * classes;
      T mass = (hard + soft * weight_sum) / sum;
      for (int64_t k = 0; k < classes; ++k) out[k] = mass * math::exp(px[k] - top) - soft * (w ? w[k] : T(1));
      out[label] -= hard;
    }
    return loss;
  }
};

// d max(a, b) / da and d min(a, b) / da, one half at a tie
template <class T>
SACCADE_HD T max_slope(T a, T b) {
  return a > b ? T(1) : a == b ? T(0.5) : T(0);
}

template <class T>
struct GiouPairs {
  const T* boxes;
  const T* targets;
  double* partial;
  T* grad;  // or null
  int64_t pairs;
  SACCADE_HD void operator()(int64_t i) const {
    int64_t end = (i + 1) * kLossPairs < pairs ? (i + 1) * kLossPairs : pairs;
    double total = 0;
    for (int64_t p = i * kLossPairs; p < end; ++p) total += static_cast<double>(pair(p));
    partial[i] = total;
  }
  // The names are those of docs/giou_gradient.md.
  SACCADE_HD T pair(int64_t p) const {
    constexpr T kSmallest = T(1e-16);  // areas below it count as this much
    T low[2], high[2], goal_low[2], goal_high[2], inner[2], outer[2];
    const T *b = boxes + 4 * p, *t = targets + 4 * p;
    for (int a = 0; a < 2; ++a) {
      low[a] = b[a] - T(0.5) * b[a + 2], high[a] = b[a] + T(0.5) * b[a + 2];
      goal_low[a] = t[a] - T(0.5) * t[a + 2], goal_high[a] = t[a] + T(0.5) * t[a + 2];
      inner[a] = math::max(math::min(high[a], goal_high[a]) - math::max(low[a], goal_low[a]), T(0));
      outer[a] = math::max(high[a], goal_high[a]) - math::min(low[a], goal_low[a]);
    }
    T I = inner[0] * inner[1], A = b[2] * b[3];
    T U = A + t[2] * t[3] - I, C = outer[0] * outer[1];
    bool small_union = U < kSmallest, small_hull = C < kSmallest;
    if (small_union) U = kSmallest;
    if (small_hull) C = kSmallest;
    if (grad) {
      T dU = small_union ? T(0) : I / (U * U) - T(1) / C;
      T dI = T(-1) / U - dU, dC = small_hull ? T(0) : U / (C * C);
      for (int a = 0; a < 2; ++a) {
        int o = 1 - a;  // the other axis
        T di = inner[a] > T(0) ? dI * inner[o] : T(0), dc = dC * outer[o];
        T d_high = di * max_slope(goal_high[a], high[a]) + dc * max_slope(high[a], goal_high[a]);
        T d_low = -di * max_slope(low[a], goal_low[a]) - dc * max_slope(goal_low[a], low[a]);
        grad[4 * p + a] = d_low + d_high;
        grad[4 * p + a + 2] = T(0.5) * (d_high - d_low) + dU * b[o + 2];
      }
    }
    return T(2) - I / U - U / C;
  }
};

template <class T>
struct L1Piece {
  const T* x;
  const T* targets;
  double* partial;
  T* grad;  // or null
  int64_t n;
  SACCADE_HD void operator()(int64_t i) const {
    int64_t begin = i * kLossElements, length = n - begin < kLossElements ? n - begin : kLossElements;
    const T *px = x + begin, *pt = targets + begin;
    partial[i] = static_cast<double>(lane_sum<T>(length, [=](int64_t e) {
      T d = px[e] - pt[e];
      return d < T(0) ? -d : d;
    }));
    if (!grad) return;
    for (int64_t e = 0; e < length; ++e) {
      T d = px[e] - pt[e];
      // d - d keeps a NaN a NaN
      grad[begin + e] = d > T(0) ? T(1) : d < T(0) ? T(-1) : d - d;
    }
  }
};

// Runs f<float> or f<double>.
template <class F>
void dispatch_loss(const Tensor& x, const char* tag, F&& f) {
  if (x.dtype() == DType::kF64) {
    f.template operator()<double>();
  } else {
    SACCADE_CHECK(x.dtype() == DType::kF32, "[{}] needs f32 or f64, got {}", tag, name_of(x.dtype()));
    f.template operator()<float>();
  }
}

template <class T>
T* data_or_null(Tensor& t) {
  return t.defined() ? t.data<T>() : nullptr;
}

constexpr int64_t kLogisticCost = 40;  // element operations of one Logistic

void focal_loss_generic(const Tensor& x, const Tensor& labels, double alpha, double gamma, Tensor& partial,
                        Tensor& grad) {
  dispatch_loss(x, "focal_loss", [&]<class T>() {
    FocalPiece<T> f{x.data<T>(),
                    labels.data<int64_t>(),
                    partial.data<double>(),
                    data_or_null<T>(grad),
                    x.numel(),
                    x.dim(1),
                    T(alpha),
                    T(gamma)};
    for_each(partial.numel(), f, kLossElements * kLogisticCost);
  });
}

void varifocal_loss_generic(const Tensor& x, const Tensor& labels, const Tensor& quality, double alpha,
                            double gamma, Tensor& partial, Tensor& grad) {
  dispatch_loss(x, "varifocal_loss", [&]<class T>() {
    VarifocalPiece<T> f{x.data<T>(),
                        labels.data<int64_t>(),
                        quality.data<T>(),
                        partial.data<double>(),
                        data_or_null<T>(grad),
                        x.numel(),
                        x.dim(1),
                        T(alpha),
                        T(gamma)};
    for_each(partial.numel(), f, kLossElements * kLogisticCost);
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
  dispatch_loss(x, "cross_entropy_loss", [&]<class T>() {
    const T* w = weights.defined() ? weights.data<T>() : nullptr;
    CrossEntropyRows<T> f{x.data<T>(),
                          labels.data<int64_t>(),
                          w,
                          partial.data<double>(),
                          data_or_null<T>(grad),
                          x.dim(0),
                          x.dim(1),
                          T(smoothing),
                          T(x.dim(1))};
    if (w && smoothing > 0) {
      Tensor total = Tensor::empty({}, x.dtype(), x.device());
      for_each(1, SumOnce<T>{w, total.data<T>(), x.dim(1)});
      f.weight_sum = T(total.item());
    }
    for_each(partial.numel(), f, kLossRows * x.dim(1) * kLogisticCost);
  });
}

void giou_loss_generic(const Tensor& boxes, const Tensor& targets, Tensor& partial, Tensor& grad) {
  dispatch_loss(boxes, "giou_loss", [&]<class T>() {
    GiouPairs<T> f{boxes.data<T>(), targets.data<T>(), partial.data<double>(), data_or_null<T>(grad),
                   boxes.dim(0)};
    for_each(partial.numel(), f, kLossPairs * 60);
  });
}

void l1_loss_generic(const Tensor& boxes, const Tensor& targets, Tensor& partial, Tensor& grad) {
  dispatch_loss(boxes, "l1_loss", [&]<class T>() {
    L1Piece<T> f{boxes.data<T>(), targets.data<T>(), partial.data<double>(), data_or_null<T>(grad),
                 boxes.numel()};
    for_each(partial.numel(), f, kLossElements * 4);
  });
}

SACCADE_REGISTER_KERNEL(focal_loss, &focal_loss_generic);
SACCADE_REGISTER_KERNEL(varifocal_loss, &varifocal_loss_generic);
SACCADE_REGISTER_KERNEL(cross_entropy_loss, &cross_entropy_loss_generic);
SACCADE_REGISTER_KERNEL(giou_loss, &giou_loss_generic);
SACCADE_REGISTER_KERNEL(l1_loss, &l1_loss_generic);

}  // namespace
}  // namespace saccade::kernels
