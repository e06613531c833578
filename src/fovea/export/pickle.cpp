#include "fovea/export/pickle.h"

#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/core/numbers.h"

namespace fovea::exports {
namespace {

constexpr size_t kMaxNesting = 64;
constexpr size_t kMaxShown = 80;

const std::set<std::string, std::less<>> kStorages = {
    "DoubleStorage", "FloatStorage", "HalfStorage", "BFloat16Storage", "LongStorage",
    "IntStorage",    "ShortStorage", "CharStorage", "ByteStorage",     "BoolStorage"};

bool is_allowed(std::string_view name) {
  if (name == "collections.OrderedDict" || name == "torch._utils._rebuild_tensor_v2" ||
      name == "torch._utils._rebuild_parameter" || name == "torch.Size") {
    return true;
  }
  constexpr std::string_view kTorch = "torch.";
  return name.starts_with(kTorch) && kStorages.contains(name.substr(kTorch.size()));
}

// A value while it may still be filled: lists and dicts are shared, as Python has it.
using Mutable = std::shared_ptr<PickleValue>;

class Machine {
 public:
  Machine(std::string_view bytes, const std::string& what) : bytes_(bytes), what_(what) {}

  // Values may hold each other in circles or be nested without end: what is not handed out is taken apart one by one.
  ~Machine() {
    for (const auto& value : made_) {
      if (!heights_.contains(value.get())) value->value = std::monostate();
    }
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  PicklePtr run() {
    while (true) {
      const auto op = static_cast<unsigned char>(take(1)[0]);
      if (op == '.') break;
      step(op);
    }
    const Mutable result = pop();
    try {
      height(result.get(), 0);
    } catch (...) {
      heights_.clear();
      throw;
    }
    return result;
  }

 private:
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail_usage("{}: no state_dict that torch.save writes: byte {}: {}", what_, at_,
               fmt::format(format, std::forward<Args>(args)...));
  }

  std::string_view take(uint64_t count) {
    if (count > bytes_.size() - at_) refuse("expected {}, found the end", counted(count, "more byte"));
    const std::string_view taken = bytes_.substr(at_, count);
    at_ += count;
    return taken;
  }
  template <typename T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string_view line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) refuse("expected a line, found the end");
    const std::string_view taken = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return taken;
  }

  template <typename T>
  void push(T&& value) {
    stack_.push_back(std::make_shared<PickleValue>(PickleValue{std::forward<T>(value)}));
    made_.push_back(stack_.back());
  }
  const Mutable& top() const {
    if (stack_.empty() || stack_.back() == nullptr) refuse("expected a value on the stack");
    return stack_.back();
  }
  Mutable pop() {
    Mutable value = top();
    stack_.pop_back();
    return value;
  }
  std::vector<Mutable> pop_many(size_t count) {
    std::vector<Mutable> values(count);
    for (size_t i = count; i > 0; --i) values[i - 1] = pop();
    return values;
  }
  // What was pushed since the last mark, which goes as well.
  std::vector<Mutable> pop_to_mark() {
    size_t first = stack_.size();
    while (first > 0 && stack_[first - 1] != nullptr) --first;
    if (first == 0) refuse("expected a mark on the stack");
    std::vector<Mutable> values(stack_.begin() + static_cast<std::ptrdiff_t>(first), stack_.end());
    stack_.resize(first - 1);
    return values;
  }

  void make_tuple(const std::vector<Mutable>& values) { push(PickleTuple{{values.begin(), values.end()}}); }
  void append(const std::vector<Mutable>& values) {
    auto* list = std::get_if<PickleList>(&top()->value);
    if (list == nullptr) refuse("expected a list to append to");
    list->items.insert(list->items.end(), values.begin(), values.end());
  }
  void set_items(const std::vector<Mutable>& values) {
    auto* dict = std::get_if<PickleDict>(&top()->value);
    if (dict == nullptr || values.size() % 2 != 0) refuse("expected a dict and pairs to put into it");
    for (size_t i = 0; i < values.size(); i += 2) dict->items.emplace_back(values[i], values[i + 1]);
  }

  static std::vector<const PickleValue*> children(const PickleValue* value) {
    std::vector<const PickleValue*> found;
    if (const auto* tuple = value->as<PickleTuple>()) {
      for (const auto& item : tuple->items) found.push_back(item.get());
    } else if (const auto* list = value->as<PickleList>()) {
      for (const auto& item : list->items) found.push_back(item.get());
    } else if (const auto* dict = value->as<PickleDict>()) {
      for (const auto& [key, item] : dict->items) found.insert(found.end(), {key.get(), item.get()});
    }
    return found;
  }
  // The levels below a value; refuses more than a few, and so circles.
  size_t height(const PickleValue* value, size_t depth) {
    const auto known = heights_.find(value);
    const size_t below = known == heights_.end() ? 0 : known->second;
    if (depth + below > kMaxNesting) refuse("nested deeper than {}", kMaxNesting);
    if (known != heights_.end()) return below;
    size_t most = 0;
    for (const PickleValue* child : children(value)) most = std::max(most, height(child, depth + 1) + 1);
    heights_[value] = most;
    return most;
  }

