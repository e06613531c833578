#include "fovea/export/state_dict.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/core/file.h"
#include "fovea/export/pickle.h"
#include "fovea/export/zip_archive.h"
#include "fovea/train/safetensors.h"

namespace fovea::exports {
namespace {

constexpr uint64_t kMaxPickleBytes = 256 << 20;
constexpr std::string_view kZipMagic = "PK\x03\x04";

at::ScalarType dtype_of(const std::string& storage) {
  static const std::map<std::string, at::ScalarType> kTypes = {
      {"DoubleStorage", at::kDouble},     {"FloatStorage", at::kFloat}, {"HalfStorage", at::kHalf},
      {"BFloat16Storage", at::kBFloat16}, {"LongStorage", at::kLong},   {"IntStorage", at::kInt},
      {"ShortStorage", at::kShort},       {"CharStorage", at::kChar},   {"ByteStorage", at::kByte},
      {"BoolStorage", at::kBool}};
  return kTypes.at(storage);
}

// The archive that torch.save writes: "<name>/data.pkl", "<name>/data/<key>" and some small ones.
class TorchArchive {
 public:
  explicit TorchArchive(const std::filesystem::path& path) : what_(path.string()), zip_(path) {
    for (const auto& [name, size] : zip_.entries()) {
      if (name.ends_with("/data.pkl") && name.find('/') == name.size() - std::string_view("/data.pkl").size()) {
        prefix_ = name.substr(0, name.find('/') + 1);
      }
    }
    if (prefix_.empty()) fail_usage("{}: a zip file, but none that torch.save writes: it has no data.pkl", what_);
    if (has("constants.pkl")) {
      fail_usage("{}: a TorchScript file; expected weights: a state_dict or safetensors", what_);
    }
    if (has("byteorder") && zip_.read(prefix_ + "byteorder", 16) != "little") {
      fail_usage("{}: its numbers are not little-endian", what_);
    }
  }

  PicklePtr pickle() const { return read_pickle(zip_.read(prefix_ + "data.pkl", kMaxPickleBytes), what_); }

  at::Tensor tensor(const std::string& name, const PickleTensor& t) {
    const auto refuse = [&](const std::string& why) { fail_usage("{}: tensor '{}': {}", what_, name, why); };
    if (t.sizes.size() != t.strides.size() || t.sizes.size() > 64) refuse("expected a stride for each size");
    // The last element that is reached; no product may overflow.
    int64_t last = t.offset, count = 1;
    bool is_empty = false, fits = true;
    for (size_t i = 0; i < t.sizes.size(); ++i) {
      int64_t reach = 0;
      is_empty = is_empty || t.sizes[i] == 0;
      fits = fits && !__builtin_mul_overflow(std::max<int64_t>(t.sizes[i] - 1, 0), t.strides[i], &reach) &&
             !__builtin_add_overflow(last, reach, &last) &&
             !__builtin_mul_overflow(count, std::max<int64_t>(t.sizes[i], 1), &count);
    }
    // A weight is not larger than what is stored of it: strides of 0 would make terabytes of a byte.
    if (!fits || (!is_empty && (last >= t.storage.numel || count > t.storage.numel))) {
      refuse(fmt::format("it reaches beyond its storage of {}", counted(t.storage.numel, "element")));
    }
    return storage(t.storage, name).as_strided(t.sizes, t.strides, is_empty ? 0 : t.offset).clone();
  }

  const std::string& what() const { return what_; }

 private:
  bool has(const std::string& name) const { return zip_.entries().contains(prefix_ + name); }

  at::Tensor storage(const PickleStorage& s, const std::string& name) {
    const at::ScalarType type = dtype_of(s.type);
    const std::string entry = prefix_ + "data/" + s.key;
    const auto found = zip_.entries().find(entry);
    if (found == zip_.entries().end()) fail_usage("{}: tensor '{}': the entry '{}' is missing", what_, name, entry);
    const auto item = static_cast<uint64_t>(at::elementSize(type));
    if (found->second % item != 0 || found->second / item != static_cast<uint64_t>(s.numel)) {
      fail_usage("{}: tensor '{}': expected {} of {}, found {}", what_, name, counted(s.numel, "element"),
                 counted(item, "byte"), counted(found->second, "byte"));
    }
    auto& loaded = storages_[entry];
    if (!loaded.defined() || loaded.scalar_type() != type) {
      loaded = at::empty({s.numel}, type);
      zip_.read(entry, loaded.mutable_data_ptr(), found->second);
    }
    return loaded;
  }

  std::string what_;
  ZipArchive zip_;
  std::string prefix_;
  std::map<std::string, at::Tensor> storages_;  // tied weights share one
};

const PickleDict* dict_of_tensors(const PickleValue* value) {
  const auto* dict = value == nullptr ? nullptr : value->as<PickleDict>();
  if (dict == nullptr || dict->items.empty()) return nullptr;
  const bool all = std::all_of(dict->items.begin(), dict->items.end(), [](const auto& item) {
    return item.first->template as<std::string>() != nullptr && item.second->template as<PickleTensor>() != nullptr;
  });
  return all ? dict : nullptr;
}

std::string keys_of(const PickleValue& value) {
  const auto* dict = value.as<PickleDict>();
  if (dict == nullptr) return "no dict at all";
  std::string keys;
  for (const auto& [key, item] : dict->items) {
    const auto* text = key->as<std::string>();
    if (keys.size() < 200) keys += (keys.empty() ? "" : ", ") + (text == nullptr ? "?" : "'" + *text + "'");
  }
  return keys.empty() ? "an empty dict" : "a dict with the keys " + keys;
}

}  // namespace

ForeignWeights load_state_dict(const std::filesystem::path& path) {
  TorchArchive archive(path);
  const PicklePtr root = archive.pickle();
  ForeignWeights weights;
  const PickleDict* dict = dict_of_tensors(root.get());
  if (const auto* outer = root->as<PickleDict>(); dict == nullptr && outer != nullptr) {
    for (const char* key : {"state_dict", "model_state_dict", "model"}) {
      dict = dict_of_tensors(outer->find(key));
      if (dict == nullptr) continue;
      weights.notices.push_back(fmt::format("took what stands under '{}'; the rest of the file is not used", key));
      break;
    }
  }
  if (dict == nullptr) {
    fail_usage(
        "{}: expected a state_dict, names and tensors, found {}; save one with torch.save(model.state_dict(), file)",
        archive.what(), keys_of(*root));
  }
  for (const auto& [key, value] : dict->items) {
    const std::string& name = *key->as<std::string>();
    weights.tensors[name] = archive.tensor(name, *value->as<PickleTensor>());
  }
  return weights;
}

ForeignWeights load_foreign_weights(const std::filesystem::path& path) {
  std::string start(8, '\0');
  {
    const InputFile file(path);
    start.resize(std::min<uint64_t>(start.size(), file.size()));
    file.read(0, start.data(), start.size());
  }
  if (start.empty())
    fail_usage("{}: expected weights, a state_dict or safetensors, found an empty file", path.string());
  if (start.starts_with(kZipMagic)) return load_state_dict(path);
  if (start.starts_with("\x80\x02")) {
    fail_usage(
        "{}: a pickle, as torch wrote before version 1.6 or with _use_new_zipfile_serialization=False; load it in "
        "Python "
        "and save it again: torch.save(torch.load(file, weights_only=True), new_file)",
        path.string());
  }
  return {train::load_safetensors(path).tensors, {}};
}

}  // namespace fovea::exports
