// Round trips and hostile files. To add a hostile header: one line in kHostile.
#include "core/formats/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "core/tensor/philox.h"
#include "tests/compare_tensors.h"
#include "tests/test_folder.h"

namespace saccade {
namespace {

// Returns the bytes of a file with this header and data.
std::string file_of(const std::string& header, const std::string& data) {
  uint64_t length = header.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out + header + data;
}

std::string safetensors_error(const std::string& path) {
  try {
    SafetensorsReader reader(path);
    for (const WeightEntry& e : reader.entries()) reader.read(e.name);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

NamedValues sample() {
  return {{"b", Tensor::from(Shape{3}, std::vector<uint8_t>{1, 2, 255})},
          {"a.weight", Tensor::from(Shape{2, 2}, std::vector<float>{1, -2, 0.5f, 3e30f})},
          {"empty", Tensor::empty({0, 4})},
          {"half", Tensor::from(Shape{2}, std::vector<float>{1, -3}).to(DType::kBF16)},
          {"step", Tensor::from(Shape{}, std::vector<int64_t>{-(int64_t{1} << 40)})},
          {"int", Tensor::from(Shape{1}, std::vector<int32_t>{-7})},
          {"wide", Tensor::from(Shape{2}, std::vector<double>{1e-300, 2})},
          {"flag", Tensor::from(Shape{2}, std::vector<float>{0, 1}).to(DType::kBool)}};
}

TEST(Safetensors, RoundTrip) {
  TestFolder folder;
  NamedValues values = sample();
  std::map<std::string, std::string> metadata{{"format", "pt"}, {"odd", "line\nquote\" back\\ tab\t \x01 é"}};
  write_safetensors(folder / "x.safetensors", values, metadata);
  SafetensorsReader reader(folder / "x.safetensors");
  EXPECT_EQ(reader.metadata(), metadata);
  EXPECT_EQ(reader.entries().size(), values.size());
  for (auto& [name, t] : values) {
    Tensor back = reader.read(name);
    EXPECT_TRUE(same_bits(back, t)) << name;
    ASSERT_NE(reader.find(name), nullptr);
  }
  // Every tensor starts at a multiple of its element size.
  uint64_t begin = 0;
  std::memcpy(&begin, read_bytes(folder / "x.safetensors").data(), 8);
  begin += 8;
  for (const WeightEntry& e : reader.entries()) {
    EXPECT_EQ(begin % dtype_bytes(e.dtype), 0u) << e.name;
    begin += static_cast<uint64_t>(e.shape.numel()) * dtype_bytes(e.dtype);
  }
  EXPECT_EQ(reader.find("nothing"), nullptr);
  EXPECT_THROW(reader.read("nothing"), InputError);
  // A strided tensor is written in the order of its axes; the same arguments give the same bytes; no other
  // file is left.
  Tensor transposed = values[1].second.transpose(0, 1);
  write_safetensors(folder / "y.safetensors", {{"t", transposed}}, {});
  EXPECT_EQ(SafetensorsReader(folder / "y.safetensors").read("t").to_vector<float>(),
            transposed.to_vector<float>());
  std::string before = read_bytes(folder / "x.safetensors");
  write_safetensors(folder / "x.safetensors", values, metadata);
  EXPECT_EQ(read_bytes(folder / "x.safetensors"), before);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()),
                          std::filesystem::directory_iterator()),
            2);
}

TEST(Safetensors, ConvertsForeignTypes) {
  TestFolder folder;
  std::string half("\x00\x3c\x00\xc0\x01\x00\x00\x7c\xff\x7b", 10);  // 1, -2, 2^-24, inf, 65504
  std::string rest("\xff\xfe\xff\xff\xff\xff\xff\xff\xff", 9);
  write_bytes(folder / "f", file_of(R"({"h":{"dtype":"F16","shape":[5],"data_offsets":[0,10]},)"
                                    R"("i8":{"dtype":"I8","shape":[1],"data_offsets":[10,11]},)"
                                    R"("i16":{"dtype":"I16","shape":[1],"data_offsets":[11,13]},)"
                                    R"("u16":{"dtype":"U16","shape":[1],"data_offsets":[13,15]},)"
                                    R"("u32":{"dtype":"U32","shape":[1],"data_offsets":[15,19]}})",
                                    half + rest));
  SafetensorsReader reader(folder / "f");
  EXPECT_EQ(reader.read("h").to_vector<float>(), (std::vector<float>{1, -2, 0x1p-24f, INFINITY, 65504}));
  EXPECT_EQ(reader.read("i8").to_vector<int64_t>(), std::vector<int64_t>{-1});
  EXPECT_EQ(reader.read("i16").to_vector<int64_t>(), std::vector<int64_t>{-2});
  EXPECT_EQ(reader.read("u16").to_vector<int64_t>(), std::vector<int64_t>{65535});
  EXPECT_EQ(reader.read("u32").to_vector<int64_t>(), std::vector<int64_t>{4294967295});
}

struct Hostile {
  const char *header, *data, *message;
};
const Hostile kHostile[] = {
    {"[]", "", "not a JSON object"},
    {R"({"a")", "", "not a JSON object"},
    {R"({"a":1})", "", "needs dtype"},
    {R"({"a":{"dtype":"F32","shape":[1]}})", "", "needs dtype"},
    {R"({"a":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}})", "1234", "unknown dtype"},
    {R"({"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}})", "1234", "not supported"},
    {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "1234", "must be non-negative integers"},
    {R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", "1234", "must be non-negative integers"},
    {R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]}})", "1234",
     "must be non-negative integers"},
    {R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", "", "too large"},
    {R"({"a":{"dtype":"F32","shape":[4611686018427387904,4,0],"data_offsets":[0,0]}})", "", "too large"},
    {R"({"a":{"dtype":"F32","shape":[2147483648,2147483648,2147483648],"data_offsets":[0,0]}})", "",
     "too large"},
    {R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})", "1234", "more than 8 axes"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "1234", "begin at byte 4, after their end"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,5]}})", "1234", "outside"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", "1234", "two non-negative integers"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,4]}})", "1234", "two non-negative integers"},
    {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[18446744073709551612,0]}})", "1234",
     "after their end"},
    {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "1234", "needs 8 bytes"},
    {R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
     "1234", "overlaps"},
    {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", "12", "belong to no tensor"},
    {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "12", "belongs to no tensor"},
    {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
     "12", "appears twice"},
    {R"({"__metadata__":{"a":1}})", "", "is not a string"},
    {R"({"__metadata__":[]})", "", "map of strings"},
};

