// Sampled position bias in f32. The heads of a group share their positions, so the tables of four heads are
// interleaved: a corner is one vector of four, and so is its gradient. A border of zeros avoids tests of the
// corners. The positions of a row of keys are computed sixteen at a time.
#include "core/kernels/sampled_position_bias/sampled_position_bias.h"

#include "core/kernels/common/lane_vector.h"
#include "core/kernels/common/vector_cpu.h"
#include "core/kernels/reduce/reduce.h"
#include "core/runtime/parallel.h"

namespace saccade::kernels {
namespace {

using namespace cpu;

using Quad = float __attribute__((vector_size(16)));
constexpr int64_t kQuad = 4;
constexpr int64_t kBorder = 2;  // positions outside move to where both corners are in it

Quad load_quad(const float* p) {
  Quad v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
void store_quad(float* p, Quad v) { std::memcpy(p, &v, sizeof v); }

struct BiasShape {
  const float *table, *query, *key;
  int64_t N, H, Th, Tw, Q, G, S, query_n;
  int64_t heads, quads;  // per group
  int64_t width, cells;  // of a table with its border
  int64_t Sp;            // S in whole vectors

  BiasShape(const Tensor& t, const Tensor& q, const Tensor& k)
      : table(t.data<float>()),
        query(q.data<float>()),
        key(k.data<float>()),
        N(k.dim(0)),
        H(t.dim(0)),
        Th(t.dim(1)),
        Tw(t.dim(2)),
        Q(q.dim(1)),
        G(k.dim(1)),
        S(k.dim(2)),
        query_n(q.dim(0)),
        heads(H / G),
        quads(ceil_div(heads, kQuad)),
        width(Tw + 2 * kBorder),
        cells((Th + 2 * kBorder) * width),
        Sp(round_up(S, kLanes)) {}
  float scale(int64_t size) const { return static_cast<float>(size - 1) * 0.5f; }
  int64_t packed_size() const { return cells * kQuad; }  // of one quad's tables
  int64_t packed_cell(int64_t row, int64_t column) const {
    return ((row + kBorder) * width + column + kBorder) * kQuad;
  }
  int64_t head(int64_t g, int64_t quad, int64_t lane) const { return g * heads + quad * kQuad + lane; }
  int64_t lanes(int64_t quad) const { return std::min(kQuad, heads - quad * kQuad); }
};

// [G, quads, cells, 4], zeros in the border and in the lanes after the last head.
LaneVector<float> pack_tables(const BiasShape& p) {
  LaneVector<float> packed(static_cast<size_t>(p.G * p.quads * p.packed_size()));
  for (int64_t i = 0; i < p.G * p.quads; ++i) {
    int64_t g = i / p.quads, quad = i % p.quads;
    for (int64_t lane = 0; lane < p.lanes(quad); ++lane) {
      const float* from = p.table + p.head(g, quad, lane) * p.Th * p.Tw;
      float* to = packed.data() + i * p.packed_size() + lane;
      for (int64_t row = 0; row < p.Th; ++row)
        for (int64_t column = 0; column < p.Tw; ++column)
          to[p.packed_cell(row, column)] = from[row * p.Tw + column];
    }
  }
  return packed;
}

// The sampling positions of one query with every key of a group.
struct Row {
  const BiasShape& p;
  LaneVector<int32_t> cell;  // offset of the upper left corner in a packed table
  LaneVector<float> fx, fy;  // fractions
  LaneVector<float> kx, ky;  // positions of the group's keys

  explicit Row(const BiasShape& problem)
      : p(problem),
        cell(static_cast<size_t>(p.Sp)),
        fx(cell.size()),
        fy(cell.size()),
        kx(cell.size()),
        ky(cell.size()) {}

  void load_keys(int64_t n, int64_t g) {
    const float* from = p.key + (n * p.G + g) * p.S * 2;
    for (int64_t s = 0; s < p.S; ++s) {
      kx[static_cast<size_t>(s)] = from[2 * s];
      ky[static_cast<size_t>(s)] = from[2 * s + 1];
    }
  }
  void locate(int64_t n, int64_t q) {
    const float* at = p.query + ((p.query_n == 1 ? 0 : n) * p.Q + q) * 2;
    Ints step = Ints{} + static_cast<int32_t>(p.width);
    for (int64_t s = 0; s < p.Sp; s += kLanes) {
      Floats x = ((at[0] - load(kx.data() + s)) * 0.5f + 1.0f) * p.scale(p.Tw);
      Floats y = ((at[1] - load(ky.data() + s)) * 0.5f + 1.0f) * p.scale(p.Th);
      Ints x0 = split(x, p.Tw, fx.data() + s), y0 = split(y, p.Th, fy.data() + s);
      store(cell.data() + s, (y0 * step + x0) * static_cast<int32_t>(kQuad));
    }
  }

 private:
  // Returns the corner, counted from the border's first cell, and sets the fraction. Positions that touch no
  // entry, including NaNs, go to the border.
  static Ints split(Floats x, int64_t size, float* fraction) {
    x = select(x > -1.0f, x, broadcast(-2.0f));
    x = min(x, broadcast(static_cast<float>(size)));
    Ints x0 = floor_to_int(x);
    store(fraction, x - to_floats(x0));
    return x0 + static_cast<int32_t>(kBorder);
  }
};

// Transposes four values of each of four rows: lane l of out[s] is value s of row l. Missing rows give zeros.
void load_transposed(const float* rows, int64_t stride, int64_t count, int64_t lanes, Quad (&out)[4]) {
  if (count == 4 && lanes == 4) {
    Quad a = load_quad(rows), b = load_quad(rows + stride), c = load_quad(rows + 2 * stride),
         d = load_quad(rows + 3 * stride);
    Quad ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    Quad cd0 = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd1 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    out[0] = __builtin_shufflevector(ab0, cd0, 0, 1, 4, 5);
    out[1] = __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7);
    out[2] = __builtin_shufflevector(ab1, cd1, 0, 1, 4, 5);
    out[3] = __builtin_shufflevector(ab1, cd1, 2, 3, 6, 7);
    return;
  }
  for (int64_t s = 0; s < 4; ++s)
    for (int64_t l = 0; l < 4; ++l) out[s][l] = s < count && l < lanes ? rows[l * stride + s] : 0.0f;
}

void forward_cpu(const Tensor& table, const Tensor& query, const Tensor& key, Tensor& bias) {
  BiasShape p(table, query, key);
  LaneVector<float> packed = pack_tables(p);
  float* out = bias.data<float>();
  int64_t cost = p.S * p.heads * 4;
  parallel_for(p.N * p.G * p.Q, std::max<int64_t>(1, 16384 / cost), [&](int64_t begin, int64_t end) {
    Row row(p);
    int64_t loaded = -1;
    for (int64_t i = begin; i < end; ++i) {
      int64_t ng = i / p.Q, n = ng / p.G, g = ng % p.G, q = i % p.Q;
      if (ng != loaded) row.load_keys(n, g);
      loaded = ng;
      row.locate(n, q);
      for (int64_t quad = 0; quad < p.quads; ++quad) {
        const float* tables = packed.data() + (g * p.quads + quad) * p.packed_size();
        float* to = out + ((n * p.H + p.head(g, quad, 0)) * p.Q + q) * p.S;
        for (int64_t s0 = 0; s0 < p.S; s0 += 4) {
          alignas(16) float values[4][4];
          for (int64_t k = 0; k < 4; ++k) {  // the padding of the row is computed too
            auto s = static_cast<size_t>(s0 + k);
            const float* t = tables + row.cell[s];
            Quad top = load_quad(t), bottom = load_quad(t + p.width * kQuad);
            top += row.fx[s] * (load_quad(t + kQuad) - top);
            bottom += row.fx[s] * (load_quad(t + (p.width + 1) * kQuad) - bottom);
            store_quad(values[k], top + row.fy[s] * (bottom - top));
          }
          Quad transposed[4];
          load_transposed(values[0], 4, 4, 4, transposed);
          int64_t count = std::min<int64_t>(4, p.S - s0);
          for (int64_t l = 0; l < p.lanes(quad); ++l)
            std::memcpy(to + l * p.Q * p.S + s0, &transposed[l], static_cast<size_t>(count) * sizeof(float));
        }
      }
    }
  });
}

// The owner of one group of one image.
class GroupGradient {
 public:
  GroupGradient(const BiasShape& p, const LaneVector<float>& packed, const float* dbias)
      : p_(p),
        packed_(packed),
        dbias_(dbias),
        row_(p),
        table_(static_cast<size_t>(p.quads * p.packed_size())),
        dx_(static_cast<size_t>(p.Sp * kQuad)),
        dy_(dx_.size()) {}

