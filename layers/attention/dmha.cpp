// Deformable multi-head attention (Xia et al. 2022, "Vision Transformer with Deformable Attention", eq. 5 to
// 8; docs/dmha.md): all queries of a map attend to one set of keys per offset group, sampled where a small
// network moves the points of a regular grid. Names, initialisation and coordinate conventions are the
// official ones of the CVPR 2022 models, or those of DAT++ (Xia et al. 2023).
#include "autograd/function.h"
#include "layers/attention.h"
#include "layers/constant_keeper.h"
#include "layers/conv2d.h"
#include "layers/norm.h"
#include "layers/position_encoding.h"
#include "layers/position_tables.h"

namespace saccade {
namespace {

constexpr double kTableStd = 0.01;
constexpr double kNormEps = 1e-5;

// Depthwise convolution, LayerNorm, GELU and a 1x1 convolution to two numbers per cell; the groups of
// channels share the weights.
class OffsetNetwork : public Module {
 public:
  OffsetNetwork(int64_t dim, int64_t groups, int64_t kernel, int64_t stride, int64_t padding)
      : dim_(dim),
        groups_(groups),
        options_{.stride = stride, .padding = padding, .dilation = 1, .groups = dim} {
    int64_t channels = dim / groups;
    Initializer depthwise = init::linear_default(kernel * kernel);
    conv_weight_ = param("0.weight", {channels, 1, kernel, kernel}, depthwise);
    conv_bias_ = param("0.bias", {channels}, depthwise);
    norm_weight_ = param("1.norm.weight", {channels}, init::constant(1));
    norm_bias_ = param("1.norm.bias", {channels}, init::constant(0));
    out_weight_ = param("3.weight", {2, channels, 1, 1}, init::linear_default(channels));
  }

  // q [N, H, W, C] -> [N, Hk, Wk, G, 2] as (x, y); the weights' rows are (y, x).
  Var forward(const Var& q) const {
    int64_t channels = dim_ / groups_;
    Var x = conv2d(q, for_every_group(conv_weight_), for_every_group(conv_bias_), options_);
    x = reshape(x, {x.dim(0), x.dim(1), x.dim(2), groups_, channels});
    x = gelu(layer_norm(x, norm_weight_, norm_bias_, kNormEps));
    const Tensors order = constants_.get(CacheKey().add(q.device()), [&]() -> Tensors {
      return {Tensor::from<int64_t>({2}, std::vector<int64_t>{1, 0}, q.device())};
    });
    Var swapped = index_select(out_weight_, order[0]);
    return linear(x, reshape(swapped, {2, channels}), {});
  }

 private:
  // [channels, ...] -> [dim, ...]
  Var for_every_group(const Var& weight) const {
    if (groups_ == 1) return weight;
    Vars copies(static_cast<size_t>(groups_), weight);
    return concat(copies, 0);
  }