  void push_global(std::string_view module, std::string_view name) {
    std::string full = std::string(module) + "." + std::string(name);
    if (!is_allowed(full)) {
      fail_usage(
          "{}: the pickle asks for '{}', which is not among what a state_dict needs, so nothing of it was run; save "
          "weights alone: torch.save(model.state_dict(), file)",
          what_, full.substr(0, kMaxShown));
    }
    push(PickleGlobal{std::move(full)});
  }

  const PickleTuple& arguments(const PicklePtr& value, size_t least, const std::string& of) const {
    const auto* tuple = value->as<PickleTuple>();
    if (tuple == nullptr || tuple->items.size() < least)
      refuse("expected {} at least for {}", counted(least, "argument"), of);
    return *tuple;
  }
  int64_t integer(const PicklePtr& value, const char* name) const {
    const auto* number = value->as<int64_t>();
    if (number == nullptr || *number < 0) refuse("expected {} from 0 on", name);
    return *number;
  }
  std::vector<int64_t> integers(const PicklePtr& value, const char* name) const {
    const auto* tuple = value->as<PickleTuple>();
    if (tuple == nullptr) refuse("expected a tuple of {}", name);
    std::vector<int64_t> numbers;
    for (const auto& item : tuple->items) numbers.push_back(integer(item, name));
    return numbers;
  }

  // What calling an allowed name means.
  void reduce() {
    const Mutable given = pop();
    const Mutable callee = pop();
    const auto* global = callee->as<PickleGlobal>();
    if (global == nullptr) refuse("expected something to call");
    const std::string& name = global->name;
    if (name == "collections.OrderedDict") {
      const PickleTuple& args = arguments(given, 0, name);
      PickleDict dict;
      if (!args.items.empty()) {
        const auto* pairs = args.items[0]->as<PickleList>();
        if (pairs == nullptr) refuse("expected an OrderedDict of nothing or of a list of pairs");
        for (const auto& pair : pairs->items) {
          const auto* two = pair->as<PickleTuple>();
          const auto* list = pair->as<PickleList>();
          const auto& items = two != nullptr ? two->items : list != nullptr ? list->items : std::vector<PicklePtr>();
          if (items.size() != 2) refuse("expected an OrderedDict of pairs");
          dict.items.emplace_back(items[0], items[1]);
        }
      }
      push(std::move(dict));
    } else if (name == "torch._utils._rebuild_tensor_v2") {
      const PickleTuple& args = arguments(given, 4, name);
      const auto* storage = args.items[0]->as<PickleStorage>();
      if (storage == nullptr) refuse("expected a tensor of a storage");
      push(PickleTensor{*storage, integer(args.items[1], "an offset"), integers(args.items[2], "sizes"),
                        integers(args.items[3], "strides")});
    } else if (name == "torch._utils._rebuild_parameter") {
      const PickleTuple& args = arguments(given, 1, name);
      const auto* tensor = args.items[0]->as<PickleTensor>();
      if (tensor == nullptr) refuse("expected a parameter of a tensor");
      push(PickleTensor(*tensor));
    } else if (name == "torch.Size") {
      const auto* sizes = arguments(given, 1, name).items[0]->as<PickleTuple>();
      if (sizes == nullptr) refuse("expected a size of a tuple");
      push(PickleTuple(*sizes));
    } else {
      refuse("'{}' is not to be called", name);
    }
  }

  void persistent_id() {
    const Mutable id = pop();
    const PickleTuple& args = arguments(id, 5, "a storage");
    const auto* kind = args.items[0]->as<std::string>();
    const auto* type = args.items[1]->as<PickleGlobal>();
    const auto* key = args.items[2]->as<std::string>();
    constexpr std::string_view kTorch = "torch.";
    if (kind == nullptr || *kind != "storage" || type == nullptr || key == nullptr ||
        !kStorages.contains(type->name.substr(std::min(kTorch.size(), type->name.size())))) {
      refuse("expected a storage of a known type");
    }
    push(PickleStorage{type->name.substr(kTorch.size()), *key, integer(args.items[4], "a number of elements")});
  }

