// map_strided(loop, f, y, x...) computes y[i] = f(x[i]...) with strides and broadcasting: tensor 0 of the
// loop is y, the others are the x in order. y may be one of the x; f is as in map_each
// (core/runtime/launch.h).
#pragma once

#include "core/kernels/common/strided.h"

#if defined(__CUDACC__) || defined(SACCADE_EMULATOR)
#include "core/kernels/common/map_strided_cuda.h"
#else

#include <algorithm>
#include <type_traits>
#include <utility>

#include "core/runtime/parallel.h"

namespace saccade::kernels {
inline namespace SACCADE_SIDE {

// Calls f(offsets, rows, n) on the CPU's threads, for blocks of `rows` neighbours along the last axis but
// one: n elements of each tensor t per row, the first one at offsets[t]. Long rows are split, so that every
// thread has work.
template <int Count, class F>
void for_blocks(const StridedLoop<Count>& loop, const F& f) {
  constexpr int64_t kPart = 16384;
  const int64_t inner = loop.inner(), parts = std::max<int64_t>(1, inner / kPart);
  const int above = loop.rank - 2;
  auto run = [&](int64_t begin, int64_t end) {
    int64_t offsets[Count] = {}, index[Shape::kMaxRank], part = begin % parts, rest = begin / parts;
    for (int a = above; a >= 0; --a) {
      index[a] = rest % loop.sizes[a];
      rest /= loop.sizes[a];
      for (int t = 0; t < Count; ++t) offsets[t] += index[a] * loop.strides[t][a];
    }
    for (int64_t i = begin, rows = 1; i < end; i += rows) {
      if (parts > 1) {
        int64_t first = inner * part / parts, last = inner * (part + 1) / parts, of_part[Count];
        for (int t = 0; t < Count; ++t) of_part[t] = offsets[t] + first * loop.step(t);
        f(of_part, 1, last - first);
        if (++part < parts) continue;
        part = 0;
      } else {
        if (above >= 0) rows = std::min(end - i, loop.sizes[above] - index[above]);
        f(offsets, rows, inner);
      }
      int64_t steps = rows;
      for (int a = above; a >= 0; --a, steps = 1) {
        for (int t = 0; t < Count; ++t) offsets[t] += steps * loop.strides[t][a];
        index[a] += steps;
        if (index[a] < loop.sizes[a]) break;
        for (int t = 0; t < Count; ++t) offsets[t] -= loop.strides[t][a] * loop.sizes[a];
        index[a] = 0;
      }
    }
  };
  parallel_for(loop.rows() * parts, std::max<int64_t>(1, kPart * parts / inner), run);
}

// A row of an x: contiguous (kStep 1), one repeated element (0), or elements with any stride (kAnyStep).
template <class X>
constexpr int kAnyStep = -1;
template <int kStep, class X>
struct Row {
  const X* p;
  int64_t step;
  Row(const X* first, int64_t any_step) : p(first), step(any_step) {}
  X operator[](int64_t k) const { return p[kStep < 0 ? k * step : k]; }
};
template <class X>
struct Row<0, X> {
  X value;
  Row(const X* p, int64_t) : value(*p) {}
  X operator[](int64_t) const { return value; }
};

// Calls f<steps of the x...>(number) for each combination of steps that has its own loop; y is dense in all.
template <class T, size_t kInputs, class F>
void for_dense_cases(const F& f) {
  if constexpr (kInputs == 0) {
    f.template operator()<>(0);
  } else if constexpr (kInputs == 1) {
    f.template operator()<1>(0);
    f.template operator()<0>(1);
  } else if constexpr (kInputs == 2) {
    f.template operator()<1, 1>(0);
    if constexpr (std::is_same_v<T, double>) return;  // only used in tests: not worth more code
    f.template operator()<1, 0>(1);
    f.template operator()<0, 1>(2);
  } else {
    f.template operator()<1, 1, 1>(0);
    if constexpr (std::is_same_v<T, double>) return;
    f.template operator()<1, 1, 0>(1);
  }
}

template <class F, class T, class... X, size_t... I>
void map_rows(const StridedLoop<1 + sizeof...(X)>& loop, const F& function, T* y, std::index_sequence<I...>,
              const X*... x) {
  int chosen = -1;
  for_dense_cases<T, sizeof...(X)>([&]<int... kSteps>(int number) {
    if (loop.step(0) == 1 && (... && (loop.step(I + 1) == kSteps))) chosen = number;
  });
  for_blocks(loop, [=, &loop](const int64_t* offsets, int64_t rows, int64_t n) {
    // Calls body(row of y, row of x...) for each row.
    auto with_rows = [&]<int... kSteps>(const auto& body) {
      for (int64_t r = 0; r < rows; ++r)
        body(y + offsets[0] + r * loop.row_step(0),
             Row<kSteps, X>(x + offsets[I + 1] + r * loop.row_step(I + 1), loop.step(I + 1))...);
    };
    const F f = function;
    for_dense_cases<T, sizeof...(X)>([&]<int... kSteps>(int number) {
      if (number != chosen) return;
      with_rows.template operator()<kSteps...>([n, f](T* to, auto... in) {
#pragma GCC ivdep
        for (int64_t k = 0; k < n; ++k) to[k] = f(in[k]...);
      });
    });
    if (chosen >= 0) return;
    with_rows.template operator()<kAnyStep<X>...>([n, f, step = loop.step(0)](T* to, auto... in) {
      for (int64_t k = 0; k < n; ++k) to[k * step] = f(in[k]...);
    });
  });
}

template <class F, class T, class... X>
void map_strided(const StridedLoop<1 + sizeof...(X)>& loop, const F& f, T* y, const X*... x) {
  map_rows(loop, f, y, std::index_sequence_for<X...>(), x...);
}

}  // namespace SACCADE_SIDE
}  // namespace saccade::kernels

#endif