  int64_t dim_, groups_;
  Conv2dOptions options_;
  Var conv_weight_, conv_bias_, norm_weight_, norm_bias_, out_weight_;
  ConstantKeeper constants_;
};

enum class PositionBias { kNone, kFixed, kDepthwise, kRelative };

// Positions in [-1, 1] with the corners aligned: (i + shift) / (cells - 1) * 2 - 1 for cell i, or the middle
// for an axis of one cell. DAT++ uses them for its queries and, with a shift of half a cell, for its
// references. [1, H W, 2] as (x, y)
Tensor corner_points(const MapSize& map, double shift, DType dtype, Device device) {
  auto place = [shift](int64_t i, int64_t cells) {
    return cells > 1 ? (static_cast<double>(i) + shift) / static_cast<double>(cells - 1) * 2 - 1 : 0.0;
  };
  std::vector<double> points;
  for (int64_t i = 0; i < map.cells(); ++i) {
    points.push_back(place(i % map.width, map.width));
    points.push_back(place(i / map.width, map.height));
  }
  return Tensor::from<double>({1, map.cells(), 2}, points).to(dtype).to(device);
}

PositionBias position_of(const Args& args) {
  std::string name = args.get_choice("position", "relative", {"none", "fixed", "depthwise", "relative"});
  return name == "none"        ? PositionBias::kNone
         : name == "fixed"     ? PositionBias::kFixed
         : name == "depthwise" ? PositionBias::kDepthwise
                               : PositionBias::kRelative;
}

}  // namespace

class DMHA final : public Attention {
 public:
  DMHA(const AttentionShape& shape, const Args& args)
      : dim_(shape.dim),
        groups_(args.get_int("groups", 1, 1, shape.heads)),
        kernel_(args.get_int("kernel", 5, 1, 31)),
        stride_(args.get_int("stride", 1, 1, 64)),
        aligned_(args.get_choice("variant", "dat", {"dat", "dat_pp"}) == "dat_pp"),
        padding_(aligned_ && kernel_ == stride_ ? 0 : kernel_ / 2),
        offset_range_(args.get_float("offset_range", aligned_ ? -1 : 2, -1, 1e6)),
        position_(position_of(args)) {
    std::vector<int64_t> size = args.get_ints("size", {14, 14});
    options_.heads = shape.heads;
    options_.dropout = args.get_float("dropout", shape.dropout, 0, 0.999);
    if (size.size() != 2 || size[0] < 1 || size[1] < 1)
      fail_input("{}.size: expected the height and width of the map that the table is made for", args.path());
    if (dim_ % shape.heads != 0 || shape.heads % groups_ != 0)
      fail_input("{}: dimension {}, {} heads and {} offset groups do not divide each other", args.path(),
                 dim_, shape.heads, groups_);
    if (kernel_ % 2 == 0) fail_input("{}.kernel: {} is even, expected an odd size", args.path(), kernel_);
    height_ = size[0];
    width_ = size[1];

    if (args.get_bool("offsets", true))
      conv_offset_ = make_child<OffsetNetwork>("conv_offset", dim_, groups_, kernel_, stride_, padding_);
    proj_q_ = make_child<Conv2d>("proj_q", dim_, dim_, 1);
    proj_k_ = make_child<Conv2d>("proj_k", dim_, dim_, 1);
    proj_v_ = make_child<Conv2d>("proj_v", dim_, dim_, 1);
    proj_out_ = make_child<Conv2d>("proj_out", dim_, dim_, 1);
    Initializer table = init::truncated_normal(kTableStd);
    if (position_ == PositionBias::kRelative)
      table_ =
          param("rpe_table", {shape.heads, 2 * height_ - 1, 2 * width_ - 1}, table, true, &resize_bias_maps);
    if (position_ == PositionBias::kFixed)
      table_ =
          param("rpe_table", {shape.heads, height_ * width_, key_size(height_) * key_size(width_)}, table);
    if (position_ == PositionBias::kDepthwise)
      depthwise_ =
          make_child<Conv2d>("rpe_table", dim_, dim_, 3, Conv2dOptions{.padding = 1, .groups = dim_});
  }

  Var forward(const AttentionInput& input) override {
    if (input.levels.size() != 1)
      fail_input("attention layer dmha: the tokens come from {} maps, expected one map", input.levels.size());
    int64_t N = input.query.dim(0), H = input.levels[0].height, W = input.levels[0].width;
    SACCADE_CHECK(input.query.dim(1) == H * W && input.value.dim(1) == H * W,
                  "[DMHA] {} queries and {} values, expected the {} x {} cells of the map",
                  input.query.dim(1), input.value.dim(1), H, W);
    if (std::min(H, W) + 2 * padding_ < kernel_)
      fail_input(
          "attention layer dmha: a map of {} x {} cells, smaller than the offset network's kernel of {}", H,
          W, kernel_);
    Shape map{N, H, W, dim_}, queries{N, H * W, dim_};
    Var q = proj_q_(reshape(input.query, map));
    DType exact = sum_dtype(q.dtype());

    Var points = key_points(q, exact);
    int64_t S = points.dim(2);
    Var sampled = reshape(grid_sample(reshape(input.value, map), points, true), {N, S, 1, dim_});
    Var k = reshape(proj_k_(sampled), {N, S, dim_});
    Var v = reshape(proj_v_(sampled), {N, S, dim_});

    AttentionOptions options = options_;
    options.training = training();
    Var y = attention(reshape(q, queries), k, v, {}, position_bias(points, H, W), options);
    y = reshape(y, map);
    if (depthwise_) y = add(y, depthwise_(q));
    return reshape(proj_out_(y), queries);
  }