  void remember(uint64_t index) {
    if (index > bytes_.size()) refuse("expected a memo below {}, found {}", bytes_.size(), index);
    memo_[index] = top();
  }
  void recall(uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) refuse("memo {} was never filled", index);
    stack_.push_back(found->second);
  }

  void push_long(std::string_view little_endian) {
    if (little_endian.size() > 8) refuse("a number of {} bytes", little_endian.size());
    uint64_t value = 0;
    for (size_t i = little_endian.size(); i > 0; --i)
      value = value << 8 | static_cast<unsigned char>(little_endian[i - 1]);
    const size_t bits = little_endian.size() * 8;
    if (bits > 0 && bits < 64 && (value >> (bits - 1) & 1) != 0) value |= ~uint64_t{0} << bits;
    push(static_cast<int64_t>(value));
  }

  void step(unsigned char op);

  std::string_view bytes_;
  const std::string& what_;
  size_t at_ = 0;
  std::vector<Mutable> stack_;  // null: a mark
  std::map<uint64_t, Mutable> memo_;
  std::vector<Mutable> made_;
  std::map<const PickleValue*, size_t> heights_;
};

// The opcodes of protocols 2 to 5 that plain data, OrderedDicts and tensors are made of (Python's pickletools).
void Machine::step(unsigned char op) {
  switch (op) {
    case 0x80:  // PROTO
      if (const auto version = number<uint8_t>(); version < 2 || version > 5) refuse("protocol {}", version);
      break;
    case 0x95:  // FRAME
      take(8);
      break;
    case '(':  // MARK
      stack_.push_back(nullptr);
      break;
    case '0':  // POP
      if (stack_.empty()) refuse("expected something on the stack");
      stack_.pop_back();
      break;
    case '1':  // POP_MARK
      pop_to_mark();
      break;
    case '2': {  // DUP
      const Mutable value = top();
      stack_.push_back(value);
      break;
    }
    case 'N':
      push(std::monostate());
      break;
    case 0x88:
      push(true);
      break;
    case 0x89:
      push(false);
      break;
    case 'J':
      push(int64_t{number<int32_t>()});
      break;
    case 'K':
      push(int64_t{number<uint8_t>()});
      break;
    case 'M':
      push(int64_t{number<uint16_t>()});
      break;
    case 0x8a:  // LONG1
      push_long(take(number<uint8_t>()));
      break;
    case 'G': {  // BINFLOAT, big-endian
      const uint64_t bits = __builtin_bswap64(number<uint64_t>());
      double value = 0;
      std::memcpy(&value, &bits, sizeof value);
      push(double{value});
      break;
    }
    case 'X':
      push(std::string(take(number<uint32_t>())));
      break;
    case 0x8c:  // SHORT_BINUNICODE
      push(std::string(take(number<uint8_t>())));
      break;
    case 0x8d:  // BINUNICODE8
      push(std::string(take(number<uint64_t>())));
      break;
    case 'B':  // BINBYTES
      push(std::string(take(number<uint32_t>())));
      break;
    case 'C':  // SHORT_BINBYTES
      push(std::string(take(number<uint8_t>())));
      break;
    case ')':
      push(PickleTuple());
      break;
    case 't':
      make_tuple(pop_to_mark());
      break;
    case 0x85:
      make_tuple(pop_many(1));
      break;
    case 0x86:
      make_tuple(pop_many(2));
      break;
    case 0x87:
      make_tuple(pop_many(3));
      break;
    case ']':
      push(PickleList());
      break;
    case '}':
      push(PickleDict());
      break;
    case 'a':
      append(pop_many(1));
      break;
    case 'e':
      append(pop_to_mark());
      break;
    case 's':
      set_items(pop_many(2));
      break;
    case 'u':
      set_items(pop_to_mark());
      break;
    case 'c': {  // GLOBAL
      const std::string_view module = line();
      push_global(module, line());
      break;
    }
    case 0x93: {  // STACK_GLOBAL
      const Mutable name = pop(), module = pop();
      if (name->as<std::string>() == nullptr || module->as<std::string>() == nullptr)
        refuse("expected a global's name");
      push_global(*module->as<std::string>(), *name->as<std::string>());
      break;
    }
    case 'R':   // REDUCE
    case 0x81:  // NEWOBJ
      reduce();
      break;
    case 'b': {  // BUILD: an OrderedDict's attributes (_metadata) say nothing about the weights
      pop();
      if (top()->as<PickleDict>() == nullptr) refuse("expected a dict with attributes");
      break;
    }
    case 'Q':  // BINPERSID
      persistent_id();
      break;
    case 'q':
      remember(number<uint8_t>());
      break;
    case 'r':
      remember(number<uint32_t>());
      break;
    case 0x94:  // MEMOIZE
      remember(memo_.size());
      break;
    case 'h':
      recall(number<uint8_t>());
      break;
    case 'j':
      recall(number<uint32_t>());
      break;
    default:
      refuse("opcode 0x{:02x} is not one that a state_dict needs", op);
  }
}

}  // namespace

const PickleValue* PickleDict::find(std::string_view key) const {
  for (const auto& [name, value] : items) {
    if (const auto* text = name->as<std::string>(); text != nullptr && *text == key) return value.get();
  }
  return nullptr;
}

PicklePtr read_pickle(std::string_view bytes, const std::string& what) {
  return Machine(bytes, what).run();
}

}  // namespace fovea::exports
