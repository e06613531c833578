#include "fovea/data/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/core/utf8.h"

namespace fovea::data {
namespace {

/// A tokenizer that cuts text by a rule which needs no learning; what is learnt is the vocabulary. `Cut` has
///   kName, kSummary                 what it is called
///   cut(text, options)              the tokens of a text
///   join(tokens)                    the inverse, for normalized text
///   is_token(token)                 whether cut() may give it
template <typename Cut>
class CuttingTokenizer : public Tokenizer {
 public:
  CuttingTokenizer(const TextOptions& text, Vocabulary vocabulary)
      : Tokenizer(Cut::kName, text, std::move(vocabulary)) {}

  std::vector<int64_t> encode(std::string_view text_line) const override {
    return vocabulary().encode(Cut::cut(text_line, text()));
  }
  std::string decode(const std::vector<int64_t>& ids) const override { return Cut::join(vocabulary().decode(ids)); }
  std::string describe() const override { return fmt::format("{} {}", size(), Cut::kName); }
};

template <typename Cut>
class CuttingLearner : public TokenizerLearner {
 public:
  explicit CuttingLearner(const TokenizerOptions& options) : options_(options) {}

  int64_t read(std::string_view text) override {
    tokens_ = Cut::cut(text, options_.text);
    return static_cast<int64_t>(tokens_.size());
  }
  void keep(int64_t max_tokens) override {
    const auto count = std::min(tokens_.size(), static_cast<size_t>(std::max<int64_t>(max_tokens, 0)));
    for (size_t i = 0; i < count; ++i) ++frequencies_[tokens_[i]];
    tokens_.clear();
  }
  std::shared_ptr<const Tokenizer> learn() const override {
    return std::make_shared<CuttingTokenizer<Cut>>(options_.text, Vocabulary(frequencies_, options_.min_freq));
  }

 private:
  TokenizerOptions options_;
  std::vector<std::string> tokens_;  // of the text read last
  Vocabulary::Frequencies frequencies_;
};

struct WordCut {
  static constexpr const char* kName = "words";
  static constexpr const char* kSummary = "words, and punctuation marks on their own (d2l 10.5)";
  static std::vector<std::string> cut(std::string_view text, const TextOptions& options) {
    return to_tokens(text, options);
  }
  static std::string join(const std::vector<std::string>& tokens) { return detokenize(tokens); }
  static bool is_token(std::string_view token) { return token.find(' ') == std::string_view::npos; }
};

struct CharacterCut {
  static constexpr const char* kName = "characters";
  static constexpr const char* kSummary = "Unicode characters, the space among them; a run of white space is one space";
  static std::vector<std::string> cut(std::string_view text, const TextOptions& options) {
    return to_characters(text, options);
  }
  static std::string join(const std::vector<std::string>& tokens) {
    std::string text;
    for (const auto& token : tokens) text += token;
    return text;
  }
  static bool is_token(std::string_view token) { return utf8_length(token, 0) == token.size(); }
};

template <typename Cut>
std::shared_ptr<const Tokenizer> load_cutting(const TextOptions& text, const std::filesystem::path& file) {
  auto tokenizer = std::make_shared<CuttingTokenizer<Cut>>(text, Vocabulary::load(file));
  for (int64_t id = 0; id < tokenizer->size(); ++id) {
    if (tokenizer->is_reserved(id) || Cut::is_token(tokenizer->token(id))) continue;
    fail_usage("{}: expected the vocabulary of a tokenizer of {}, found the token \"{}\"", file.string(), Cut::kName,
               excerpt(tokenizer->token(id)));
  }
  return tokenizer;
}

template <typename Cut>
TokenizerEntry cutting_entry() {
  return {.named = {Cut::kName, Cut::kSummary, [] { return std::make_shared<config::EmptySection>(); }},
          .learner = [](const config::Section&, const TokenizerOptions& options) -> std::unique_ptr<TokenizerLearner> {
            return std::make_unique<CuttingLearner<Cut>>(options);
          },
          .load = [](const config::Section&, const TokenizerOptions& options,
                     const std::filesystem::path& file) { return load_cutting<Cut>(options.text, file); }};
}

}  // namespace

bool Tokenizer::operator==(const Tokenizer& other) const {
  return name_ == other.name_ && text_ == other.text_ && vocabulary_ == other.vocabulary_;
}

const std::vector<TokenizerEntry>& all_tokenizers() {
  static const std::vector<TokenizerEntry> entries = {cutting_entry<WordCut>(), cutting_entry<CharacterCut>()};
  return entries;
}

TokenizerChoice::TokenizerChoice()
    : named{all_tokenizers().front().named.name, all_tokenizers().front().named.make()} {}

void TokenizerChoice::fields(config::Fields& f) {
  f.named("tokenizer", named, config::named_of(all_tokenizers()),
          "what text is cut into; num_steps and min_freq count these");
}

std::unique_ptr<TokenizerLearner> TokenizerChoice::learner(const TokenizerOptions& options) const {
  return config::entry_named(all_tokenizers(), named.name).learner(*named.section, options);
}

std::shared_ptr<const Tokenizer> TokenizerChoice::load(const TokenizerOptions& options,
                                                       const std::filesystem::path& file) const {
  return config::entry_named(all_tokenizers(), named.name).load(*named.section, options, file);
}

std::shared_ptr<const Tokenizer> make_tokenizer(const TokenizerChoice& choice, const TokenizerOptions& options,
                                                const std::vector<std::string>& texts) {
  const auto learner = choice.learner(options);
  for (const auto& text : texts) {
    learner->read(text);
    learner->keep();
  }
  return learner->learn();
}

}  // namespace fovea::data
