// The differentiable ops: the only public way to build a graph. Shapes are in comments; "..." is any leading
// shape. Feature maps are [N, H, W, C], tokens [N, S, C]. Errors are Error with "[op] what, got ..., expected
// ...". Every op here has a row in the op table (tests/autograd/op_table.h); a test fails for one without.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "autograd/ops/elementwise/unary.h"
#include "core/types/feature_levels.h"

namespace saccade {

// ---- elementwise, NumPy broadcasting ----------------------------------------------------------------------
Var add(const Var& a, const Var& b);
Var sub(const Var& a, const Var& b);
Var mul(const Var& a, const Var& b);
Var div(const Var& a, const Var& b);
Var maximum(const Var& a, const Var& b);  // in a tie the gradient goes to a
Var minimum(const Var& a, const Var& b);
Var add_relu(const Var& a, const Var& b);  // relu(a + b), same shapes: the end of a residual block

Var add_scalar(const Var& x, double s);
Var mul_scalar(const Var& x, double s);
Var neg(const Var& x);
inline Var exp(const Var& x) { return unary(kernels::UnaryOp::kExp, x); }
inline Var log(const Var& x) { return unary(kernels::UnaryOp::kLog, x); }
inline Var sqrt(const Var& x) { return unary(kernels::UnaryOp::kSqrt, x); }
inline Var abs(const Var& x) { return unary(kernels::UnaryOp::kAbs, x); }  // gradient 0 at 0
inline Var square(const Var& x) { return unary(kernels::UnaryOp::kSquare, x); }
inline Var sigmoid(const Var& x) { return unary(kernels::UnaryOp::kSigmoid, x); }
inline Var tanh(const Var& x) { return unary(kernels::UnaryOp::kTanh, x); }
inline Var relu(const Var& x) { return unary(Activation::kRelu, x); }
inline Var gelu(const Var& x) { return unary(Activation::kGelu, x); }  // the exact form with erf
inline Var silu(const Var& x) { return unary(Activation::kSilu, x); }  // x sigmoid(x)
Var clamp(const Var& x, double low, double high);                      // gradient 1 inside and at the bounds
// log(max(x, eps) / max(1 - x, eps)) of x clamped to [0, 1]  (DETR family; eps 1e-5)
Var inverse_sigmoid(const Var& x, double eps = 1e-5);
Var cast(const Var& x, DType dtype);  // between floating dtypes

// ---- reductions and softmax -------------------------------------------------------------------------------
Var sum(const Var& x);  // -> [] (f32 is summed in f32, pairwise)
Var sum(const Var& x, std::span<const int> axes, bool keep_dims = false);
Var mean(const Var& x);
Var mean(const Var& x, std::span<const int> axes, bool keep_dims = false);
Var softmax(const Var& x);      // over the last axis
Var log_softmax(const Var& x);  // over the last axis

// ---- views and gathers ------------------------------------------------------------------------------------
Var reshape(const Var& x, const Shape& shape);
Var permute(const Var& x, std::span<const int> axes);
Var slice(const Var& x, int axis, int64_t begin, int64_t end);
Var expand(const Var& x, const Shape& shape);
Var concat(const Vars& xs, int axis);
Var index_select(const Var& x, const Tensor& indices);    // rows of axis 0; indices i64 [K]; repeats allowed
Var gather_rows(const Var& x, const Tensor& indices);     // x [N, S, C], indices i64 [N, K] -> [N, K, C]
Var embedding(const Var& weight, const Tensor& indices);  // weight [V, C], indices i64 [...] -> [..., C]
// mask bool, broadcastable to x; true = filled
Var masked_fill(const Var& x, const Tensor& mask, double value);

// ---- matrix products (oneDNN, cuBLASLt) -------------------------------------------------------------------
// The compute dtype, or that of sums: f32 (f64 for f64), for coordinates and logits, which on a GPU are then
// never rounded to the compute dtype and need no cast.
enum class ProductDtype : uint8_t { kCompute, kSums };
// y = act(x weight^T + bias): x [..., K], weight [N, K] (PyTorch's layout), bias [N] or undefined -> [..., N]
Var linear(const Var& x, const Var& weight, const Var& bias, Activation activation = Activation::kNone,
           ProductDtype dtype = ProductDtype::kCompute);
// a [..., M, K] b [..., K, N] -> [..., M, N]; leading axes broadcast
Var matmul(const Var& a, const Var& b);

// ---- convolution and pooling on [N, H, W, C] --------------------------------------------------------------
struct Conv2dOptions {
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;
  int64_t groups = 1;  // == C for depthwise
};
// weight [C_out, C_in / groups, R, S] (PyTorch's OIHW), bias [C_out] or undefined
Var conv2d(const Var& x, const Var& weight, const Var& bias, const Conv2dOptions& options = {},
           Activation activation = Activation::kNone);
// relu(conv2d(x, weight, bias) + residual), where the residual has the result's shape: the end of a residual
// block with a folded norm.
Var conv2d_add_relu(const Var& x, const Var& weight, const Var& bias, const Var& residual,
                    const Conv2dOptions& options = {});
// relu(conv2d(x, weight, bias)) + shift, where shift [1] is in f32 (f64 for f64 x).
Var conv2d_relu_shift(const Var& x, const Var& weight, const Var& bias, const Var& shift,
                      const Conv2dOptions& options = {});
// One convolution on maps of several sizes, with stride 1 and odd windows, padded so that the sizes stay the
// same. x [N * cells, C] and the result [N * cells, C_out] hold the cells of N images of the first level,
// then those of the next.
Var conv2d_levels(const Var& x, const FeatureLevels& levels, const Var& weight, const Var& bias,
                  Activation activation = Activation::kNone);
Var max_pool2d(const Var& x, int64_t kernel, int64_t stride, int64_t padding);
// weight [C, C_out, stride, stride] (PyTorch's layout), bias [C_out] or undefined ->
// [N, H * stride, W * stride, C_out]
Var conv_transpose2d(const Var& x, const Var& weight, const Var& bias, int64_t stride,
                     Activation activation = Activation::kNone);
// The mean over cells floor(i * before / after) up to ceil((i + 1) * before / after) of each axis (PyTorch's
// AdaptiveAvgPool2d); these ranges may overlap. -> [N, height, width, C]
Var adaptive_avg_pool2d(const Var& x, int64_t height, int64_t width);
// Adjacent windows; at the lower and right edge they average only the existing cells (PyTorch's ceil_mode).
Var avg_pool2d(const Var& x, int64_t window);

// ---- normalisation; statistics and affine parameters in f32 (f64 for f64 x), output in x's dtype ----------
// Over all axes but the last. With `training`, uses batch statistics and updates the running ones in place as
// PyTorch does (unbiased variance, momentum); otherwise uses the running ones.
Var batch_norm(const Var& x, const Var& weight, const Var& bias, Tensor& running_mean, Tensor& running_var,
               bool training, double momentum = 0.1, double eps = 1e-5,
               Activation activation = Activation::kNone);
// act(x * scale + shift) with constant per-channel scale and shift [C]: frozen batch norm. Only x gets a
// gradient.
Var channel_affine(const Var& x, const Tensor& scale, const Tensor& shift,
                   Activation activation = Activation::kNone);
// relu(x * scale + shift + residual), residual like x: the end of a residual block with a frozen batch norm.
Var affine_add_relu(const Var& x, const Tensor& scale, const Tensor& shift, const Var& residual);
// x [N, ..., C]; statistics per sample and group of C / groups neighbouring channels
Var group_norm(const Var& x, const Var& weight, const Var& bias, int64_t groups, double eps = 1e-5);
// Over the last axis of x, or of x + residual if residual (same shape) is defined.
Var layer_norm(const Var& x, const Var& weight, const Var& bias, double eps = 1e-5, const Var& residual = {});
// layer_norm of residual + dropout(x, p, training), in the wider of their dtypes.
Var dropout_norm(const Var& x, double p, bool training, const Var& residual, const Var& weight,
                 const Var& bias, double eps = 1e-5);

// ---- regularisation; identity when !training or p == 0 ----------------------------------------------------
// zeroes elements with probability p, scales by 1 / (1 - p)
Var dropout(const Var& x, double p, bool training);
// the same per sample (axis 0)
Var drop_path(const Var& x, double p, bool training);

// ---- sampling and attention -------------------------------------------------------------------------------
// x [N, H, W, C], grid [N, P, 2] as (x, y) in [-1, 1] -> [N, P, C]; bilinear, zeros outside. Coordinates in
// f32. A grid [N, G, P, 2] has separate points for each of G groups of neighbouring channels.
Var grid_sample(const Var& x, const Var& grid, bool align_corners);

// x [N, H, W, C] -> [N, height, width, C]. Nearest: cell floor(i * before / after) of each axis (PyTorch's
// "nearest" without its rounding errors). Bilinear: between centres (PyTorch's with align_corners = false; no
// antialiasing when shrinking).
Var resize_nearest(const Var& x, int64_t height, int64_t width);
Var resize_bilinear(const Var& x, int64_t height, int64_t width);

struct RoiAlignOptions {
  int64_t size = 7;
  std::vector<int64_t> strides{};  // of each level
  int64_t sampling_ratio = 0;      // samples per side of a cell; 0: its pixels of the map, rounded up
  // If true, the centre of a map's first cell is half a stride from the edge. Otherwise it is on the edge,
  // and boxes are at least a cell wide and high.
  bool aligned = true;
};
// Crops boxes from a pyramid (He et al. 2017, Mask R-CNN, section 3): levels [N, H_l, W_l, C]; rois f32
// [R, 4], corners in pixels of the padded image; i64 [R] the level and the image of each roi; a level or
// image that does not exist (-1) gives zeros. -> [R, size, size, C]. Only the levels get gradients.
Var roi_align(const Vars& levels, const Tensor& rois, const Tensor& level_of_roi, const Tensor& image_of_roi,
              const RoiAlignOptions& options);

// A relative position bias for keys that lie between the cells (Xia et al. 2022, DAT, eq. 8; docs/dmha.md):
// table [H, rows, columns] sampled bilinearly at (query point - key point) / 2, corners aligned, zeros
// outside. query_points [N or 1, Q, 2] and key_points [N, G, S, 2] as (x, y) in [-1, 1]; the heads of each of
// the G groups share their keys' points. -> [N, H, Q, S] in f32.
Var sampled_position_bias(const Var& table, const Var& query_points, const Var& key_points);

struct AttentionOptions {
  int64_t heads = 1;
  double scale = 0;    // 0: 1 / sqrt(head size)
  double dropout = 0;  // on the attention weights
  bool training = false;
};
// query [N, Q, E], key [N, S, E], value [N, S, Ev]; E and Ev split over the heads.
// key_padding_mask: bool [N, S] or undefined, true = ignored. bias: added to the scores, [heads or 1, Q, S]
// or [N, heads or 1, Q, S], or undefined. A row whose keys are all masked gives zeros. -> [N, Q, Ev]
Var attention(const Var& query, const Var& key, const Var& value, const Tensor& key_padding_mask,
              const Var& bias, const AttentionOptions& options);

struct WindowAttentionOptions {
  int64_t heads = 1;
  int64_t window = 7;  // tokens per side
  int64_t shift = 0;   // the windows start this far down and right, wrapped around; 0 <= shift < window
  double scale = 0;    // 0: 1 / sqrt(head size)
};
// Attention inside the windows of a map (Swin, eq. 3 and 4); the windows are neither copied nor masked in
// memory. qkv [N, H, W, 3C] holds queries, keys and values one after the other. table [(2t - 1)^2, heads] or
// undefined, t >= window: the relative position bias, of which a smaller window uses the middle. padding [3C]
// or undefined (zeros): the values of the tokens that fill the last windows if the window does not divide the
// map (the projection's bias). mask bool [N, H, W] or undefined, true = ignored as a key. Pairs of tokens
// that are only brought together by the shift get -100 added to their score. -> [N, H, W, C]
Var window_attention(const Var& qkv, const Var& table, const Var& padding, const Tensor& mask,
                     const WindowAttentionOptions& options);

struct NeighbourhoodAttentionOptions {
  int64_t heads = 1;
  int64_t window = 7;  // tokens per side of the window that a query sees, odd
  double scale = 0;    // 0: 1 / sqrt(head size)
};
// Each query of a map attends to the window of tokens around it (Hassani et al. 2023, "Neighborhood Attention
// Transformer") or, at the edges, to the nearest window inside the map: every query has window^2 keys. qkv
// [N, H, W, 3C] holds queries, keys and values one after the other; H and W are at least the window. table
// [heads, 2 window - 1, 2 window - 1] or undefined: the relative position bias, of rows and columns key -
// query + window - 1. mask bool [N, H, W] or undefined, true = ignored as a key; a query that sees only such
// keys gets zeros. -> [N, H, W, C]
Var neighbourhood_attention(const Var& qkv, const Var& table, const Tensor& mask,
                            const NeighbourhoodAttentionOptions& options);

// Multi-scale deformable attention, fused from logits and offsets (Deformable DETR, eq. 3;
// docs/ms_deform_attn.md). value [N, S, M, D] with S = sum of H_l * W_l; reference_points [N, Q, L, 2] as (x,
// y), or [N, Q, L, 4] as (x, y, w, h), normalised to the padded level; offsets [N, Q, M, L, P, 2] (cells for
// 2-number references; units of half a box / P for 4-number ones: location = ref_xy + offset / P * ref_wh *
// 0.5); logits [N, Q, M, L * P] (softmaxed here over L * P). -> [N, Q, M * D]. value is cast to
// the compute dtype, everything else to f32.
Var ms_deform_attn(const Var& value, const Var& reference_points, const Var& offsets, const Var& logits,
                   const FeatureLevels& levels);

// Discrete sampling (RT-DETRv2): for reference points and offsets as above, returns the cells in which the
// points lie, as offsets from references [N, Q, L, 2] of zeros. In f32; without a gradient.
// -> [N, Q, M, L, P, 2]
Var ms_deform_cells(const Var& reference_points, const Var& offsets, const FeatureLevels& levels);

// ---- losses, all in f32; sums, so that the caller divides -------------------------------------------------
// Whether the rows (of logits or pairs) are all summed to a scalar, or as this many parts of equal size to
// [parts].
struct LossParts {
  int64_t count = 1;
  bool is_scalar = true;
  static LossParts apart(int64_t count) { return {count, false}; }
};
// logits [..., K]; labels i64 [...], the class, or K or -1 for "no object" -> [] sum over everything
// (RetinaNet's focal loss)
Var sigmoid_focal_loss(const Var& logits, const Tensor& labels, double alpha, double gamma,
                       LossParts parts = {});
// As above with soft targets from quality [...], the IoU in [0, 1] of the labelled class's box
// (core/kernels/losses/losses.h has the formulas; weights and targets that depend on the logits get no
// gradient, except the background's in iou_aware_loss):
// target q, weight q for the label, alpha * p^gamma elsewhere (varifocal loss)
Var varifocal_loss(const Var& logits, const Tensor& labels, const Tensor& quality, double alpha, double gamma,
                   LossParts parts = {});
// target q^gamma, weight 1 for the label, p^gamma elsewhere (DEIM's matchability-aware loss)
Var matchability_loss(const Var& logits, const Tensor& labels, const Tensor& quality, double gamma,
                      LossParts parts = {});
// target p^alpha q^(1 - alpha), at least 0.01, weight 1 for the label, p^gamma elsewhere (IoU-aware BCE loss
// of Align-DETR, as in LW-DETR)
Var iou_aware_loss(const Var& logits, const Tensor& labels, const Tensor& quality, double alpha, double gamma,
                   LossParts parts = {});
// logits [R, K], labels i64 [R] in [0, K), or -1 for a row that does not count; class_weights [K] or
// undefined -> sum_i w_i * nll_i (divide by the sum of w)
Var cross_entropy(const Var& logits, const Tensor& labels, const Tensor& class_weights,
                  double label_smoothing = 0, LossParts parts = {});
// boxes and targets [K, 4] as (cx, cy, w, h) -> sum of 1 - GIoU of the pairs; degenerate boxes give finite
// values
Var giou_loss(const Var& boxes, const Tensor& targets, LossParts parts = {});
// sum |boxes - targets|
Var l1_loss(const Var& boxes, const Tensor& targets, LossParts parts = {});
// A sum of numbers of several vectors, each times its own factor. parts gets the products, f32 [terms], and
// the result, [], is their sum, added in this order. Every number of every vector must be in one term.
struct WeightedTerm {
  size_t vector;
  int64_t element;
  double factor;
};
Var weighted_sum(const Vars& vectors, const std::vector<WeightedTerm>& terms, Tensor& parts);

}  // namespace saccade
