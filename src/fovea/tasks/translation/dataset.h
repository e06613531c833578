#pragma once

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fovea/data/data_module.h"
#include "fovea/tasks/translation/assets.h"

namespace fovea::translation {

class TranslationData : public data::DataModule {
 public:
  /// Throws Error for files that cannot be read and for parts that come out empty though they were asked for.
  TranslationData(const TranslationConfig& config, uint64_t seed,
                  std::shared_ptr<const TranslationAssets> assets = nullptr);

  std::shared_ptr<const data::DataAssets> assets() const override { return assets_; }
  int64_t size(data::Part part) const override;
  data::BatchPlan plan(data::Part part, int64_t epoch) const override;
  data::Batch batch(data::Part part, int64_t epoch, const std::vector<int64_t>& examples) const override;
  const char* unit() const override { return "tokens"; }
  uint64_t part_fingerprint(data::Part part) const override;
  uint64_t fingerprint() const override;
  std::vector<std::pair<std::string, std::string>> describe() const override;
  std::vector<std::string> warnings() const override;

  /// A held-out part that has files of its own needs no other file.
  static std::unique_ptr<TranslationData> read_part(const TranslationConfig& config, uint64_t seed,
                                                    std::shared_ptr<const TranslationAssets> assets, data::Part part);

  /// The pairs of a part as they stand in the file, those too long to train on too: what BLEU is measured on.
  const std::vector<Pair>& pairs(data::Part part) const { return of(part).pairs; }

  /// The examples of a part, and for each the index of its pair in pairs().
  const std::vector<EncodedPair>& encoded(data::Part part) const { return of(part).encoded; }
  const std::vector<size_t>& pairs_of_examples(data::Part part) const { return of(part).raw; }

  /// The examples of any pairs, for evaluating a file: a module with only this part.
  TranslationData(const TranslationConfig& config, std::vector<Pair> pairs,
                  std::shared_ptr<const TranslationAssets> assets, data::Part part = data::Part::kTest);

 private:
  struct Examples {
    std::vector<Pair> pairs;
    std::vector<EncodedPair> encoded;
    std::vector<size_t> raw;  // for each encoded pair its index in pairs
    std::string read;         // what reading files of its own found
    int64_t dropped = 0, truncated = 0;
    int64_t known_sources = 0;                      // pairs held out whose source is trained on
    double unknown_source = 0, unknown_target = 0;  // shares of the tokens
  };
  void hold_out(data::Part part, const CorpusFiles& files, const std::vector<Pair>& pairs,
                const std::vector<int64_t>& indices);
  void add_doubts(const std::string& name, const Corpus& corpus);
  void count_known_sources();
  std::shared_ptr<const TranslationAssets> learn_assets() const;
  void encode(Examples& part, bool needs_some) const;
  const Examples& of(data::Part part) const { return parts_[static_cast<size_t>(part)]; }

  TranslationConfig config_;
  uint64_t seed_;
  std::string read_;                   // what reading the files found
  std::vector<std::string> warnings_;  // of the files' lines
  std::array<Examples, 3> parts_;
  std::shared_ptr<const TranslationAssets> assets_;
};

}  // namespace fovea::translation