  // table_part [heads, Th, Tw], query_part [Q, 2], dkey [S, 2]; null ones are skipped.
  void run(int64_t n, int64_t g, float* table_part, float* query_part, float* dkey) {
    std::fill(table_.begin(), table_.end(), 0.0f);
    std::fill(dx_.begin(), dx_.end(), 0.0f);
    std::fill(dy_.begin(), dy_.end(), 0.0f);
    row_.load_keys(n, g);
    float x_scale = p_.scale(p_.Tw) * 0.5f, y_scale = p_.scale(p_.Th) * 0.5f;
    for (int64_t q = 0; q < p_.Q; ++q) {
      row_.locate(n, q);
      Quad qx{}, qy{};
      for (int64_t quad = 0; quad < p_.quads; ++quad) add_row(n, g, q, quad, qx, qy);
      if (!query_part) continue;
      query_part[2 * q] = sum(qx) * x_scale;
      query_part[2 * q + 1] = sum(qy) * y_scale;
    }
    if (dkey) {
      for (int64_t s = 0; s < p_.S; ++s) {
        dkey[2 * s] = -sum(load_quad(dx_.data() + s * kQuad)) * x_scale;
        dkey[2 * s + 1] = -sum(load_quad(dy_.data() + s * kQuad)) * y_scale;
      }
    }
    if (table_part) unpack(table_part);
  }