 private:
  int64_t key_size(int64_t size) const { return (size + padding_ * 2 - kernel_) / stride_ + 1; }

  // The points at which the keys of each group are sampled. [N, G, S, 2] as (x, y)
  Var key_points(const Var& q, DType exact) const {
    MapSize keys{key_size(q.dim(1)), key_size(q.dim(2))};
    int64_t N = q.dim(0), S = keys.cells();
    // The regular grid and, as (x, y), the distance by which tanh can move a point.
    const Tensors constants =
        constants_.get(CacheKey().add(0, q.device(), exact, keys.height, keys.width), [&]() -> Tensors {
          Tensor range = Tensor::from<double>(
              {2}, std::vector<double>{offset_range_ / static_cast<double>(keys.width),
                                       offset_range_ / static_cast<double>(keys.height)});
          Tensor grid = aligned_ ? corner_points(keys, 0.5, exact, q.device())
                                 : cell_centres(keys, -1, 1, exact, q.device());
          return {grid.unsqueeze(1), range.to(exact).to(q.device())};
        });
    const Tensor& reference = constants[0];
    if (!conv_offset_) return Var(reference.expand({N, groups_, S, 2}));
    Var offsets = cast(reshape(conv_offset_(q), {N, S, groups_, 2}), exact);
    offsets = permute(offsets, std::vector<int>{0, 2, 1, 3});
    if (offset_range_ < 0) return clamp(add(offsets, Var(reference)), -1, 1);
    return add(mul(tanh(offsets), Var(constants[1])), Var(reference));
  }

  // The bias that is added to the scores, or undefined.
  Var position_bias(const Var& points, int64_t H, int64_t W) const {
    if (position_ == PositionBias::kRelative) {
      const Tensors centres =
          constants_.get(CacheKey().add(1, points.device(), points.dtype(), H, W), [&]() -> Tensors {
            return {aligned_ ? corner_points({H, W}, 0, points.dtype(), points.device())
                             : cell_centres({H, W}, -1, 1, points.dtype(), points.device())};
          });
      return sampled_position_bias(table_, Var(centres[0]), points);
    }
    if (position_ != PositionBias::kFixed) return {};
    if (H != height_ || W != width_)
      fail_input(
          "attention layer dmha: a fixed position table of {} x {} cells, got a map of {} x {}; a relative one fits "
          "every size",
          height_, width_, H, W);
    return table_;
  }

  int64_t dim_, groups_, kernel_, stride_;
  bool aligned_;         // whether to use the coordinates of DAT++
  int64_t padding_;      // of the offset network's convolution
  double offset_range_;  // of tanh, in half cells of the keys' grid; -1: free, but kept inside the map
  PositionBias position_;
  AttentionOptions options_;
  int64_t height_ = 0, width_ = 0;  // of the table's map
  Child<OffsetNetwork> conv_offset_;
  Child<Conv2d> proj_q_, proj_k_, proj_v_, proj_out_, depthwise_;
  Var table_;
  ConstantKeeper constants_;
};

SACCADE_REGISTER_ATTENTION(
    "dmha", DMHA,
    "deformable multi-head attention (Xia et al. 2022, DAT, eq. 5 to 8): keys at points "
    "that the map moves, shared by all queries",
    "query and value [N, H W, C] of one H x W map -> [N, H W, C]",
    "O(N_q C^2 + N_s C^2 + N_q N_s C + k^2 N_s C), N_s = H W / stride^2 sampled keys",
    AttentionInputs::kOneMap);

}  // namespace saccade
