#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/core/error.h"
#include "fovea/data/batch.h"
#include "fovea/data/batching.h"
#include "fovea/data/data_spec.h"

namespace fovea::data {

enum class Part { kTrain, kValidation, kTest };

const char* part_name(Part part);

/// What has to travel with a model to use it without its training data: vocabularies, class names, normalisation.
class DataAssets {
 public:
  virtual ~DataAssets() = default;
  virtual const DataSpec& spec() const = 0;
  /// Writes its files into a checkpoint's directory.
  virtual void save(const std::filesystem::path& dir) const = 0;
  /// Throws Error saying what differs, unless a model trained with `saved` can go on with these.
  virtual void check_same(const DataAssets& saved) const = 0;
  /// The names along an axis ("source", "classes"), so that weights of another model can be taken over by name; empty
  /// where there is no such axis.
  virtual std::vector<std::string> labels(std::string_view /*axis*/) const { return {}; }
};

/// d2l's DataModule: examples in three parts and how to make batches of them. Everything here is const and may be
/// called from several threads.
class DataModule {
 public:
  virtual ~DataModule() = default;
  virtual std::shared_ptr<const DataAssets> assets() const = 0;
  const DataSpec& spec() const { return assets()->spec(); }

  virtual int64_t size(Part part) const = 0;
  /// The batches of an epoch as indices of examples: a pure function of (seed, epoch) for training, always the same
  /// for the other parts.
  virtual BatchPlan plan(Part part, int64_t epoch) const = 0;
  /// Some examples of a part. What is drawn for training (augmentation) is a function of (seed, epoch, examples).
  virtual Batch batch(Part part, int64_t epoch, const std::vector<int64_t>& examples) const = 0;
  /// What Batch::items counts, in the plural: "tokens", "images".
  virtual const char* unit() const = 0;
  /// A number that changes when the examples of a part do, as they are read: wherever a part is read again, it must be
  /// the same. Where files lie and whether they are packed does not count.
  virtual uint64_t part_fingerprint(Part part) const = 0;
  /// One number for training and validation together. Checkpoints that have none for each part have this one.
  virtual uint64_t fingerprint() const = 0;
  /// Lines for the start-up table: what was read, kept, dropped.
  virtual std::vector<std::pair<std::string, std::string>> describe() const = 0;
  /// Why there may be little to learn: shares of it that are lost, unknown or always the same, for people. Said before
  /// the first step. Data without anything to learn from are an Error of whoever reads them.
  virtual std::vector<std::string> warnings() const { return {}; }
};

/// A kind of data that a config may name.
struct DataEntry {
  config::NamedEntry named;
  /// Reads a checkpoint's assets back. Damage is an Error naming the file.
  std::function<std::shared_ptr<const DataAssets>(const config::Section&, const std::filesystem::path& dir)>
      load_assets;
  /// Reads the data. With `assets`, those are used instead of being made anew from the training part.
  std::function<std::unique_ptr<DataModule>(const config::Section&, uint64_t seed,
                                            std::shared_ptr<const DataAssets> assets)>
      make;
  /// Reads what `part` needs, perhaps nothing else, to use a trained model's assets on it.
  std::function<std::unique_ptr<DataModule>(const config::Section&, uint64_t seed,
                                            std::shared_ptr<const DataAssets> assets, Part part)>
      make_part;
};

/// The entry of data with Assets::load(const Config&, dir) and Data(const Config&, seed, assets or null). Where parts
/// have files of their own, Data::read_part(const Config&, seed, assets, part) reads one without the others.
template <typename Data, typename Config, typename Assets>
DataEntry data_entry(const std::string& name, const std::string& summary) {
  const auto typed_assets = [name](std::shared_ptr<const DataAssets> assets) {
    auto typed = std::dynamic_pointer_cast<const Assets>(assets);
    if (assets != nullptr && typed == nullptr) fail_usage("data.name: the model was not trained on {} data", name);
    return typed;
  };
  return {
      .named = {name, summary, [] { return std::make_shared<Config>(); }},
      .load_assets = [](const config::Section& section, const std::filesystem::path& dir)
          -> std::shared_ptr<const DataAssets> { return Assets::load(dynamic_cast<const Config&>(section), dir); },
      .make = [typed_assets](const config::Section& section, uint64_t seed,
                             std::shared_ptr<const DataAssets> assets) -> std::unique_ptr<DataModule> {
        return std::make_unique<Data>(dynamic_cast<const Config&>(section), seed, typed_assets(assets));
      },
      .make_part = [typed_assets](const config::Section& section, uint64_t seed,
                                  std::shared_ptr<const DataAssets> assets, Part part) -> std::unique_ptr<DataModule> {
        const auto& config = dynamic_cast<const Config&>(section);
        if constexpr (requires { Data::read_part(config, seed, typed_assets(assets), part); }) {
          return Data::read_part(config, seed, typed_assets(assets), part);
        } else {
          return std::make_unique<Data>(config, seed, typed_assets(assets));
        }
      }};
}

}  // namespace fovea::data
