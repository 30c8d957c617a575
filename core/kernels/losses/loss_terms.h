// The terms of the losses with their derivatives, shared by the kernels' implementations.
#pragma once

#include "core/kernels/losses/losses.h"
#include "core/tensor/hd.h"
#include "core/tensor/math.h"

namespace saccade::kernels {
inline namespace SACCADE_SIDE {

// log(1 + e^z), sigmoid(z) and its logarithm, accurate at both ends.
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

template <class T>
struct LossTerm {
  T loss, slope;
};

// The binary cross entropy q log(1 + e^-x) + (1 - q) log(1 + e^x) and its slope in x.
template <class T>
SACCADE_HD LossTerm<T> soft_term(const Logistic<T>& f, T q) {
  return {(T(1) - q) * f.softplus - q * f.log_p, f.p - q};
}

// The term of a class that is not the label, weighted by p^gamma, which is constant for the slope.
template <class T>
SACCADE_HD LossTerm<T> background_term(const Logistic<T>& f, T weight, T gamma) {
  T w = weight * f.power(gamma);
  return {w * f.softplus, w * f.p};
}

// The term of a ClassDecision for the loops over the elements of x [rows, K]: its second argument is
// at_label(row) for the class of the row's label and kElsewhere for other classes.
template <ClassDecision kDecision, class T>
struct DecisionTerm {
  static constexpr bool kIsFocal = kDecision == ClassDecision::kFocal;
  static constexpr T kElsewhere = kIsFocal ? T(1) : T(-1);
  const T* quality;
  T alpha, gamma;
  SACCADE_HD T at_label(int64_t row) const {
    if constexpr (kIsFocal)
      return T(-1);
    else
      return quality[row];
  }
  // q: the quality for the label's class; for the focal loss, the sign of z
  SACCADE_HD LossTerm<T> operator()(T x, T q) const {
    Logistic<T> f(kIsFocal ? q * x : x);
    if constexpr (kIsFocal) {
      T w = (q < T(0) ? alpha : T(1) - alpha) * f.power(gamma);
      return {w * f.softplus, q * w * (gamma * (T(1) - f.p) * f.softplus + f.p)};
    } else if constexpr (kDecision == ClassDecision::kVarifocal) {
      if (q < T(0)) return background_term(f, alpha, gamma);
      LossTerm<T> t = soft_term(f, q);
      return {q * t.loss, q * t.slope};
    } else if constexpr (kDecision == ClassDecision::kMatchability) {
      return q < T(0) ? background_term(f, T(1), gamma)
                      : soft_term(f, q > T(0) ? math::exp(gamma * math::log(q)) : q);
    } else {
      if (q < T(0)) {  // here the weight has a gradient too
        T w = f.power(gamma);
        return {w * f.softplus, w * (gamma * (T(1) - f.p) * f.softplus + f.p)};
      }
      constexpr T kLeast = T(0.01);
      T target = q > T(0) ? math::exp(alpha * f.log_p + (T(1) - alpha) * math::log(q)) : T(0);
      return soft_term(f, math::max(target, kLeast));
    }
  }
};

// Calls f(term) with the term that the params select.
template <class T, class F>
void with_decision_term(const DecisionParams& p, const Tensor& quality, const F& f) {
  auto run = [&]<ClassDecision kDecision>() {
    f(DecisionTerm<kDecision, T>{data_or_null<T>(quality), static_cast<T>(p.alpha), static_cast<T>(p.gamma)});
  };
  switch (p.decision) {
    case ClassDecision::kFocal:
      return run.template operator()<ClassDecision::kFocal>();
    case ClassDecision::kVarifocal:
      return run.template operator()<ClassDecision::kVarifocal>();
    case ClassDecision::kMatchability:
      return run.template operator()<ClassDecision::kMatchability>();
    case ClassDecision::kIouAware:
      return run.template operator()<ClassDecision::kIouAware>();
  }
}

// d max(a, b) / da and d min(a, b) / da, one half in a tie
template <class T>
SACCADE_HD T max_slope(T a, T b) {
  return a > b ? T(1) : a == b ? T(0.5) : T(0);
}

// 1 - GIoU of the boxes b and t, and its gradient with respect to b unless null. The names are those of
// docs/giou_gradient.md.
template <class T>
SACCADE_HD T giou_pair(const T* b, const T* t, T* grad) {
  constexpr T kSmallest = T(1e-16);  // smaller areas count as this
  T low[2], high[2], goal_low[2], goal_high[2], inner[2], outer[2];
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
      grad[a] = d_low + d_high;
      grad[a + 2] = T(0.5) * (d_high - d_low) + dU * b[o + 2];
    }
  }
  return T(2) - I / U - U / C;
}

// |x - t| and its slope; d - d keeps a NaN a NaN
template <class T>
SACCADE_HD LossTerm<T> l1_term(T x, T t) {
  T d = x - t;
  return {d < T(0) ? -d : d, d > T(0) ? T(1) : d < T(0) ? T(-1) : d - d};
}

}  // namespace SACCADE_SIDE
}  // namespace saccade::kernels
