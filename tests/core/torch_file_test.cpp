// Tests files of torch.save, as PyTorch wrote them (scripts/golden/published/make_torch_files.py) and as an
// attacker would.
#include "core/formats/torch_file.h"

#include <zlib.h>

#include "core/formats/safetensors.h"
#include "core/tensor/philox.h"
#include "tests/test_folder.h"

namespace saccade {
namespace {

const std::string kTorchFolder = SACCADE_SOURCE_DIR "/tests/golden/torch_files/";

std::string torch_error(const std::string& path) {
  try {
    auto file = open_weights(path);
    for (const WeightEntry& e : file->entries()) file->read(e.name);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

// ---- what PyTorch writes ----------------------------------------------------------------------------------

class TorchFiles : public testing::TestWithParam<const char*> {};

TEST_P(TorchFiles, TensorsAreThoseOfPyTorch) {
  auto file = open_weights(kTorchFolder + GetParam());
  SafetensorsReader expected(kTorchFolder + "expected.safetensors");
  EXPECT_EQ(file->section(), "model");
  ASSERT_EQ(file->entries().size(), expected.entries().size());
  for (const WeightEntry& e : expected.entries()) {
    ASSERT_NE(file->find(e.name), nullptr) << e.name;
    Tensor ours = file->read(e.name), golden = expected.read(e.name);
    EXPECT_EQ(ours.shape(), golden.shape()) << e.name;
    EXPECT_EQ(file->find(e.name)->shape, golden.shape()) << e.name;
    EXPECT_EQ(ours.dtype(), e.name == "bfloat" ? DType::kBF16 : golden.dtype()) << e.name;
    EXPECT_EQ(ours.to(DType::kF64).to_vector<double>(), golden.to(DType::kF64).to_vector<double>()) << e.name;
  }
  EXPECT_EQ(file->find("half")->dtype, "F16");
  EXPECT_EQ(file->find("absent"), nullptr);
  EXPECT_THROW(file->read("absent"), InputError);
}

TEST_P(TorchFiles, PlainValuesBesideThem) {
  auto file = open_weights(kTorchFolder + GetParam());
  const auto& s = file->scalars();
  EXPECT_EQ(s.at("epoch"), WeightScalar(int64_t{3}));
  EXPECT_EQ(s.at("args.dilation"), WeightScalar(true));
  EXPECT_EQ(s.at("args.pre_norm"), WeightScalar(false));
  EXPECT_EQ(s.at("args.nheads"), WeightScalar(int64_t{8}));
  EXPECT_EQ(s.at("args.lr"), WeightScalar(1e-4));
  EXPECT_EQ(s.at("args.position_embedding"), WeightScalar(std::string("sine")));
  EXPECT_EQ(s.at("lr_scheduler.step_size"), WeightScalar(int64_t{3}));
  for (const char* name :
       {"args.masks", "args.device", "args.output", "args.big", "object", "dtype", "numpy"})
    EXPECT_FALSE(s.contains(name)) << name;
}

INSTANTIATE_TEST_SUITE_P(Formats, TorchFiles, testing::Values("zip.pth", "legacy.pth"),
                         [](const auto& p) { return std::string(p.param) == "zip.pth" ? "Zip" : "Legacy"; });

TEST(TorchFile, AveragesComeFirst) {
  auto file = open_weights(kTorchFolder + "protocol4.pth");
  EXPECT_EQ(file->section(), "ema.module");
  EXPECT_EQ(file->read("w").to_vector<float>(), (std::vector<float>{1, 1}));
  EXPECT_EQ(file->scalars().at("ema.updates"), WeightScalar(int64_t{5}));
}

TEST(TorchFile, AKeyNamesTheDictionary) {
  const std::string path = kTorchFolder + "protocol4.pth";
  auto file = open_weights(path, "ema.module");
  EXPECT_EQ(file->section(), "ema.module");
  EXPECT_EQ(file->read("w").to_vector<float>(), (std::vector<float>{1, 1}));
  for (const auto& [key, part] : std::vector<std::pair<std::string, std::string>>{
           {"none", "has no \"none\" (its keys: "}, {"ema", "\"ema\" holds no tensors (its keys: "}})
    try {
      open_weights(path, key);
      FAIL() << key;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  EXPECT_THROW(open_weights(kTorchFolder + "expected.safetensors", "model"), InputError);
}

// model.safetensors.index.json and the files that it names.
TEST(WeightIndex, StandsForAllItsFiles) {
  TestFolder folder;
  const std::string index = folder / "model.safetensors.index.json",
                    first = "model-00001-of-00002.safetensors", second = "model-00002-of-00002.safetensors";
  write_safetensors(folder / first, {{"a", Tensor::full({2}, 1)}, {"b", Tensor::full({3}, 2)}}, {});
  write_safetensors(folder / second, {{"c", Tensor::full({1}, 3)}}, {});
  const std::string a = "\"a\": \"" + first + "\"", b = "\"b\": \"" + first + "\"",
                    c = "\"c\": \"" + second + "\"";
  const auto with = [&](const std::string& map) {
    write_bytes(index, "{\"metadata\": {\"total_size\": 24}, \"weight_map\": {" + map + "}}");
    return torch_error(index);
  };
  EXPECT_EQ(with(a + ", " + b + ", " + c), "");
  auto file = open_weights(index);
  EXPECT_EQ(file->entries().size(), 3u);
  EXPECT_EQ(file->read("c").to_vector<float>(), std::vector<float>{3});
  file->verify();
  EXPECT_NE(with(a + ", " + c).find("does not name tensor \"b\""), std::string::npos);
  EXPECT_NE(with(a + ", " + b + ", " + c + ", \"d\": \"" + second + "\"").find("tensor \"d\" is not in"),
            std::string::npos);
  EXPECT_NE(with(a + ", " + b + ", \"c\": \"../x\"").find("contains \"..\""), std::string::npos);
  EXPECT_NE(with(a + ", " + b + ", \"c\": 3").find("expected the name of a file"), std::string::npos);
  EXPECT_EQ(with(""), "");
  EXPECT_TRUE(open_weights(index)->entries().empty());
  write_bytes(index, "{}");
  EXPECT_NE(torch_error(index).find("has no \"weight_map\""), std::string::npos);
  EXPECT_NE(torch_error(folder / first)
                .find("is part 00001 of 00002 of a model, expected the index of all parts ("),
            std::string::npos);
  std::filesystem::copy(folder / second, folder / "model-00001-of-00001.safetensors");
  EXPECT_EQ(torch_error(folder / "model-00001-of-00001.safetensors"), "");
}

TEST(TorchFile, TheFormatIsRecognisedByContent) {
  TestFolder folder;
  write_bytes(folder / "a.safetensors", read_bytes(kTorchFolder + "legacy.pth"));
  EXPECT_EQ(torch_error(folder / "a.safetensors"), "");
  write_safetensors(folder / "b.pth", {{"x", Tensor::full({2}, 3)}}, {});
  EXPECT_EQ(open_weights(folder / "b.pth")->read("x").to_vector<float>(), (std::vector<float>{3, 3}));
  write_bytes(folder / "c", "hello");
  EXPECT_NE(torch_error(folder / "c").find("neither a safetensors file nor a PyTorch file"),
            std::string::npos);
  write_bytes(folder / "d", "");
  EXPECT_NE(torch_error(folder / "d").find("is empty"), std::string::npos);
  EXPECT_NE(torch_error(folder / "none").find("cannot read the file"), std::string::npos);
  EXPECT_NE(torch_error(folder.path()).find("is a folder"), std::string::npos);
}

// ---- hostile files ----------------------------------------------------------------------------------------

template <class T>
std::string raw(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(T));
}
std::string str(const std::string& s) { return "X" + raw(static_cast<uint32_t>(s.size())) + s; }
std::string num(int64_t v) { return "\x8a\x08" + raw(v); }
std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
std::string counts(const std::vector<int64_t>& values) {
  std::string out = "(";
  for (int64_t v : values) out += num(v);
  return out + "t";
}
std::string storage(const std::string& key, int64_t elements, const std::string& type = "FloatStorage") {
  return "(" + str("storage") + global("torch", type) + str(key) + str("cpu") + num(elements) + "tQ";
}
std::string tensor(const std::string& storage_id, int64_t offset, const std::vector<int64_t>& sizes,
                   const std::vector<int64_t>& strides) {
  return global("torch._utils", "_rebuild_tensor_v2") + "(" + storage_id + num(offset) + counts(sizes) +
         counts(strides) + "\x89" + global("collections", "OrderedDict") + ")RtR";
}
// A dictionary {"w": value} with further key and value opcodes.
std::string dict(const std::string& value, const std::string& more = "") {
  return "\x80\x02}(" + str("w") + value + more + "u.";
}
const std::string kGood = tensor(storage("0", 4), 0, {2, 2}, {2, 1});

// The pickle stream of PyTorch before 1.6 with one storage "0" of `bytes` bytes that claims `elements`.
std::string legacy(const std::string& pickle, size_t bytes = 16, uint64_t elements = 4,
                   const std::string& keys = "0") {
  std::string key_list = "\x80\x02](";
  for (char c : keys) key_list += str(std::string(1, c));
  return "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.\x80\x02}" +
         str("little_endian") + "\x88s." + pickle + key_list + "e." + raw(elements) +
         std::string(bytes, '\0');
}

std::string error_of_pickle(const std::string& pickle, const std::string& keys = "0") {
  TestFolder folder;
  write_bytes(folder / "x.pth", legacy(pickle, 16, 4, keys));
  std::string error = torch_error(folder / "x.pth");
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  if (!error.empty()) {
    EXPECT_EQ(error.find(folder / "x.pth"), 0u) << error;
  }
  return error;
}

TEST(HostilePickle, TheBuildersMakeAGoodFile) { EXPECT_EQ(error_of_pickle(dict(kGood)), ""); }

// Nothing is imported or called: such objects are ignored where they do not matter, and refused where a
// tensor should be.
TEST(HostilePickle, CallsAreNotMade) {
  TestFolder folder;
  std::string touch = str("touch " + (folder / "owned"));
  for (const std::string& call :
       {global("posix", "system") + "(" + touch + "tR", global("os", "system") + touch + "\x85R",
        global("builtins", "eval") + str("__import__('os').system('touch " + (folder / "owned") + "')") +
            "\x85R",
        "(" + touch + "ios\nsystem\n", "(" + global("os", "system") + touch + "o",
        str("os") + str("system") + "\x93" + touch + "\x85R", global("subprocess", "Popen") + ")\x81}b",
        global("torch._utils", "_rebuild_from_type_v2") + "(" + global("os", "system") + touch + "tR"}) {
    write_bytes(folder / "x.pth", legacy(dict(kGood, str("junk") + call)));
    auto file = open_weights(folder / "x.pth");
    EXPECT_EQ(file->entries().size(), 1u);
    write_bytes(folder / "y.pth", legacy(dict(call), 0, 0, ""));
    const std::string error = torch_error(folder / "y.pth");
    EXPECT_TRUE(error.find("no dictionary of tensors") != std::string::npos) << error;
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "owned"));
  EXPECT_NE(error_of_pickle("\x80\x02" + global("os", "system") + touch + "\x85R.", "")
                .find("a pickled object (os.system)"),
            std::string::npos);
}

// A module that was pickled as a whole is reported as such.
TEST(HostilePickle, ModulesAreNamed) {
  const auto module = [](const std::string& key, const std::string& package, const std::string& name) {
    return "\x80\x02}(" + str("epoch") + num(3) + str(key) + global(package, name) + ")\x81}bu.";
  };
  const std::string error =
      error_of_pickle(module("model", "ultralytics.nn.tasks", "RTDETRDetectionModel"), "");
  EXPECT_NE(
      error.find(
          "\"model\" is a pickled object (ultralytics.nn.tasks.RTDETRDetectionModel), which is never loaded"),
      std::string::npos)
      << error;
  EXPECT_NE(error.find("use the official weights of RT-DETR"), std::string::npos) << error;
  EXPECT_NE(
      error_of_pickle(module("ema", "my.models", "Net"), "").find("torch.save(model.state_dict(), FILE)"),
      std::string::npos);
}

// The claims of a sparse file cost its writer nothing, so they must cost its reader no memory.
TEST(Hostile, SparseFilesAreRefusedBeforeTheyAreRead) {
  TestFolder folder;
  constexpr uint64_t kBytes = uint64_t{4} << 30, kClaimed = uint64_t{3} << 30;
  write_bytes(folder / "a.pth", "\x80\x04\x8e" + raw(kClaimed));
  std::filesystem::resize_file(folder / "a.pth", kBytes);
  EXPECT_NE(torch_error(folder / "a.pth").find("3221225472 bytes in one value, expected at most 67108864"),
            std::string::npos);
  write_bytes(folder / "b.pth", "PK\x03\x04");
  std::filesystem::resize_file(folder / "b.pth", kBytes - 1);
  std::ofstream(folder / "b.pth", std::ios::binary | std::ios::app)
      << "PK\x05\x06" << std::string(4, '\0') << raw(uint16_t{1}) << raw(uint16_t{1})
      << raw(static_cast<uint32_t>(kClaimed)) << raw(uint32_t{0}) << std::string(2, '\0');
  EXPECT_NE(
      torch_error(folder / "b.pth").find("its directory has 3221225472 bytes, expected at most 67108864"),
      std::string::npos);
}

// A class is named by a global, not by text that reads the same.
TEST(HostilePickle, TextIsNoClass) {
  const std::string arguments = "(" + storage("0", 4) + num(0) + counts({2, 2}) + counts({2, 1}) + "\x89" +
                                global("collections", "OrderedDict") + ")Rt";
  EXPECT_EQ(error_of_pickle(dict(global("torch._utils", "_rebuild_tensor_v2") + arguments + "\x81")), "");
  EXPECT_NE(error_of_pickle(dict(str("torch._utils._rebuild_tensor_v2") + arguments + "\x81"))
                .find("no dictionary of tensors"),
            std::string::npos);
}

TEST(HostilePickle, ViewsStayInTheirStorage) {
  auto bad = [](int64_t offset, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
    return error_of_pickle(dict(tensor(storage("0", 4), offset, sizes, strides)));
  };
  EXPECT_NE(bad(1, {2, 2}, {2, 1}).find("outside of its storage"), std::string::npos);
  EXPECT_NE(bad(0, {5}, {1}).find("outside of its storage"), std::string::npos);
  EXPECT_NE(bad(0, {2}, {4}).find("outside of its storage"), std::string::npos);
  EXPECT_NE(bad(4, {}, {}).find("outside of its storage"), std::string::npos);
  EXPECT_NE(bad(0, {1000000, 1000}, {0, 0}).find("overlaps itself"), std::string::npos);
  EXPECT_NE(bad(0, {3, 3}, {1, 0}).find("overlaps itself"), std::string::npos);
  EXPECT_NE(bad(0, {5}, {0}).find("overlaps itself"), std::string::npos);
  EXPECT_NE(bad(3, {4}, {-1}).find("not a whole number from 0"), std::string::npos);
  EXPECT_NE(bad(0, {-4}, {1}).find("not a whole number from 0"), std::string::npos);
  EXPECT_NE(bad(-1, {2}, {1}).find("negative"), std::string::npos);
  EXPECT_NE(bad(0, {4}, {1, 1}).find("2 strides for 1 sizes"), std::string::npos);
  EXPECT_NE(bad(0, {int64_t{1} << 62, 4}, {1, 1}).find("not a whole number from 0"), std::string::npos);
  EXPECT_NE(bad(0, {int64_t{1} << 40, int64_t{1} << 40}, {0, 0}).find("more than 281474976710656"),
            std::string::npos);
  EXPECT_NE(bad(0, {0, int64_t{1} << 48, int64_t{1} << 48}, {0, 0, 0}).find("more than 281474976710656"),
            std::string::npos);
  EXPECT_NE(bad(0, {2}, {int64_t{1} << 62}).find("not a whole number from 0"), std::string::npos);
  EXPECT_NE(bad(0, {1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1}).find("at most 8"),
            std::string::npos);
  EXPECT_EQ(bad(0, {0, 5}, {5, 1}), "");
  EXPECT_EQ(bad(3, {1, 1}, {100, 100}), "");
}

TEST(HostilePickle, StoragesHaveTheBytesTheyClaim) {
  TestFolder folder;
  auto error = [&](const std::string& bytes) {
    write_bytes(folder / "x.pth", bytes);
    return torch_error(folder / "x.pth");
  };
  EXPECT_NE(error(legacy(dict(kGood), 15)).find("16 bytes in the file"), std::string::npos);
  EXPECT_NE(error(legacy(dict(kGood), 16, 5)).find("5 elements"), std::string::npos);
  EXPECT_NE(error(legacy(dict(kGood), 16, ~uint64_t{0})).find("elements of F32"), std::string::npos);
  EXPECT_NE(error(legacy(dict(kGood), 16, 4, "")).find("is missing"), std::string::npos);
  EXPECT_NE(error(legacy(dict(kGood), 16, 4, "00")).find("listed twice"), std::string::npos);
  EXPECT_NE(error(legacy(dict(kGood), 16, 4, "10")).find("unknown"), std::string::npos);
  for (int64_t elements : {int64_t{-4}, int64_t{1} << 40, (int64_t{1} << 62) + 4, INT64_MAX})
    EXPECT_NE(error(legacy(dict(tensor(storage("0", elements), 0, {2}, {1})))).find("claims"),
              std::string::npos);
  EXPECT_NE(error(legacy(dict(kGood, str("v") + tensor(storage("0", 2, "DoubleStorage"), 0, {2}, {1}))))
                .find("two types or sizes"),
            std::string::npos);
  EXPECT_NE(error(legacy(dict(tensor(storage("0", 4, "QUInt8Storage"), 0, {2}, {1})))).find("unknown type"),
            std::string::npos);
}

TEST(HostilePickle, DamagedStreams) {
  TestFolder folder;
  const std::string whole = legacy(dict(kGood));
  for (size_t length = 16; length + 1 < whole.size(); length += 7) {
    write_bytes(folder / "cut", whole.substr(0, length));
    EXPECT_NE(torch_error(folder / "cut"), "") << length;
  }
  EXPECT_NE(error_of_pickle("\x80\x06N.").find("protocol"), std::string::npos);
  EXPECT_EQ(error_of_pickle("\x80\x05N.").find("protocol"), std::string::npos);
  EXPECT_NE(error_of_pickle("\x80\x02\x82\x01.").find("operation 0x82 is not supported"),
            std::string::npos);                                                          // EXT1
  EXPECT_NE(error_of_pickle("\x80\x02\x97.").find("not supported"), std::string::npos);  // NEXT_BUFFER
  EXPECT_NE(error_of_pickle("\x80\x02Pid\n.").find("not supported"), std::string::npos);
  EXPECT_NE(error_of_pickle("\x80\x02.").find("empty stack"), std::string::npos);
  EXPECT_NE(error_of_pickle("\x80\x02h\x07.").find("never stored"), std::string::npos);
  EXPECT_NE(error_of_pickle("\x80\x02u.").find("no mark"), std::string::npos);
  EXPECT_NE(error_of_pickle("\x80\x02}(Nu.").find("key without a value"), std::string::npos);
  EXPECT_NE(error_of_pickle("\x80\x02Na.").find("empty stack"), std::string::npos);
  EXPECT_NE(error_of_pickle("\x80\x02NNa.").find("not a list"), std::string::npos);
  EXPECT_NE(error_of_pickle("\x80\x02(N(NR.").find("empty stack"), std::string::npos);
  EXPECT_NE(error_of_pickle("\x80\x02NNR.").find("tuple of arguments"), std::string::npos);
  EXPECT_NE(error_of_pickle("\x80\x02N)Q.").find("not a storage"), std::string::npos);
  EXPECT_NE(error_of_pickle("\x80\x02\x8b\xff\xff\xff\xff.").find("negative length"), std::string::npos);
  EXPECT_NE(error_of_pickle("\x80\x02X\xff\xff\xff\xffx.").find("ends too early"), std::string::npos);
  EXPECT_NE(error_of_pickle("\x80\x02\x8d" + std::string(8, '\xff') + "x.").find("ends too early"),
            std::string::npos);
  EXPECT_NE(error_of_pickle("\x80\x02I12a\n.").find("not a number"), std::string::npos);
  EXPECT_NE(error_of_pickle("\x80\x02S12\n.").find("without quotes"), std::string::npos);
  EXPECT_NE(
      error_of_pickle("\x80\x02V" + std::string(100000, 'x') + "\n.").find("a line of more than 65536 bytes"),
      std::string::npos);
  EXPECT_NE(error_of_pickle(dict(global("torch._utils", "_rebuild_tensor_v2") + "(NNNNtR"))
                .find("without a storage"),
            std::string::npos);
}

TEST(HostilePickle, ALongNumberEndsWhereItSays) {
  const std::string one_byte = std::string("\x8b\x01\0\0\0\x05", 6);
  EXPECT_EQ(error_of_pickle(dict(kGood, str("number") + one_byte)), "");
}

// Values are stored once however often they are referred to, and nothing recurses over them.
TEST(HostilePickle, NestingAndSharingStaySmall) {
  EXPECT_EQ(error_of_pickle(dict(kGood, str("deep") + std::string(300000, ']') + std::string(299999, 'a'))),
            "");
  EXPECT_EQ(error_of_pickle(dict(kGood, str("marks") + std::string(300000, '(') + std::string(300000, 't'))),
            "");
  // l0 = [], l1 = [l0] * 10, l2 = [l1] * 10, ...: 10^40 lists for a reader that walks through them.
  std::string bomb = "]q\x01";
  for (int i = 0; i < 40; ++i) {
    bomb += "](";
    for (int k = 0; k < 10; ++k) bomb += "h\x01";
    bomb += "eq\x01";
  }
  EXPECT_EQ(error_of_pickle(dict(kGood, str("bomb") + bomb + std::string(41, '0') + "h\x01")), "");
  // The same with dictionaries, which are searched for plain values.
  std::string dicts = "}q\x01";
  for (int i = 0; i < 40; ++i) {
    dicts += "}(";
    for (int k = 0; k < 100; ++k) dicts += str("k" + std::to_string(k)) + "h\x01";
    dicts += "uq\x01";
  }
  EXPECT_EQ(error_of_pickle(dict(kGood, str("bomb") + dicts + std::string(41, '0') + "h\x01")), "");
  // A list that contains itself.
  EXPECT_EQ(error_of_pickle(dict(kGood, str("cycle") + "]q\x01h\x01" + "a")), "");
  // A long name is joined with another, over and over.
  std::string names = str(std::string(60000, 'm')) + "q\x01" + "0";
  for (int i = 0; i < 3000; ++i)
    names +=
        "h\x01h\x01\x93"
        "0";
  EXPECT_NE(error_of_pickle(dict(kGood, str("names") + names + "N")).find("values, or more memory"),
            std::string::npos);
  // Five million lists.
  EXPECT_NE(error_of_pickle(dict(kGood, str("many") + "(" + std::string(5000000, ']') + "l"))
                .find("values, or more memory"),
            std::string::npos);
}

TEST(HostilePickle, AliasesCannotMultiplyWithoutEnd) {
  std::string more;
  for (int i = 0; i < 3000; ++i) more += str("w" + std::to_string(i)) + "h\x05";
  TestFolder folder;
  std::string pickle =
      "\x80\x02}(" + str("w") + tensor(storage("0", 100000), 0, {100000}, {1}) + "q\x05" + more + "u.";
  write_bytes(folder / "x.pth", legacy(pickle, 400000, 100000));
  EXPECT_NE(torch_error(folder / "x.pth").find("more than 16 times"), std::string::npos);
}

// ---- the zip container ------------------------------------------------------------------------------------

struct Stored {
  std::string name, bytes;
  bool compressed = false;
};

template <class T>
std::string little(uint64_t value) {
  return raw(static_cast<T>(value));
}

// Returns an archive in the zip format; with zip64 every size and offset is in the long fields.
std::string zip_of(const std::vector<Stored>& entries, bool zip64 = false) {
  auto number = [&](uint64_t value) { return little<uint32_t>(zip64 ? 0xFFFFFFFF : value); };
  std::string out, directory;
  for (const Stored& e : entries) {
    const uint64_t place = out.size(), n = e.bytes.size();
    const std::string method = little<uint16_t>(e.compressed ? 8 : 0), flags(2, '\0'), time(4, '\0');
    const auto* data = reinterpret_cast<const unsigned char*>(e.bytes.data());
    const std::string common = little<uint16_t>(45) + flags + method + time +
                               little<uint32_t>(crc32_z(0, data, n)) + number(n) + number(n) +
                               little<uint16_t>(e.name.size());
    std::string sizes = little<uint64_t>(n) + little<uint64_t>(n), extra, directory_extra;
    if (zip64) {
      extra = little<uint16_t>(1) + little<uint16_t>(16) + sizes;
      directory_extra = little<uint16_t>(1) + little<uint16_t>(24) + sizes + little<uint64_t>(place);
    }
    out += "PK\x03\x04" + common + little<uint16_t>(extra.size()) + e.name + extra + e.bytes;
    directory += "PK\x01\x02" + little<uint16_t>(45) + common + little<uint16_t>(directory_extra.size()) +
                 std::string(10, '\0') + number(place) + e.name + directory_extra;
  }
  const uint64_t count = entries.size(), place = out.size(), end = place + directory.size();
  out += directory;
  if (zip64)
    out += "PK\x06\x06" + little<uint64_t>(44) + std::string(12, '\0') + little<uint64_t>(count) +
           little<uint64_t>(count) + little<uint64_t>(directory.size()) + little<uint64_t>(place) +
           "PK\x06\x07" + std::string(4, '\0') + little<uint64_t>(end) + little<uint32_t>(1);
  const std::string short_count = little<uint16_t>(zip64 ? 0xFFFF : count);
  return out + "PK\x05\x06" + std::string(4, '\0') + short_count + short_count + number(directory.size()) +
         number(place) + little<uint16_t>(0);
}

std::string zip_error(const std::string& bytes) {
  TestFolder folder;
  write_bytes(folder / "x.pth", bytes);
  return torch_error(folder / "x.pth");
}
std::string zip_error(const std::vector<Stored>& entries) { return zip_error(zip_of(entries)); }

TEST(HostileZip, OnlyWhatTorchWrites) {
  const Stored pickle{"a/data.pkl", dict(kGood)}, data{"a/data/0", std::string(16, '\0')};
  EXPECT_EQ(zip_error({pickle, data, {"a/version", "3\n"}, {"a/byteorder", "little"}}), "");
  EXPECT_NE(zip_error({pickle}).find("storage \"0\" is missing"), std::string::npos);
  EXPECT_NE(zip_error({pickle, {"a/data/0", std::string(12, '\0')}}).find("12 bytes, expected 16"),
            std::string::npos);
  EXPECT_NE(zip_error({data}).find("without a data.pkl"), std::string::npos);
  EXPECT_NE(zip_error({pickle, data, {"a/byteorder", "big"}}).find("expected little"), std::string::npos);
  EXPECT_NE(zip_error({pickle, data, {"a/constants.pkl", "x"}}).find("TorchScript"), std::string::npos);
  EXPECT_NE(zip_error({pickle, data, {"b/data.pkl", "N."}}).find("two data.pkl"), std::string::npos);
  for (const char* name : {"a/../../etc/passwd", "/etc/passwd", "..", "a\\..\\b"})
    EXPECT_NE(zip_error({pickle, data, {name, "x"}}).find("has an unsafe name"), std::string::npos) << name;
  // Compressed entries could grow without end.
  EXPECT_NE(zip_error({pickle, {"a/data/0", std::string(16, '\0'), true}}).find("compressed"),
            std::string::npos);
  EXPECT_NE(zip_error({pickle, data, data}).find("appears twice"), std::string::npos);
}

TEST(HostileZip, DirectoriesThatPromiseTooMuch) {
  const std::vector<Stored> entries{{"a/data.pkl", dict(kGood)}, {"a/data/0", std::string(16, '\0')}};
  const std::string good = zip_of(entries), long_form = zip_of(entries, true);
  EXPECT_EQ(zip_error(good), "");
  EXPECT_EQ(zip_error(long_form), "");
  // A comment may follow the directory, and may look like another end of it.
  std::string commented = good + "PK\x05\x06" + std::string(20, '\x7f');
  commented[good.size() - 2] = 24;
  EXPECT_EQ(zip_error(commented), "");

  // Replaces bytes at a place counted from the end of the archive.
  auto changed = [](std::string bytes, size_t from_end, const std::string& with) {
    return bytes.replace(bytes.size() - from_end, with.size(), with);
  };
  const std::string huge(8, '\xfe');
  struct Case {
    std::string bytes, message;
  };
  for (const auto& [bytes, message] : {
           Case{good.substr(0, good.size() - 1), "no directory"},
           Case{changed(good, 12, little<uint16_t>(3)), "before entry 2 of 3"},
           Case{changed(good, 12, "\xfe\xff"), "before entry 2 of 65534"},
           Case{changed(good, 10, huge.substr(0, 4)), "directory is outside"},
           Case{changed(good, 6, huge.substr(0, 4)), "directory is outside"},
           Case{changed(good, 6, "\xff\xff\xff\xff"), "no zip64 part"},
           Case{changed(good, 10, little<uint32_t>(106)), "cut off"},
           Case{changed(long_form, 22 + 12, huge), "zip64 part of its directory is outside"},
           Case{changed(long_form, 22 + 20 + 24, huge), "before entry 2 of "},
           Case{changed(long_form, 22 + 20 + 8, huge), "directory is outside"},
           // The size and the offset of the last entry.
           Case{changed(long_form, 22 + 20 + 56 + 24, huge), "claims 18374403900871474942 bytes"},
           Case{changed(long_form, 22 + 20 + 56 + 8, huge), "is outside the file"},
           Case{changed(long_form, 22 + 20 + 56 + 8, std::string(8, '\0')), "checksum"},
       })
    EXPECT_NE(zip_error(bytes).find(message), std::string::npos) << message << ": " << zip_error(bytes);
}

TEST(HostileZip, DamagedBytesAreNoticed) {
  std::string bytes = zip_of({{"a/data.pkl", dict(kGood)}, {"a/data/0", std::string(16, 'x')}});
  bytes[bytes.find("xxxx") + 3] = 'y';
  EXPECT_NE(zip_error(bytes).find("checksum"), std::string::npos);
}

TEST(TorchFile, AHeaderThatBeginsAsAPickleIsNone) {
  TestFolder folder;
  std::string header = R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  header.resize(0x280, ' ');
  write_bytes(folder / "s", raw(uint64_t{0x280}) + header + "7");
  EXPECT_EQ(open_weights(folder / "s")->read("x").to_vector<int64_t>(), std::vector<int64_t>{'7'});
}

// This holds also for entries of which only a part is read.
TEST(HostileZip, EveryByteOfAnEntryIsCompared) {
  const std::string half = tensor(storage("0", 4), 2, {2}, {1});
  const std::string good =
      zip_of({{"a/data.pkl", dict(half)}, {"a/data/0", std::string(16, 'x')}, {"a/more", "yyyy"}});
  EXPECT_EQ(zip_error(good), "");
  std::string bad = good;
  bad[good.find("xxxx")] = 'z';  // outside the tensor
  EXPECT_NE(zip_error(bad).find("entry \"a/data/0\" of the archive cannot be read: its checksum is wrong"),
            std::string::npos);
  bad = good;
  bad[good.find("FloatStorage")] = 'f';
  EXPECT_NE(zip_error(bad).find("\"a/data.pkl\""), std::string::npos);
  bad = good;
  bad[good.find("yyyy")] = 'z';
  TestFolder folder;
  write_bytes(folder / "f", bad);
  EXPECT_THROW(open_weights(folder / "f")->verify(), InputError);
}

// ---- fuzzing ----------------------------------------------------------------------------------------------

// Makes random changes to a file: bytes, bits, numbers at their limits, cut, doubled and moved pieces. The
// reader must either read the result or throw InputError; sanitizers watch in CI.
std::string mutated(std::string bytes, Rng& rng) {
  auto below = [&](size_t n) {
    return n == 0 ? size_t{0} : static_cast<size_t>(rng.uniform() * static_cast<double>(n)) % n;
  };
  size_t changes = 1 + below(4);
  for (size_t i = 0; i < changes && !bytes.empty(); ++i) {
    size_t at = below(bytes.size());
    switch (below(8)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 1:
        bytes[at] = static_cast<char>(below(256));
        break;
      case 2: {
        static const unsigned char kLimits[] = {0, 1, 0x7f, 0x80, 0xff};
        for (size_t k = 0; k < 1 + below(8) && at + k < bytes.size(); ++k)
          bytes[at + k] = static_cast<char>(kLimits[below(5)]);
        break;
      }
      case 3:
        bytes.resize(at);
        break;
      case 4:
        bytes.erase(at, 1 + below(16));
        break;
      case 5:
        bytes.insert(at, bytes.substr(below(bytes.size()), below(64)));
        break;
      case 6:
        bytes.insert(at, 1, "().0RbQ]}uet\x81\x85\x86\x93"[below(16)]);
        break;
      case 7:
        if (at + 8 <= bytes.size())
          bytes.replace(at, 8, raw(rng.uniform() < 0.5 ? int64_t{-1} : int64_t{1} << below(63)));
        break;
    }
  }
  return bytes;
}

TEST(Fuzz, DamagedFilesAreReadOrRefused) {
  const int rounds = std::getenv("SACCADE_FAST") ? 400 : 1500;
  TestFolder folder;
  write_safetensors(folder / "small", {{"a", Tensor::zeros({2, 3})}, {"b", Tensor::zeros({4}, DType::kI64)}},
                    {{"k", "v"}});
  int read = 0, refused = 0;
  for (const std::string& source : {kTorchFolder + "zip.pth", kTorchFolder + "legacy.pth",
                                    kTorchFolder + "protocol4.pth", folder / "small"}) {
    const std::string original = read_bytes(source);
    Rng rng(static_cast<uint64_t>(original.size()));
    for (int i = 0; i < rounds; ++i) {
      write_bytes(folder / "x", mutated(original, rng));
      std::string error = torch_error(folder / "x");
      EXPECT_EQ(error.find('\n'), std::string::npos);
      ++(error.empty() ? read : refused);
    }
  }
  // Both must happen often, or the changes are too weak or too strong to find anything.
  EXPECT_GT(read, rounds / 10);
  EXPECT_GT(refused, rounds / 10);
}

// Damages the pickle of a legacy file without its storages, so that nearly every change reaches the machine.
TEST(Fuzz, DamagedPickles) {
  const int rounds = std::getenv("SACCADE_FAST") ? 2000 : 10000;
  TestFolder folder;
  const std::string pickle = dict(kGood, str("n") + num(3) + str("t") + kGood + "q\x01" + str("u") + "h\x01");
  Rng rng(7);
  int read = 0;
  for (int i = 0; i < rounds; ++i) {
    write_bytes(folder / "x", legacy(mutated(pickle, rng)));
    read += torch_error(folder / "x").empty();
  }
  EXPECT_GT(read, rounds / 100);
  EXPECT_LT(read, rounds);
}

}  // namespace
}  // namespace saccade
