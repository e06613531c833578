#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace fovea::data {

/// Tokens and their numbers, after d2l's `Vocab` (section 9.2): the reserved tokens and every token
/// that occurs at least min_freq times, sorted by code point, so that ids are a function of the
/// token set alone.
///
/// Reserved tokens stand for something other than text and are reached by name (`eos()`,
/// `reserved_id()`), never from text: a literal "<eos>" in a sentence is counted as nothing and
/// encodes to `<unk>`, so text cannot end or pad a sequence.
class Vocabulary {
 public:
  using Frequencies = std::unordered_map<std::string, int64_t>;

  /// How often each token of text occurs, `<bos>`, `<eos>`, `<pad>` not among them.
  /// `reserved` come in addition to the four that are always there: `<pad> <bos> <eos> <unk>`.
  /// Throws Error for a negative min_freq and for a kept token that is empty or not UTF-8.
  explicit Vocabulary(const Frequencies& frequencies, int64_t min_freq = 1,
                      const std::vector<std::string>& reserved = {});
  /// The same, counted in sentences.
  explicit Vocabulary(const std::vector<std::vector<std::string>>& sentences, int64_t min_freq = 1,
                      const std::vector<std::string>& reserved = {});

  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }
  int64_t pad() const { return pad_; }
  int64_t bos() const { return bos_; }
  int64_t eos() const { return eos_; }
  int64_t unk() const { return unk_; }

  /// The id of a token of text; unk() where it is unknown or reserved.
  int64_t id(std::string_view token) const;
  /// The id of a reserved token, e.g. "<mask>"; Error where there is none of that name.
  int64_t reserved_id(std::string_view token) const;
  /// Error unless 0 <= id < size().
  const std::string& token(int64_t id) const;
  bool is_reserved(int64_t id) const;

  /// The ids of tokens of text, one for each; no `<bos>` or `<eos>` is added.
  std::vector<int64_t> encode(const std::vector<std::string>& tokens) const;
  /// The tokens up to the first `<eos>`, without `<bos>` and `<pad>`. `<unk>` and other reserved
  /// tokens show.
  std::vector<std::string> decode(const std::vector<int64_t>& ids) const;

  /// Text that parse() reads back to an equal vocabulary: two header lines (version, count,
  /// checksum; the reserved tokens), then one token per line in the order of the ids, control
  /// characters and backslashes escaped.
  std::string dump() const;
  /// Throws Error, naming `file` and the line, for anything dump() would not have written: a blank
  /// line, a duplicate, CR LF, a count or checksum that does not fit, a missing reserved token.
  static Vocabulary parse(std::string_view text, const std::string& file);

  /// dump() into a file, atomically. Throws Error with the system's reason.
  void save(const std::filesystem::path& path) const;
  static Vocabulary load(const std::filesystem::path& path);

  /// Same tokens with the same ids, same reserved tokens.
  bool operator==(const Vocabulary& other) const;

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view token) const { return std::hash<std::string_view>{}(token); }
  };
  using Ids = std::unordered_map<std::string, int64_t, Hash, std::equal_to<>>;

  Vocabulary() = default;
  /// Takes distinct tokens, the reserved ones among them.
  void assign(std::vector<std::string> tokens, const std::vector<std::string>& reserved);

  std::vector<std::string> tokens_;
  Ids text_ids_;      // of tokens that text can reach
  Ids reserved_ids_;  // of those it cannot
  int64_t pad_ = 0, bos_ = 0, eos_ = 0, unk_ = 0;
};

}  // namespace fovea::data
