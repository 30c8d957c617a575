// Op table rows: views, concat, masked_fill.
#include "autograd/ops.h"
#include "tests/autograd/op_table.h"

namespace saccade::optable {
namespace {

constexpr Rounding kViews{"values only move; bf16 gradients of expand are rounded sums"};
constexpr Rounding kShortSums{"gradients are short sums; bf16 rounds them once"};
using Index = std::vector<int64_t>;

const Register kReshape(Row{"reshape",
                            Bf16::kExact,
                            kViews,
                            [](Rng& rng) {
                              auto sample = [&](const char* label, Shape from, Shape to, Shape result) {
                                return Sample{label,
                                              {uniform(rng, from)},
                                              [to](const Vars& v) { return reshape(v[0], to); },
                                              [result](const Tensors& in) {
                                                const double* p = in[0].data<double>();
                                                return build(result, [&](const Index&) { return *p++; });
                                              }};
                              };
                              return std::vector<Sample>{sample("split", {4, 6}, {2, 2, 3, -1}, {2, 2, 3, 2}),
                                                         sample("merge", {2, 3, 4}, {6, 4}, {6, 4}),
                                                         sample("to scalar", {1, 1}, {}, {}),
                                                         sample("empty", {0, 6}, {0, 2, 3}, {0, 2, 3})};
                            },
                            {{"count", [] { reshape(Var(Tensor::zeros({4})), {3}); },
                              "\\[reshape\\] \\[3\\] does not fit 4 elements"}}});

const Register kPermute(Row{"permute",
                            Bf16::kExact,
                            kViews,
                            [](Rng& rng) {
                              auto sample = [&](const char* label, Shape from, std::vector<int> axes) {
                                return Sample{
                                    label,
                                    {uniform(rng, from)},
                                    [axes](const Vars& v) { return permute(v[0], axes); },
                                    [axes](const Tensors& in) {
                                      Shape to = in[0].shape();
                                      std::vector<size_t> positive;
                                      for (int a : axes)
                                        positive.push_back(static_cast<size_t>(in[0].shape().axis(a)));
                                      for (size_t i = 0; i < axes.size(); ++i)
                                        to[static_cast<int>(i)] = in[0].dim(axes[i]);
                                      return build(to, [&](const Index& i) {
                                        Index j(i.size());
                                        for (size_t k = 0; k < i.size(); ++k) j[positive[k]] = i[k];
                                        return at(in[0], j);
                                      });
                                    }};
                              };
                              return std::vector<Sample>{sample("heads", {2, 5, 3, 4}, {0, 2, 1, 3}),
                                                         sample("negative", {2, 3, 4}, {-1, 0, 1}),
                                                         sample("matrix", {37, 45}, {1, 0}),
                                                         sample("packs", {2, 5, 3, 8}, {0, 2, 1, 3}),
                                                         sample("matrices", {2, 3, 9, 40}, {0, 3, 1, 2}),
                                                         sample("batch 1", {1, 3, 2}, {2, 1, 0}),
                                                         sample("empty", {3, 0, 2}, {2, 0, 1})};
                            },
                            {{"twice",
                              [] {
                                permute(Var(Tensor::zeros({2, 3})), std::vector<int>{1, 1});
                              },
                              "\\[permute\\] axis 1 twice"},
                             {"count",
                              [] {
                                permute(Var(Tensor::zeros({2, 3})), std::vector<int>{0});
                              },
                              "\\[permute\\] 1 axes"}}});

const Register kSlice(Row{
    "slice",
    Bf16::kExact,
    kViews,
    [](Rng& rng) {
      auto sample = [&](const char* label, Shape from, int axis, int64_t begin, int64_t end) {
        return Sample{label,
                      {uniform(rng, from)},
                      [=](const Vars& v) { return slice(v[0], axis, begin, end); },
                      [=](const Tensors& in) {
                        Shape to = in[0].shape();
                        to[axis] = end - begin;
                        auto a = static_cast<size_t>(to.axis(axis));
                        return build(to, [&](Index i) {
                          i[a] += begin;
                          return at(in[0], i);
                        });
                      }};
      };
      return std::vector<Sample>{sample("middle", {3, 7, 4}, 1, 2, 5), sample("last axis", {3, 8}, -1, 5, 8),
                                 sample("all", {3, 4}, 0, 0, 3),       sample("nothing", {3, 4}, 1, 2, 2),
                                 sample("batch 1", {1, 6}, 1, 0, 1),   sample("empty", {0, 6}, 1, 1, 3)};
    },
    {{"range", [] { slice(Var(Tensor::zeros({4})), 0, 2, 5); },
      "\\[slice\\] \\[2, 5\\) of axis 0 of \\[4\\]"}}});

const Register kExpand(Row{
    "expand",
    Bf16::kExact,
    kShortSums,
    [](Rng& rng) {
      auto sample = [&](const char* label, Shape from, Shape to) {
        return Sample{
            label,
            {uniform(rng, from)},
            [to](const Vars& v) { return expand(v[0], to); },
            [to](const Tensors& in) { return build(to, [&](const Index& i) { return at(in[0], i); }); }};
      };
      return std::vector<Sample>{sample("new axis", {5, 3}, {4, 5, 3}),
                                 sample("inner", {4, 1}, {4, 6}),
                                 sample("several", {3, 1, 2, 1}, {2, 3, 4, 2, 3}),
                                 sample("scalar", {}, {2, 3}),
                                 sample("same", {2, 3}, {2, 3}),
                                 sample("to nothing", {1, 3}, {0, 3})};
    },
    {{"size", [] { expand(Var(Tensor::zeros({2})), {3}); }, "\\[expand\\] \\[2\\] to \\[3\\]"}}});

const Register kConcat(Row{"concat",
                           Bf16::kExact,
                           kViews,
                           [](Rng& rng) {
                             auto sample = [&](const char* label, std::vector<Shape> shapes, int axis) {
                               Sample s{label,
                                        {},
                                        [axis](const Vars& v) { return concat(v, axis); },
                                        [axis](const Tensors& in) {
                                          Shape to = in[0].shape();
                                          int a = to.axis(axis);
                                          for (size_t k = 1; k < in.size(); ++k) to[a] += in[k].dim(a);
                                          return build(to, [&](Index i) {
                                            size_t k = 0;
                                            int64_t& j = i[static_cast<size_t>(a)];
                                            while (j >= in[k].dim(a)) j -= in[k++].dim(a);
                                            return at(in[k], i);
                                          });
                                        }};
                               for (const Shape& shape : shapes) s.inputs.push_back(uniform(rng, shape));
                               return s;
                             };
                             return std::vector<Sample>{
                                 sample("levels", {{2, 6, 3}, {2, 4, 3}, {2, 1, 3}}, 1),
                                 sample("last axis", {{3, 2}, {3, 5}}, -1), sample("one", {{2, 3}}, 0),
                                 sample("with an empty part", {{2, 0}, {2, 3}}, 1),
                                 sample("batch 1", {{1, 2}, {1, 3}}, 1)};
                           },
                           {{"none", [] { concat({}, 0); }, "\\[concat\\] no inputs"},
                            {"shapes",
                             [] {
                               concat({Var(Tensor::zeros({2, 3})), Var(Tensor::zeros({2, 4}))}, 0);
                             },
                             "\\[concat\\] shapes differ outside axis 0, got \\[2, 3\\] and \\[2, 4\\]"},
                            {"ranks",
                             [] {
                               concat({Var(Tensor::zeros({2, 3})), Var(Tensor::zeros({2}))}, 0);
                             },
                             "\\[concat\\] ranks differ"}}});

const Register kMaskedFill(Row{
    "masked_fill",
    Bf16::kExact,
    kViews,
    [](Rng& rng) {
      auto sample = [&](const char* label, Shape shape, Shape mask_shape) {
        Tensor mask = Tensor::empty(mask_shape, DType::kBool);
        for (int64_t i = 0; i < mask.numel(); ++i) mask.data<bool>()[i] = rng.uniform() < 0.4;
        return Sample{label,
                      {uniform(rng, shape)},
                      [mask](const Vars& v) { return masked_fill(v[0], mask, 0.5); },
                      [mask](const Tensors& in) {
                        Tensor m = mask.to(DType::kF64);
                        return build(in[0].shape(),
                                     [&](const Index& i) { return at(m, i) != 0 ? 0.5 : at(in[0], i); });
                      }};
      };
      return std::vector<Sample>{
          sample("same shape", {4, 9}, {4, 9}),       sample("tokens", {2, 5, 3}, {2, 5, 1}),
          sample("keys", {2, 3, 4, 6}, {2, 1, 1, 6}), sample("row", {3, 4}, {4}),
          sample("batch 1", {1, 4}, {1, 1}),          sample("empty", {0, 4}, {0, 1})};
    },
    {{"dtype", [] { masked_fill(Var(Tensor::zeros({2})), Tensor::zeros({2}), 0); },
      "mask dtype, got f32, expected bool"},
     {"shape",
      [] {
        masked_fill(Var(Tensor::zeros({2})), Tensor::zeros({3, 2}, DType::kBool), 0);
      },
      "\\[masked_fill\\] mask shape, got \\[3, 2\\]"}}});

}  // namespace
}  // namespace saccade::optable