TEST(Safetensors, HostileHeaders) {
  TestFolder folder;
  for (const Hostile& h : kHostile) {
    write_bytes(folder / "f", file_of(h.header, h.data));
    std::string message = safetensors_error(folder / "f");
    EXPECT_NE(message.find(h.message), std::string::npos) << h.header << " -> " << message;
    EXPECT_NE(message.find(folder / "f"), std::string::npos) << message;
  }
  std::string nested(100000, '[');
  write_bytes(folder / "f", file_of(nested, ""));
  EXPECT_NE(safetensors_error(folder / "f"), "");
  write_bytes(folder / "f", std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10));
  EXPECT_NE(safetensors_error(folder / "f").find("header of"), std::string::npos);
  EXPECT_NE(safetensors_error(folder / "missing").find("cannot read the file"), std::string::npos);
  EXPECT_NE(safetensors_error(folder.path()).find("is a folder"), std::string::npos);
}

// Every truncation and thousands of damaged bytes: an InputError or a successful read, never anything else.
TEST(Safetensors, DamagedFiles) {
  TestFolder folder;
  write_safetensors(folder / "x", sample(), {{"k", "v"}});
  const std::string good = read_bytes(folder / "x");
  for (size_t n = 0; n < good.size(); ++n) {
    write_bytes(folder / "f", good.substr(0, n));
    EXPECT_NE(safetensors_error(folder / "f"), "") << n;
  }
  Rng rng(3);
  for (int i = 0; i < 3000; ++i) {
    std::string bad = good;
    for (int64_t k = rng.below(4); k >= 0; --k)
      bad[static_cast<size_t>(rng.below(static_cast<int64_t>(bad.size())))] = static_cast<char>(rng.next());
    write_bytes(folder / "f", bad);
    safetensors_error(folder / "f");
  }
}

// In our own files every single changed byte is noticed, whatever it belongs to.
TEST(Safetensors, EveryDamagedByteIsNoticed) {
  TestFolder folder;
  write_safetensors(folder / "x", sample(), {{"k", "v"}, {"saccade.config", "seed: 3"}});
  const std::string good = read_bytes(folder / "x");
  const size_t data = good.rfind('}') / 8 * 8 + 8;  // the padding of the header may follow
  auto verify_error = [&](const std::string& bytes) -> std::string {
    write_bytes(folder / "f", bytes);
    try {
      SafetensorsReader(folder / "f").verify();
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(verify_error(good), "");
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << i % 8));
    const std::string error = verify_error(bad);
    EXPECT_NE(error, "") << "byte " << i;
    if (i < data) continue;
    EXPECT_NE(error.find("the checksum of tensor \""), std::string::npos) << error;
    EXPECT_NE(safetensors_error(folder / "f"), "") << "byte " << i;
  }
}

TEST(Safetensors, NamesThatTheFormatCannotHoldAreRefused) {
  TestFolder folder;
  const Tensor t = Tensor::zeros({1});
  EXPECT_THROW(write_safetensors(folder / "x", {{"__metadata__", t}}, {}), InputError);
  EXPECT_THROW(write_safetensors(folder / "x", {{"\xff", t}}, {}), InputError);
  EXPECT_THROW(write_safetensors(folder / "x", {{"a", t}}, {{"names", "\xff"}}), InputError);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Safetensors, WritingFails) {
  TestFolder folder;
  EXPECT_THROW(write_safetensors(folder / "no/such/folder/x", sample(), {}), Error);
  Tensor t = Tensor::zeros({1});
  EXPECT_THROW(write_safetensors(folder / "x", {{"a", t}, {"a", t}}, {}), Error);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace saccade
