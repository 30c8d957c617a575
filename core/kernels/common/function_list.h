// A list of functor types from which a number chooses at run time: the switch is outside every loop.
#pragma once

namespace saccade::kernels {

template <class... F>
struct FunctionList {
  static constexpr int kCount = sizeof...(F);
  // visit.operator()<F>() of the F at `index`
  template <class Visit>
  static void visit(int index, Visit&& visit) {
    int i = 0;
    ((i++ == index ? visit.template operator()<F>() : void()), ...);
  }
};

}  // namespace saccade::kernels
