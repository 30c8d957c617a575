#include "core/kernels/weighted_sum/weighted_sum.h"

#include "autograd/function.h"
#include "autograd/ops.h"

namespace saccade {
namespace {

struct WeightedSum {
  static constexpr const char* kName = "weighted_sum";
  static constexpr std::array kCasts{Cast::kF32};
  static constexpr auto macs = no_macs;
  std::vector<WeightedTerm> terms;
  Tensor* parts;                           // only while forward runs
  std::vector<int64_t> firsts{}, sizes{};  // of each vector within all elements

  Tensor forward(Context&, const Tensors& in) {
    int64_t count = 0;
    for (const Tensor& t : in) {
      firsts.push_back(count);
      sizes.push_back(t.numel());
      count += t.numel();
    }
    SACCADE_CHECK(count == std::ssize(terms), "[weighted_sum] got {} numbers for {} terms", count,
                  terms.size());
    std::vector<Tensor> numbers;
    std::vector<double> factors;
    for (const WeightedTerm& t : terms) {
      numbers.push_back(in[t.vector].select(0, t.element));
      factors.push_back(t.factor);
    }
    *parts = Tensor::empty({count}, in[0].dtype(), in[0].device());
    Tensor total = Tensor::empty({}, in[0].dtype(), in[0].device());
    kernels::weighted_sum_forward(numbers, factors, *parts, total);
    parts = nullptr;
    return total;
  }
  Gradients backward(const Context& ctx, const Tensor& dy) const {
    std::vector<double> factors(terms.size());
    for (const WeightedTerm& t : terms) factors[static_cast<size_t>(firsts[t.vector] + t.element)] = t.factor;
    Tensor all = Tensor::empty({std::ssize(terms)}, dy.dtype(), dy.device());
    kernels::weighted_sum_backward(dy, factors, all);
    Gradients g(firsts.size());
    for (size_t i = 0; i < g.size(); ++i)
      if (ctx.needs(i)) g[i] = all.slice(0, firsts[i], firsts[i] + sizes[i]);
    return g;
  }
};

}  // namespace

Var weighted_sum(const Vars& vectors, const std::vector<WeightedTerm>& terms, Tensor& parts) {
  SACCADE_CHECK(!vectors.empty(), "[weighted_sum] no vectors, expected at least one");
  for (const Var& v : vectors)
    SACCADE_CHECK(v.rank() == 1, "[weighted_sum] vectors, got shape {}, expected [K]", v.shape());
  for (const WeightedTerm& t : terms)
    SACCADE_CHECK(t.vector < vectors.size() && t.element >= 0 && t.element < vectors[t.vector].dim(0),
                  "[weighted_sum] a term uses number {} of vector {}, which does not exist", t.element,
                  t.vector);
  return run_op(WeightedSum{terms, &parts}, vectors);
}

}  // namespace saccade
