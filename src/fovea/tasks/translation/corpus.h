#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::translation {

/// A sentence and its translation, as they stand in the file: text that BLEU may take for its
/// reference.
struct Pair {
  std::string source, target;

  bool operator==(const Pair&) const = default;
};

/// What became of the lines of a corpus; lines = kept + skipped_blank + skipped_one_sided.
struct ReadCounts {
  int64_t lines = 0;
  int64_t kept = 0;
  int64_t skipped_blank = 0;      // nothing but white space
  int64_t skipped_one_sided = 0;  // a source or a target, not both

  bool operator==(const ReadCounts&) const = default;
};

struct Corpus {
  std::vector<Pair> pairs;     // in the order of the file
  std::vector<int64_t> lines;  // of each pair, from 1 on
  ReadCounts counts;

  /// For people: "3 lines: 1 pair kept, 1 blank and 1 one-sided line skipped".
  std::string describe() const;
};

/// What makes it doubtful that the lines are sentence pairs, each with its numbers, for people: most of them hold none,
/// the target repeats the source, the first one names columns, fields are in CSV's quotes. Empty where all is well.
std::vector<std::string> doubts(const Corpus& corpus);

/// Reads "source<TAB>target" lines, plain or gzip; third and later columns (Tatoeba's attribution)
/// are ignored. A line without a tab is one-sided; a field of nothing but Unicode white space is
/// blank (and one of characters without a shape, if `unify`: data::unify_characters). Throws Error as read_maybe_gzip()
/// and check_utf8() do, and where no pair is left, saying why.
Corpus read_tsv(const std::filesystem::path& path, bool unify = true);

/// Reads two files that hold the same number of lines, a sentence and its translation on each,
/// plain or gzip. Throws Error as read_tsv() does, and where the numbers of lines differ.
Corpus read_parallel(const std::filesystem::path& source, const std::filesystem::path& target, bool unify = true);

/// The same for text that is in memory already; the names stand for it in errors.
Corpus parse_tsv(std::string_view text, const std::string& name, bool unify = true);
Corpus parse_parallel(std::string_view source, std::string_view target, const std::string& source_name,
                      const std::string& target_name, bool unify = true);

}  // namespace fovea::translation