 private:
  static float sum(Quad v) { return (v[0] + v[1]) + (v[2] + v[3]); }

  void add_row(int64_t n, int64_t g, int64_t q, int64_t quad, Quad& qx, Quad& qy) {
    const float* tables = packed_.data() + (g * p_.quads + quad) * p_.packed_size();
    float* gradient = table_.data() + quad * p_.packed_size();
    const float* from = dbias_ + ((n * p_.H + p_.head(g, quad, 0)) * p_.Q + q) * p_.S;
    int64_t below = p_.width * kQuad;
    for (int64_t s0 = 0; s0 < p_.S; s0 += 4) {
      int64_t count = std::min<int64_t>(4, p_.S - s0);
      Quad transposed[4];
      load_transposed(from + s0, p_.Q * p_.S, count, p_.lanes(quad), transposed);
      for (int64_t k = 0; k < count; ++k) {
        auto s = static_cast<size_t>(s0 + k);
        float fx = row_.fx[s], fy = row_.fy[s];
        const float* t = tables + row_.cell[s];
        Quad d = transposed[k];
        Quad t0 = load_quad(t), t1 = load_quad(t + kQuad), t2 = load_quad(t + below),
             t3 = load_quad(t + below + kQuad);
        Quad across = t1 - t0, down = t2 - t0, twist = t3 - t2 - across;
        Quad gx = d * (across + fy * twist), gy = d * (down + fx * twist);
        float *x = dx_.data() + s * kQuad, *y = dy_.data() + s * kQuad;
        store_quad(x, load_quad(x) + gx);
        store_quad(y, load_quad(y) + gy);
        qx += gx;
        qy += gy;
        float* to = gradient + row_.cell[s];
        Quad right = fx * d, left = d - right;
        store_quad(to, load_quad(to) + (1 - fy) * left);
        store_quad(to + kQuad, load_quad(to + kQuad) + (1 - fy) * right);
        store_quad(to + below, load_quad(to + below) + fy * left);
        store_quad(to + below + kQuad, load_quad(to + below + kQuad) + fy * right);
      }
    }
  }
  void unpack(float* part) const {
    for (int64_t h = 0; h < p_.heads; ++h) {
      const float* from = table_.data() + h / kQuad * p_.packed_size() + h % kQuad;
      for (int64_t row = 0; row < p_.Th; ++row)
        for (int64_t column = 0; column < p_.Tw; ++column) *part++ = from[p_.packed_cell(row, column)];
    }
  }

  const BiasShape& p_;
  const LaneVector<float>& packed_;
  const float* dbias_;
  Row row_;
  LaneVector<float> table_, dx_, dy_;
};

void backward_cpu(const Tensor& table, const Tensor& query, const Tensor& key, const Tensor& dbias,
                  Tensor& dtable, Tensor& dquery, Tensor& dkey) {
  BiasShape p(table, query, key);
  LaneVector<float> packed = pack_tables(p);
  int64_t entries = p.heads * p.Th * p.Tw;
  Tensor table_parts = dtable.defined() ? Tensor::empty({p.N, p.H, p.Th, p.Tw}) : Tensor();
  Tensor query_parts = dquery.defined() ? Tensor::empty({p.N, p.G, p.Q, 2}) : Tensor();
  parallel_for(p.N * p.G, 1, [&](int64_t begin, int64_t end) {
    GroupGradient gradient(p, packed, dbias.data<float>());
    for (int64_t i = begin; i < end; ++i)
      gradient.run(i / p.G, i % p.G, data_or_null<float>(table_parts, i * entries),
                   data_or_null<float>(query_parts, i * p.Q * 2), data_or_null<float>(dkey, i * p.S * 2));
  });
  if (dtable.defined()) sum_to_shape(table_parts, 1, dtable);
  if (dquery.defined()) {
    Tensor sum = dquery.reshape({p.query_n, 1, p.Q, 2});  // adds the images that share a row of query
    sum_to_shape(query_parts.reshape({p.query_n, p.N / p.query_n * p.G, p.Q, 2}), 1, sum);
  }
}

// bias: the forward's result or its gradient.
template <class... A>
bool supported(const Tensor& table, const Tensor&, const Tensor&, const Tensor& bias, const A&...) {
  return table.dtype() == DType::kF32 && bias.numel() > 0;
}

SACCADE_REGISTER_TUNED_KERNEL(sampled_position_bias_forward, Device::kCpu, &forward_cpu, &supported);
SACCADE_REGISTER_TUNED_KERNEL(sampled_position_bias_backward, Device::kCpu, &backward_cpu, &supported);

}  // namespace
}  // namespace saccade::kernels
