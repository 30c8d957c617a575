// Shapes, views, copies and casts.
#include "core/tensor/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "core/kernels/copy/copy.h"
#include "core/tensor/philox.h"

namespace saccade {
namespace {

Tensor arange(const Shape& shape, DType dtype = DType::kF32) {
  std::vector<float> v(static_cast<size_t>(shape.numel()));
  std::iota(v.begin(), v.end(), 0.0f);
  return Tensor::from(shape, v).to(dtype);
}

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing thrown";
}

TEST(Shape, Basics) {
  Shape s{2, 3, 4};
  EXPECT_EQ(s.rank(), 3);
  EXPECT_EQ(s.numel(), 24);
  EXPECT_EQ(s[-1], 4);
  EXPECT_EQ(s.to_string(), "[2, 3, 4]");
  EXPECT_EQ(Shape{}.numel(), 1);
  EXPECT_EQ((Shape{0, 5}).numel(), 0);
  EXPECT_EQ(contiguous_strides(s), (Shape{12, 4, 1}));
  EXPECT_NE(message_of([&] { (void)s[3]; }).find("axis 3 out of range for [2, 3, 4]"), std::string::npos);
  EXPECT_NE(message_of([&] { Shape::filled(9, 1); }).find("rank 9 exceeds 8"), std::string::npos);
}

TEST(Shape, Broadcast) {
  EXPECT_EQ(broadcast_shapes({2, 1, 4}, {3, 1}, "t"), (Shape{2, 3, 4}));
  EXPECT_EQ(broadcast_shapes({}, {3}, "t"), (Shape{3}));
  EXPECT_EQ(broadcast_shapes({0, 1}, {1, 5}, "t"), (Shape{0, 5}));
  EXPECT_NE(message_of([] { broadcast_shapes({2}, {3}, "tag"); }).find("[tag] shapes [2] and [3]"),
            std::string::npos);
}

TEST(Tensor, ViewsShareStorage) {
  Tensor t = arange({2, 3, 4});
  Tensor v = t.slice(1, 1, 3).transpose(0, 2);
  EXPECT_EQ(v.shape(), (Shape{4, 2, 2}));
  EXPECT_EQ(v.storage(), t.storage());
  EXPECT_FALSE(v.is_contiguous());
  EXPECT_EQ(v.to_vector<float>(),
            (std::vector<float>{4, 16, 8, 20, 5, 17, 9, 21, 6, 18, 10, 22, 7, 19, 11, 23}));
  v.fill(-1);
  EXPECT_EQ(t.slice(1, 1, 3).to_vector<float>(), std::vector<float>(16, -1));
  EXPECT_EQ(t.select(1, 0).to_vector<float>(), (std::vector<float>{0, 1, 2, 3, 12, 13, 14, 15}));
}

TEST(Tensor, ReshapeViewsOrCopies) {
  Tensor t = arange({4, 6});
  EXPECT_EQ(t.reshape({2, -1}).storage(), t.storage());
  EXPECT_NE(t.transpose(0, 1).reshape({-1}).storage(), t.storage());
  EXPECT_EQ(t.transpose(0, 1).reshape({3, 8}).to_vector<float>()[1], 6);
  EXPECT_EQ((arange({0, 3}).reshape({-1, 3}).shape()), (Shape{0, 3}));
  // Strided tensors become views where their axes allow it.
  auto same = [](const Tensor& a, const Shape& to) {
    Tensor b = a.reshape(to);
    EXPECT_EQ(b.to_vector<float>(), a.to_vector<float>()) << to.to_string();
    return b.storage() == a.storage();
  };
  Tensor part = arange({2, 3, 8}).slice(2, 2, 6);
  EXPECT_TRUE(same(part, {2, 3, 2, 2}));
  EXPECT_TRUE(same(part, {6, 4}));
  EXPECT_TRUE(same(part, {1, 6, 1, 2, 2, 1}));
  EXPECT_FALSE(same(part, {2, 12}));
  EXPECT_TRUE(same(part.permute({2, 0, 1}), {2, 2, 6}));
  EXPECT_FALSE(same(part.permute({2, 0, 1}), {8, 3}));
  EXPECT_TRUE(same(arange({3, 1}).expand({3, 4}), {3, 2, 2}));
  EXPECT_FALSE(same(arange({3, 1}).expand({3, 4}), {12}));
  EXPECT_TRUE(same(part.slice(0, 0, 1).slice(1, 1, 2).slice(2, 3, 4), {}));
  EXPECT_NE(message_of([&] { t.reshape({5, -1}); }), "nothing thrown");
}

TEST(Tensor, ExpandSqueezeUnsqueeze) {
  Tensor t = arange({3, 1});
  Tensor e = t.expand({2, 3, 4});
  EXPECT_EQ(e.strides(), (Shape{0, 1, 0}));
  EXPECT_EQ(e.to_vector<float>()[4], 1);
  EXPECT_EQ(t.unsqueeze(-1).shape(), (Shape{3, 1, 1}));
  EXPECT_EQ(t.squeeze(1).shape(), (Shape{3}));
  EXPECT_NE(message_of([&] { t.squeeze(0); }), "nothing thrown");
  EXPECT_NE(message_of([&] { t.expand({3}); }), "nothing thrown");
}

TEST(Tensor, WrongDtypeIsRefused) {
  Tensor t = arange({2});
  EXPECT_NE(message_of([&] { t.data<double>(); }).find("data<f64>() of a f32 tensor of shape [2]"),
            std::string::npos);
  EXPECT_NE(message_of([] { Tensor().raw(); }).find("undefined"), std::string::npos);
}

TEST(Tensor, VersionsCountInPlaceChanges) {
  Tensor t = arange({4});
  uint32_t v = t.storage()->version();
  t.slice(0, 0, 2).fill(0);
  t.copy_from(arange({4}));
  EXPECT_EQ(t.storage()->version(), v + 2);
}

TEST(Tensor, CastsBetweenAllDtypes) {
  std::vector<double> values{0, 1, 2, 100};
  Tensor t = Tensor::from({4}, values);
  for (DType a : {DType::kF32, DType::kBF16, DType::kF64, DType::kI32, DType::kI64, DType::kU8})
    for (DType b : {DType::kF32, DType::kBF16, DType::kF64, DType::kI32, DType::kI64, DType::kU8})
      EXPECT_EQ(t.to(a).to(b).to_vector<double>(), values) << name_of(a) << " to " << name_of(b);
  EXPECT_EQ(Tensor::from({3}, std::vector<float>{0, 0.5f, -2}).to(DType::kBool).to_vector<double>(),
            (std::vector<double>{0, 1, 1}));
}

TEST(Tensor, Bf16RoundsToNearestEven) {
  auto round = [](float x) { return static_cast<float>(bf16(x)); };
  EXPECT_EQ(round(1.0f), 1.0f);
  EXPECT_EQ(round(1.0f + 0x1p-8f), 1.0f);                // tie to the even one below
  EXPECT_EQ(round(1.0f + 3 * 0x1p-8f), 1.0f + 0x1p-6f);  // tie to the even one above
  EXPECT_EQ(round(1.0f + 0x1p-8f + 0x1p-20f), 1.0f + 0x1p-7f);
  EXPECT_EQ(round(-3.14159f), -3.140625f);
  EXPECT_EQ(round(3.4e38f), std::numeric_limits<float>::infinity());
  EXPECT_EQ(round(-std::numeric_limits<float>::infinity()), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(round(std::numeric_limits<float>::quiet_NaN())));
  // A NaN whose payload is in the lower half must not become infinity.
  EXPECT_TRUE(std::isnan(round(std::bit_cast<float>(0x7F800001u))));
}

// All permutations of awkward sizes, to two dtypes, so that tiled, row and general copies all occur.
TEST(Copy, AllPermutationsMatchElementwise) {
  Shape shape{3, 37, 9, 41};
  Tensor t = arange(shape);
  std::vector<int> axes{0, 1, 2, 3};
  do {
    Tensor v = t.permute(axes);
    for (DType dtype : {DType::kF32, DType::kF64}) {
      std::vector<double> got = v.to(dtype).contiguous().to_vector<double>();
      size_t k = 0;
      int64_t wrong = 0;
      for (int64_t a = 0; a < v.dim(0); ++a)
        for (int64_t b = 0; b < v.dim(1); ++b)
          for (int64_t c = 0; c < v.dim(2); ++c)
            for (int64_t d = 0; d < v.dim(3); ++d) {
              const Shape& s = v.strides();
              wrong += got[k++] != static_cast<double>(a * s[0] + b * s[1] + c * s[2] + d * s[3]);
            }
      EXPECT_EQ(wrong, 0) << axes[0] << axes[1] << axes[2] << axes[3];
    }
  } while (std::next_permutation(axes.begin(), axes.end()));
}

TEST(Copy, IntoAWindow) {
  Tensor big = Tensor::zeros({70, 90}), part = arange({50, 60});
  Tensor window = big.slice(0, 10, 60).slice(1, 20, 80);
  window.copy_from(part);
  EXPECT_EQ(window.to_vector<float>(), part.to_vector<float>());
  window.transpose(0, 1).copy_from(part.transpose(0, 1));
  EXPECT_EQ(window.to_vector<float>(), part.to_vector<float>());
  double total = 0;
  for (float v : big.to_vector<float>()) total += v;
  EXPECT_EQ(total, 3000.0 * 2999 / 2);
}

TEST(Fill, LongAndStrided) {
  Tensor t = Tensor::zeros({100001});
  t.slice(0, 1, 100000).fill(2);
  double total = 0;
  for (float v : t.to_vector<float>()) total += v;
  EXPECT_EQ(total, 2 * 99999);
  Tensor m = Tensor::zeros({40, 50});
  m.transpose(0, 1).slice(0, 3, 4).fill(1);
  EXPECT_EQ(m.slice(1, 3, 4).to_vector<float>(), std::vector<float>(40, 1));
}

}  // namespace
}  // namespace saccade
