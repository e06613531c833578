#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/data/text.h"
#include "fovea/data/vocabulary.h"

namespace fovea::data {

/// Text into ids and back. Const and thread-safe: one tokenizer may serve many threads.
///
/// Each has a vocabulary: a token for each id, the reserved ones among them. Text never reaches a reserved token, so
/// that a literal "<eos>" in a sentence cannot end a sequence.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// The ids of a text, <bos> and <eos> not among them; none for a blank text. What the vocabulary lacks becomes
  /// unk(). Throws Error where the text is not UTF-8.
  virtual std::vector<int64_t> encode(std::string_view text) const = 0;
  /// The text of the ids up to the first <eos>, without <bos> and <pad>. Other reserved tokens show by name. Of the
  /// normalized text that encode() saw, all known tokens come back. Throws Error for an id that is none.
  virtual std::string decode(const std::vector<int64_t>& ids) const = 0;

  /// Its name in all_tokenizers().
  const std::string& name() const { return name_; }
  int64_t size() const { return vocabulary_.size(); }
  int64_t pad() const { return vocabulary_.pad(); }
  int64_t bos() const { return vocabulary_.bos(); }
  int64_t eos() const { return vocabulary_.eos(); }
  int64_t unk() const { return vocabulary_.unk(); }
  /// Error unless 0 <= id < size().
  const std::string& token(int64_t id) const { return vocabulary_.token(id); }
  bool is_reserved(int64_t id) const { return vocabulary_.is_reserved(id); }
  /// The id of a token of text; unk() where it is unknown or reserved.
  int64_t id(std::string_view token) const { return vocabulary_.id(token); }

  /// Writes it into a file, atomically. Throws Error with the system's reason.
  virtual void save(const std::filesystem::path& file) const { vocabulary_.save(file); }
  /// For the start-up table: "1203 words".
  virtual std::string describe() const = 0;
  /// Whether the two give the same ids for any text, and the same text for any ids.
  virtual bool operator==(const Tokenizer& other) const;

 protected:
  Tokenizer(std::string name, const TextOptions& text, Vocabulary vocabulary)
      : name_(std::move(name)), text_(text), vocabulary_(std::move(vocabulary)) {}
  const TextOptions& text() const { return text_; }
  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  std::string name_;
  TextOptions text_;
  Vocabulary vocabulary_;
};

/// What every tokenizer is told, whichever it is.
struct TokenizerOptions {
  TextOptions text{};
  int64_t min_freq = 1;  // what occurs less often gets no id
};

/// Learns a tokenizer from texts that are shown to it one by one.
class TokenizerLearner {
 public:
  static constexpr int64_t kWhole = std::numeric_limits<int64_t>::max();

  virtual ~TokenizerLearner() = default;
  /// Reads a text and returns its number of tokens; 0 where that is known only after learning.
  virtual int64_t read(std::string_view text) = 0;
  /// Learns from the text read last, from its first `max_tokens` tokens. A text that is not kept counts for nothing.
  virtual void keep(int64_t max_tokens = kWhole) = 0;
  /// The same texts in any order give the same tokenizer.
  virtual std::shared_ptr<const Tokenizer> learn() const = 0;
};

/// A tokenizer that a config may name.
struct TokenizerEntry {
  config::NamedEntry named;  // its section has the settings of this tokenizer only
  std::function<std::unique_ptr<TokenizerLearner>(const config::Section&, const TokenizerOptions&)> learner;
  /// Reads back what save() wrote. Damage, or the file of another tokenizer, is an Error that names the file.
  std::function<std::shared_ptr<const Tokenizer>(const config::Section&, const TokenizerOptions&,
                                                 const std::filesystem::path& file)>
      load;
};

/// Every tokenizer.
const std::vector<TokenizerEntry>& all_tokenizers();

/// `tokenizer: {name: ..., ...}` of a section of data: which tokenizer, and its settings. By default words, as runs of
/// 0.1 have no such key.
struct TokenizerChoice {
  config::Named named;

  TokenizerChoice();
  void fields(config::Fields& f);
  std::unique_ptr<TokenizerLearner> learner(const TokenizerOptions& options) const;
  std::shared_ptr<const Tokenizer> load(const TokenizerOptions& options, const std::filesystem::path& file) const;
};

/// Learns from whole texts.
std::shared_ptr<const Tokenizer> make_tokenizer(const TokenizerChoice& choice, const TokenizerOptions& options,
                                                const std::vector<std::string>& texts);

}  // namespace fovea::data
