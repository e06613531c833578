#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace fovea::exports {

struct PickleValue;
using PicklePtr = std::shared_ptr<const PickleValue>;

/// One of torch's storages: the bytes are elsewhere in the archive, under `key`.
struct PickleStorage {
  std::string type;  // "FloatStorage"
  std::string key;
  int64_t numel = 0;
};

/// torch._utils._rebuild_tensor_v2: a view of a storage.
struct PickleTensor {
  PickleStorage storage;
  int64_t offset = 0;
  std::vector<int64_t> sizes, strides;
};

struct PickleGlobal {
  std::string name;  // "collections.OrderedDict"
};
struct PickleTuple {
  std::vector<PicklePtr> items;
};
struct PickleList {
  std::vector<PicklePtr> items;
};
/// A dict or an OrderedDict, in order.
struct PickleDict {
  std::vector<std::pair<PicklePtr, PicklePtr>> items;
  /// The value of a text key, or null.
  const PickleValue* find(std::string_view key) const;
};

struct PickleValue {
  std::variant<std::monostate, bool, int64_t, double, std::string, PickleTuple, PickleList, PickleDict, PickleGlobal,
               PickleStorage, PickleTensor>
      value;
  template <typename T>
  const T* as() const {
    return std::get_if<T>(&value);
  }
};

/// Reads what `torch.save(state_dict)` pickles, and nothing that could run: a global is a name out of a list
/// (OrderedDict, torch's storages and the functions that put tensors together), and what calling it means is written
/// here. Any other is refused by its name, before anything else of the pickle is looked at.
/// Throws Error naming `what` and the byte for everything that is damaged or not understood.
PicklePtr read_pickle(std::string_view bytes, const std::string& what);

}  // namespace fovea::exports
