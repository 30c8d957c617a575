// A list of functor types, one of which is chosen by number at run time, outside every loop.
#pragma once

namespace saccade::kernels {

template <class... F>
struct FunctionList {
  static constexpr int kCount = sizeof...(F);
  // Calls visit.operator()<F>() for the F at `index`.
  template <class Visit>
  static void visit(int index, Visit&& visit) {
    int i = 0;
    ((i++ == index ? visit.template operator()<F>() : void()), ...);
  }
};

}  // namespace saccade::kernels
