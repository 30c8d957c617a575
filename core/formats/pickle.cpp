#include "core/formats/pickle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <unordered_map>

#include "core/formats/weights_file.h"
#include "core/tensor/error.h"

namespace saccade {

using Kind = PickleNode::Kind;

namespace {

// More than any weight file needs: 460 tensors with their optimizer's state take some 20,000 operations.
constexpr uint64_t kMaxOperations = 16'000'000;
constexpr size_t kMaxNodes = 4'000'000;
constexpr uint64_t kMaxCopied = uint64_t{64} << 20, kMaxHeld = uint64_t{256} << 20;

class Machine {
 public:
  explicit Machine(PickleInput& in) : in_(in) {
    graph_.nodes.emplace_back();  // None
    for (int i = 0; i < 2; ++i) graph_.nodes.push_back(PickleNode{.kind = Kind::kBool, .integer = i});
  }
  PickleGraph run();

 private:
  static constexpr uint32_t kNoneIndex = 0, kFalseIndex = 1, kTrueIndex = 2;

  uint32_t make(PickleNode node) {
    // Objects copy names and lists: their total must stay near the size of the stream.
    memory_ += node.text.size() + node.items.size() * sizeof(uint32_t);
    if (graph_.nodes.size() >= kMaxNodes || memory_ > std::min(in_.size(), kMaxHeld) + kMaxCopied)
      in_.damaged(
          fmt::format("more than {} values, or more memory for them than a weights file needs", kMaxNodes));
    graph_.nodes.push_back(std::move(node));
    return static_cast<uint32_t>(graph_.nodes.size() - 1);
  }
  void push(uint32_t index) { stack_.push_back(index); }
  void push_new(PickleNode node) { push(make(std::move(node))); }
  void push_text(Kind kind, std::string text) { push_new({.kind = kind, .text = std::move(text)}); }
  void push_int(int64_t value) { push_new({.kind = Kind::kInt, .integer = value}); }
  void push_items(Kind kind, std::vector<uint32_t> items) {
    push_new({.kind = kind, .items = std::move(items)});
  }
  PickleNode& node(uint32_t index) { return graph_.nodes[index]; }

  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  uint32_t pop() {
    if (stack_.size() <= floor()) in_.damaged("a value is taken from an empty stack");
    uint32_t top = stack_.back();
    stack_.pop_back();
    return top;
  }
  uint32_t top() {
    uint32_t index = pop();
    push(index);
    return index;
  }
  std::vector<uint32_t> pop_to_mark() {
    if (marks_.empty()) in_.damaged("there is no mark");
    std::vector<uint32_t> items(stack_.begin() + static_cast<int64_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  std::vector<uint32_t> pop_count(size_t count) {
    std::vector<uint32_t> items(count);
    for (size_t i = count; i-- > 0;) items[i] = pop();
    return items;
  }

  void push_long(std::string bytes);
  void push_int_line();
  void push_float(double value) { push_new({.kind = Kind::kFloat, .number = value}); }
  void push_float_line() { push_float(in_.number<double>(in_.line())); }
  void push_quoted();
  // Reads two lines: a module and a name in it.
  std::string global_lines() {
    std::string module = in_.line();
    return module + "." + in_.line();
  }
  uint64_t count() {
    int32_t value = in_.fixed<int32_t>();
    if (value < 0) in_.damaged("a negative length");
    return static_cast<uint64_t>(value);
  }
  void remember(uint64_t key) { memo_[key] = top(); }
  void recall(uint64_t key) {
    auto it = memo_.find(key);
    if (it == memo_.end()) in_.damaged("a value is recalled but was never stored");
    push(it->second);
  }
  void append(std::vector<uint32_t> items);
  void set_items(const std::vector<uint32_t>& pairs);
  void pop_value_or_mark();
  void push_dict(const std::vector<uint32_t>& pairs);
  void push_global();
  void make_named_object();
  void make_marked_object();
  void build();
  void call();         // REDUCE: a function or class and its arguments
  void make_object();  // NEWOBJ: a class and its arguments
  void storage();      // BINPERSID
  uint32_t called(const std::string& function, const std::vector<uint32_t>& arguments);

  using Step = void (*)(Machine&);
  struct Operation {
    uint8_t code;
    Step step;
  };
  // The step for each code; null for one that is not supported.
  static const std::array<Step, 256>& steps();

  PickleInput& in_;
  PickleGraph graph_;
  std::vector<uint32_t> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, uint32_t> memo_;
  uint64_t memory_ = 0;  // bytes of texts and lists
};

void Machine::push_long(std::string bytes) {
  if (bytes.size() > 8) return push_text(Kind::kLong, std::move(bytes));
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i)
    value |= static_cast<uint64_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  if (!bytes.empty() && bytes.size() < 8 && (bytes.back() & 0x80))
    value |= ~uint64_t{0} << (8 * bytes.size());
  push_int(static_cast<int64_t>(value));
}

void Machine::push_int_line() {
  std::string text = in_.line();
  if (text == "00") return push(kFalseIndex);
  if (text == "01") return push(kTrueIndex);
  push_int(in_.decimal(text));
}

// Protocol 0 writes strings as Python literals; escapes are left as they are.
void Machine::push_quoted() {
  std::string text = in_.line();
  if (text.size() < 2 || (text[0] != '\'' && text[0] != '"') || text.back() != text[0])
    in_.damaged("a string without quotes");
  push_text(Kind::kString, text.substr(1, text.size() - 2));
}

// Appends to lists and sets, and ignores elements for objects.
void Machine::append(std::vector<uint32_t> items) {
  PickleNode& target = node(top());
  if (target.kind == Kind::kObject) return;
  if (target.kind != Kind::kList && target.kind != Kind::kSet)
    in_.damaged("elements for something that is not a list");
  target.items.insert(target.items.end(), items.begin(), items.end());
}

void Machine::set_items(const std::vector<uint32_t>& pairs) {
  if (pairs.size() % 2 != 0) in_.damaged("a key without a value");
  PickleNode& target = node(top());
  if (target.kind == Kind::kObject) return;
  if (target.kind != Kind::kDict) in_.damaged("items for something that is not a dictionary");
  target.items.insert(target.items.end(), pairs.begin(), pairs.end());
}

// Handles the state of an object. Only that of a Namespace is of interest; the attributes of a dictionary
// (torch's "_metadata") and of a tensor are not.
void Machine::build() {
  uint32_t state = pop();
  PickleNode& target = node(top());
  if (target.kind == Kind::kObject && target.text == "argparse.Namespace" && node(state).kind == Kind::kDict)
    target.items = {state};
}

// Returns what a call of `function` represents, or an opaque object.
uint32_t Machine::called(const std::string& function, const std::vector<uint32_t>& a) {
  auto kind = [&](size_t i) { return i < a.size() ? node(a[i]).kind : Kind::kNone; };
  if (function == "collections.OrderedDict" || function == "collections.defaultdict") {
    PickleNode dict{.kind = Kind::kDict};
    if (kind(0) == Kind::kList && function == "collections.OrderedDict")  // of pairs, in old pickles
      for (uint32_t pair : node(a[0]).items) {
        const PickleNode& p = node(pair);
        if (p.items.size() != 2) in_.damaged("an ordered dictionary of something other than pairs");
        dict.items.insert(dict.items.end(), p.items.begin(), p.items.end());
      }
    return make(std::move(dict));
  }
  if (function == "torch.Size" && kind(0) == Kind::kTuple) return a[0];
  if (function == "torch._utils._rebuild_tensor_v2" || function == "torch._utils._rebuild_tensor") {
    if (a.size() < 4 || kind(0) != Kind::kStorage) in_.damaged("a tensor without a storage");
    return make({.kind = Kind::kTensor, .items = {a[0], a[1], a[2], a[3]}});
  }
  if (function == "torch._utils._rebuild_tensor_v3") {
    if (a.size() < 7 || kind(0) != Kind::kStorage) in_.damaged("a tensor without a storage");
    return make({.kind = Kind::kTensor, .items = {a[0], a[1], a[2], a[3], a[6]}});
  }
  if (function == "torch._utils._rebuild_parameter" ||
      function == "torch._utils._rebuild_parameter_with_state") {
    if (kind(0) == Kind::kTensor) return a[0];
  }
  // A tensor with attributes: (function, type, arguments, state).
  if (function == "torch._tensor._rebuild_from_type_v2" && kind(0) == Kind::kGlobal &&
      kind(2) == Kind::kTuple && node(a[0]).text != function)
    return called(node(a[0]).text, node(a[2]).items);
  // copyreg._reconstructor(class, base, state)
  if (function == "copyreg._reconstructor" || function == "copy_reg._reconstructor") {
    if (kind(0) == Kind::kGlobal) return make({.kind = Kind::kObject, .text = node(a[0]).text});
  }
  return make({.kind = Kind::kObject, .text = function});
}

void Machine::call() {
  uint32_t arguments = pop(), function = pop();
  if (node(arguments).kind != Kind::kTuple) in_.damaged("a call without a tuple of arguments");
  Kind kind = node(function).kind;
  if (kind == Kind::kGlobal) return push(called(node(function).text, node(arguments).items));
  push_text(Kind::kObject,
            kind == Kind::kObject ? node(function).text : "a call of something that is not a function");
}

void Machine::make_object() {
  uint32_t arguments = pop(), type = pop();
  if (node(arguments).kind != Kind::kTuple) in_.damaged("an object without a tuple of arguments");
  if (node(type).kind != Kind::kGlobal) return push_text(Kind::kObject, "an object of an unknown class");
  push(called(node(type).text, node(arguments).items));
}

// ("storage", type, key, device, elements, ...)
void Machine::storage() {
  uint32_t id = pop();
  const PickleNode& tuple = node(id);
  auto kind = [&](size_t i) { return node(tuple.items[i]).kind; };
  if (tuple.kind != Kind::kTuple || tuple.items.size() < 5 || kind(0) != Kind::kString ||
      node(tuple.items[0]).text != "storage" || kind(1) != Kind::kGlobal || kind(2) != Kind::kString ||
      kind(4) != Kind::kInt)
    in_.damaged("a persistent id that is not a storage");
  if (tuple.items.size() > 5 && kind(5) != Kind::kNone) in_.damaged("a view of a storage (torch before 0.4)");
  push_new({.kind = Kind::kStorage,
            .integer = node(tuple.items[4]).integer,
            .text = node(tuple.items[2]).text,
            .items = {tuple.items[1]}});
}

// POP can also remove a mark.
void Machine::pop_value_or_mark() {
  if (!marks_.empty() && stack_.size() == marks_.back())
    marks_.pop_back();
  else
    pop();
}

void Machine::push_dict(const std::vector<uint32_t>& pairs) {
  push_items(Kind::kDict, {});
  set_items(pairs);
}

void Machine::push_global() {
  uint32_t name = pop(), module = pop();
  if (node(name).kind != Kind::kString || node(module).kind != Kind::kString)
    in_.damaged("a global without a name");
  push_text(Kind::kGlobal, node(module).text + "." + node(name).text);
}

// INST: a class given by name, with the arguments since the mark.
void Machine::make_named_object() {
  std::string name = global_lines();
  pop_to_mark();
  push_text(Kind::kObject, std::move(name));
}

// OBJ: a class after a mark, followed by its arguments.
void Machine::make_marked_object() {
  std::vector<uint32_t> items = pop_to_mark();
  if (items.empty()) in_.damaged("an object without a class");
  push_text(Kind::kObject, node(items[0]).kind == Kind::kGlobal ? node(items[0]).text : "an object");
}

// Long because it is a table.
const std::array<Machine::Step, 256>& Machine::steps() {
  using M = Machine;
  static constexpr Operation kOperations[] = {
      {0x80,
       [](M& m) {
         if (m.in_.byte() > 5) m.in_.damaged("a protocol later than 5");
       }},                                            // PROTO
      {0x95, [](M& m) { m.in_.fixed<uint64_t>(); }},  // FRAME
      {'(', [](M& m) { m.marks_.push_back(m.stack_.size()); }},
      {'0', [](M& m) { m.pop_value_or_mark(); }},
      {'1', [](M& m) { m.pop_to_mark(); }},
      {'2', [](M& m) { m.push(m.top()); }},

      {'N', [](M& m) { m.push(kNoneIndex); }},
      {0x88, [](M& m) { m.push(kTrueIndex); }},
      {0x89, [](M& m) { m.push(kFalseIndex); }},
      {'I', [](M& m) { m.push_int_line(); }},
      {'L', [](M& m) { m.push_int(m.in_.decimal(m.in_.line())); }},
      {'J', [](M& m) { m.push_int(m.in_.fixed<int32_t>()); }},
      {'K', [](M& m) { m.push_int(m.in_.byte()); }},
      {'M', [](M& m) { m.push_int(m.in_.fixed<uint16_t>()); }},
      {0x8a, [](M& m) { m.push_long(m.in_.text(m.in_.byte())); }},
      {0x8b, [](M& m) { m.push_long(m.in_.text(m.count())); }},
      {'F', [](M& m) { m.push_float_line(); }},
      {'G', [](M& m) { m.push_float(std::bit_cast<double>(__builtin_bswap64(m.in_.fixed<uint64_t>()))); }},

      {'S', [](M& m) { m.push_quoted(); }},
      {'V', [](M& m) { m.push_text(Kind::kString, m.in_.line()); }},
      {'U', [](M& m) { m.push_text(Kind::kString, m.in_.text(m.in_.byte())); }},
      {'T', [](M& m) { m.push_text(Kind::kString, m.in_.text(m.in_.fixed<uint32_t>())); }},
      {'X', [](M& m) { m.push_text(Kind::kString, m.in_.text(m.in_.fixed<uint32_t>())); }},
      {0x8c, [](M& m) { m.push_text(Kind::kString, m.in_.text(m.in_.byte())); }},
      {0x8d, [](M& m) { m.push_text(Kind::kString, m.in_.text(m.in_.fixed<uint64_t>())); }},
      {'C', [](M& m) { m.push_text(Kind::kBytes, m.in_.text(m.in_.byte())); }},
      {'B', [](M& m) { m.push_text(Kind::kBytes, m.in_.text(m.in_.fixed<uint32_t>())); }},
      {0x8e, [](M& m) { m.push_text(Kind::kBytes, m.in_.text(m.in_.fixed<uint64_t>())); }},
      {0x96, [](M& m) { m.push_text(Kind::kBytes, m.in_.text(m.in_.fixed<uint64_t>())); }},

      {')', [](M& m) { m.push_items(Kind::kTuple, {}); }},
      {'t', [](M& m) { m.push_items(Kind::kTuple, m.pop_to_mark()); }},
      {0x85, [](M& m) { m.push_items(Kind::kTuple, m.pop_count(1)); }},
      {0x86, [](M& m) { m.push_items(Kind::kTuple, m.pop_count(2)); }},
      {0x87, [](M& m) { m.push_items(Kind::kTuple, m.pop_count(3)); }},
      {']', [](M& m) { m.push_items(Kind::kList, {}); }},
      {'l', [](M& m) { m.push_items(Kind::kList, m.pop_to_mark()); }},
      {'a', [](M& m) { m.append(m.pop_count(1)); }},
      {'e', [](M& m) { m.append(m.pop_to_mark()); }},
      {0x90, [](M& m) { m.append(m.pop_to_mark()); }},
      {'}', [](M& m) { m.push_items(Kind::kDict, {}); }},
      {'d', [](M& m) { m.push_dict(m.pop_to_mark()); }},
      {'s', [](M& m) { m.set_items(m.pop_count(2)); }},
      {'u', [](M& m) { m.set_items(m.pop_to_mark()); }},
      {0x8f, [](M& m) { m.push_items(Kind::kSet, {}); }},
      {0x91, [](M& m) { m.push_items(Kind::kSet, m.pop_to_mark()); }},

      {'g', [](M& m) { m.recall(static_cast<uint64_t>(m.in_.decimal(m.in_.line()))); }},
      {'h', [](M& m) { m.recall(m.in_.byte()); }},
      {'j', [](M& m) { m.recall(m.in_.fixed<uint32_t>()); }},
      {'p', [](M& m) { m.remember(static_cast<uint64_t>(m.in_.decimal(m.in_.line()))); }},
      {'q', [](M& m) { m.remember(m.in_.byte()); }},
      {'r', [](M& m) { m.remember(m.in_.fixed<uint32_t>()); }},
      {0x94, [](M& m) { m.remember(m.memo_.size()); }},

      {'c', [](M& m) { m.push_text(Kind::kGlobal, m.global_lines()); }},
      {0x93, [](M& m) { m.push_global(); }},
      {'R', [](M& m) { m.call(); }},
      {0x81, [](M& m) { m.make_object(); }},
      {0x92, [](M& m) { m.pop(), m.make_object(); }},  // with keyword arguments, which no known class has
      {'i', [](M& m) { m.make_named_object(); }},
      {'o', [](M& m) { m.make_marked_object(); }},
      {'b', [](M& m) { m.build(); }},
      {'Q', [](M& m) { m.storage(); }},
  };
  static const std::array<Step, 256> steps = [] {
    std::array<Step, 256> all{};
    for (const Operation& o : kOperations) all[o.code] = o.step;
    return all;
  }();
  return steps;
}

PickleGraph Machine::run() {
  constexpr uint8_t kStop = '.';
  uint64_t count = 0;
  for (uint8_t code = in_.byte(); code != kStop; code = in_.byte(), ++count) {
    if (!steps()[code]) in_.damaged(fmt::format("operation 0x{:02x} is not supported", code));
    steps()[code](*this);
    if (count == kMaxOperations) in_.damaged(fmt::format("more than {} operations", kMaxOperations));
  }
  graph_.root = pop();
  return std::move(graph_);
}

}  // namespace

PickleGraph read_pickle(PickleInput& input) { return Machine(input).run(); }

const PickleNode* PickleGraph::find(const PickleNode& dict, std::string_view key) const {
  const std::vector<uint32_t>& items = pairs(dict);
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    const PickleNode& k = nodes[items[i]];
    if (k.kind == Kind::kString && k.text == key) return &nodes[items[i + 1]];
  }
  return nullptr;
}

const std::vector<uint32_t>& PickleGraph::pairs(const PickleNode& dict) const {
  static const std::vector<uint32_t> kNone;
  if (dict.kind == Kind::kDict) return dict.items;
  return dict.kind == Kind::kObject && !dict.items.empty() ? nodes[dict.items[0]].items : kNone;
}

}  // namespace saccade
