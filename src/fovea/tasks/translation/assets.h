#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/data/data_module.h"
#include "fovea/data/tokenizer.h"
#include "fovea/tasks/translation/config.h"
#include "fovea/tasks/translation/spec.h"

namespace fovea::translation {

/// From text to ids and back: all that translating needs.
class TranslationAssets : public data::DataAssets {
 public:
  TranslationAssets(const TranslationConfig& config, std::shared_ptr<const data::Tokenizer> source,
                    std::shared_ptr<const data::Tokenizer> target);
  static std::shared_ptr<const TranslationAssets> load(const TranslationConfig& config,
                                                       const std::filesystem::path& dir);

  const TranslationSpec& spec() const override { return spec_; }
  void save(const std::filesystem::path& dir) const override;
  void check_same(const data::DataAssets& saved) const override;
  /// The tokens of the axes "source" and "target".
  std::vector<std::string> labels(std::string_view axis) const override;

  /// The ids of a sentence and its <eos>, cut to num_steps; empty for a blank line. `is_cut` tells whether it was.
  std::vector<int64_t> encode(std::string_view sentence, bool* is_cut = nullptr) const;
  /// Text of generated ids.
  std::string decode(const std::vector<int64_t>& ids) const;
  /// (batch, longest) and its layout.
  std::pair<at::Tensor, nn::SequenceLayout> pad_sources(const std::vector<std::vector<int64_t>>& sources) const;

  const data::TextOptions& text() const { return text_; }
  const data::Tokenizer& source() const { return *source_; }
  const data::Tokenizer& target() const { return *target_; }

 private:
  data::TextOptions text_;
  std::shared_ptr<const data::Tokenizer> source_, target_;
  TranslationSpec spec_;
};

}  // namespace fovea::translation
