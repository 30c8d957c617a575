// Op table rows: rows picked by index, and dropout.
#include "autograd/ops.h"
#include "tests/autograd/op_table.h"

namespace saccade::optable {
namespace {

using Index = std::vector<int64_t>;
constexpr Rounding kMoves{"values only move; gradients of repeated rows are short f32 sums"};

Tensor indices_of(const Shape& shape, std::vector<int64_t> values) { return Tensor::from(shape, values); }

const Register kIndexSelect(Row{"index_select",
                                Bf16::kExact,
                                kMoves,
                                [](Rng& rng) {
                                  auto sample = [&](const char* label, Shape shape, Tensor indices) {
                                    return Sample{label,
                                                  {uniform(rng, shape)},
                                                  [=](const Vars& v) { return index_select(v[0], indices); },
                                                  [=](const Tensors& in) {
                                                    Shape to = in[0].shape();
                                                    to[0] = indices.numel();
                                                    return build(to, [&](Index i) {
                                                      i[0] = indices.data<int64_t>()[i[0]];
                                                      return at(in[0], i);
                                                    });
                                                  }};
                                  };
                                  return std::vector<Sample>{
                                      sample("repeats", {4, 3, 2}, indices_of({6}, {3, 0, 3, 1, 3, 0})),
                                      sample("vector", {5}, indices_of({2}, {4, 2})),
                                      sample("wide", {3, 130}, random_indices(rng, {5}, 3)),
                                      sample("packs, many", {3, 136}, random_indices(rng, {70}, 3)),
                                      sample("nothing", {3, 4}, indices_of({0}, {})),
                                      sample("batch 1", {1, 4}, indices_of({2}, {0, 0}))};
                                },
                                {{"range",
                                  [] {
                                    index_select(Var(Tensor::zeros({3, 2})), indices_of({2}, {1, 3}));
                                  },
                                  "\\[index_select\\] index 3 at position 1, expected 0 <= index < 3"},
                                 {"negative",
                                  [] {
                                    index_select(Var(Tensor::zeros({3, 2})), indices_of({1}, {-1}));
                                  },
                                  "index -1 at position 0"},
                                 {"dtype", [] { index_select(Var(Tensor::zeros({3})), Tensor::zeros({1})); },
                                  "indices of dtype f32, expected i64"}}});

const Register kGatherRows(Row{
    "gather_rows",
    Bf16::kExact,
    kMoves,
    [](Rng& rng) {
      auto sample = [&](const char* label, Shape shape, int64_t picks) {
        Tensor indices = random_indices(rng, {shape[0], picks}, shape[1]);
        return Sample{label,
                      {uniform(rng, shape)},
                      [=](const Vars& v) { return gather_rows(v[0], indices); },
                      [=](const Tensors& in) {
                        return build({in[0].dim(0), picks, in[0].dim(2)}, [&](Index i) {
                          i[1] = indices.data<int64_t>()[i[0] * picks + i[1]];
                          return at(in[0], i);
                        });
                      }};
      };
      return std::vector<Sample>{sample("repeats", {2, 4, 3}, 7), sample("wide", {2, 3, 70}, 2),
                                 sample("packs", {2, 3, 264}, 4), sample("batch 1", {1, 5, 2}, 3),
                                 sample("nothing", {2, 3, 4}, 0), sample("no samples", {0, 3, 4}, 2)};
    },
    {{"shapes",
      [] {
        gather_rows(Var(Tensor::zeros({2, 3, 4})), indices_of({1, 1}, {0}));
      },
      "\\[gather_rows\\] x \\[2, 3, 4\\] and indices \\[1, 1\\]"},
     {"range",
      [] {
        gather_rows(Var(Tensor::zeros({1, 3, 4})), indices_of({1, 1}, {5}));
      },
      "\\[gather_rows\\] index 5 at position 0, expected 0 <= index < 3"}}});

const Register kEmbedding(Row{
    "embedding",
    Bf16::kExact,
    kMoves,
    [](Rng& rng) {
      auto sample = [&](const char* label, Shape weight, Shape shape) {
        Tensor indices = random_indices(rng, shape, weight[0]);
        return Sample{label,
                      {uniform(rng, weight)},
                      [=](const Vars& v) { return embedding(v[0], indices); },
                      [=](const Tensors& in) {
                        Shape to = shape;
                        to.push_back(in[0].dim(1));
                        return build(to, [&](const Index& i) {
                          int64_t flat = 0;
                          for (int a = 0; a < shape.rank(); ++a)
                            flat = flat * shape[a] + i[static_cast<size_t>(a)];
                          return at(in[0], {indices.data<int64_t>()[flat], i.back()});
                        });
                      }};
      };
      return std::vector<Sample>{sample("matrix", {5, 3}, {2, 4}), sample("vector", {4, 66}, {7}),
                                 sample("scalar", {4, 2}, {}), sample("batch 1", {3, 2}, {1, 2}),
                                 sample("empty", {3, 2}, {0, 2})};
    },
    {{"range",
      [] {
        embedding(Var(Tensor::zeros({3, 4})), indices_of({1}, {3}));
      },
      "\\[embedding\\] index 3 at position 0, expected 0 <= index < 3"}}});

// The documented mask: Philox(key, call, i / 4).x[i % 4].
bool dropped(int64_t i, double p, uint64_t key, uint64_t call) {
  uint32_t bits = Philox::generate(key, call, static_cast<uint64_t>(i / 4)).x[i % 4];
  return uniform_from_bits(bits) < static_cast<float>(p);
}

Row drop_row(const char* name, bool path) {
  auto samples = [path](Rng& rng) {
    auto sample = [&](const char* label, Shape shape, double p, bool training) {
      return Sample{label,
                    {uniform(rng, shape)},
                    [=](const Vars& v) {
                      ExecutionScope scope;
                      execution().rng_key = 0x1234567890ABCDEFull;
                      execution().rng_calls = 7;
                      return path ? drop_path(v[0], p, training) : dropout(v[0], p, training);
                    },
                    [=](const Tensors& in) {
                      int64_t flat = 0;
                      return build(in[0].shape(), [&](const Index& i) {
                        bool zero =
                            training && p > 0 && dropped(path ? i[0] : flat, p, 0x1234567890ABCDEFull, 7);
                        ++flat;
                        return zero ? 0.0 : at(in[0], i) * (training ? 1 / (1 - p) : 1);
                      });
                    }};
    };
    return std::vector<Sample>{sample("tenth", {6, 43}, 0.1, true),      sample("half", {9, 3, 2}, 0.5, true),
                               sample("evaluation", {3, 4}, 0.5, false), sample("p = 0", {3, 4}, 0, true),
                               sample("batch 1", {1, 5}, 0.3, true),     sample("empty", {0, 3}, 0.3, true)};
  };
  return {name,
          Bf16::kInputs,
          {"one product; bf16 rounds once"},
          samples,
          {{"probability", [path] { (path ? drop_path : dropout)(Var(Tensor::zeros({2})), 1.5, true); },
            "\\[" + std::string(name) + "\\] probability 1.5, expected 0 <= p <= 1"}}};
}

const Register kDropout(drop_row("dropout", false));
const Register kDropPath(drop_row("drop_path", true));

}  // namespace
}  // namespace saccade::optable
