#include "fovea/metrics/bleu.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "fovea/core/error.h"
#include "fovea/core/version.h"
#include "fovea/data/spacing.h"
#include "fovea/data/text.h"

namespace fovea::metrics {
namespace {

constexpr size_t kMaxOrder = 4;
constexpr double kLogOfZero = -9999999999;  // sacreBLEU's

using NgramCounts = std::unordered_map<std::string, int64_t>;

/// The n-grams of one order, their tokens joined by spaces, which no token holds.
NgramCounts count_ngrams(const std::vector<std::string>& tokens, size_t order) {
  NgramCounts counts;
  for (size_t begin = 0; begin + order <= tokens.size(); ++begin) {
    std::string ngram = tokens[begin];
    for (size_t i = 1; i < order; ++i) (ngram += ' ') += tokens[begin + i];
    ++counts[ngram];
  }
  return counts;
}

int64_t count_matches(const std::vector<std::string>& pred, const std::vector<std::string>& label, size_t order) {
  const NgramCounts in_label = count_ngrams(label, order);
  int64_t matches = 0;
  for (const auto& [ngram, count] : count_ngrams(pred, order)) {
    const auto it = in_label.find(ngram);
    if (it != in_label.end()) matches += std::min(count, it->second);
  }
  return matches;
}

/// The bytes of the white space character that begins at text[at], as Python's str.split() knows
/// them; 0 if there is none. U+0009-000D, 001C-0020, 0085, 00A0, 1680, 2000-200A, 2028, 2029, 202F,
/// 205F, 3000.
size_t space_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U; };
  const unsigned first = byte(0);
  const unsigned second = byte(1);
  const unsigned third = byte(2);
  if ((first >= 0x09 && first <= 0x0d) || (first >= 0x1c && first <= 0x20)) return 1;
  if (first == 0xc2) return second == 0x85 || second == 0xa0 ? 2 : 0;
  if (first == 0xe1) return second == 0x9a && third == 0x80 ? 3 : 0;
  if (first == 0xe3) return second == 0x80 && third == 0x80 ? 3 : 0;
  if (first != 0xe2) return 0;
  if (second == 0x81) return third == 0x9f ? 3 : 0;
  const bool space = (third >= 0x80 && third <= 0x8a) || third == 0xa8 || third == 0xa9 || third == 0xaf;
  return second == 0x80 && space ? 3 : 0;
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> tokens;
  bool in_token = false;
  for (size_t at = 0; at < text.size();) {
    if (const size_t space = space_at(text, at); space > 0) {
      in_token = false;
      at += space;
      continue;
    }
    if (!in_token) tokens.emplace_back();
    tokens.back() += text[at++];
    in_token = true;
  }
  return tokens;
}

std::string_view strip_end(std::string_view text) {
  size_t end = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t space = space_at(text, at);
    at += std::max<size_t>(space, 1);
    if (space == 0) end = at;
  }
  return text.substr(0, end);
}

std::string replace_all(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_stop(char c) {
  return c == '.' || c == ',';
}

/// [\{-\~\[-\` -\&\(-\+\:-\@\/]: ASCII punctuation but for ' , - and .
bool is_symbol(char c) {
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') ||
         (c >= ':' && c <= '@') || c == '/';
}

/// Replaces, from left to right, each pair of neighbours for which `matches` by before + first +
/// between + second + after. As re.sub does, a pair is consumed: its second byte is not the first
/// of another. Bytes will do for characters: a pair's one side is ASCII, and the spaces go to the
/// outer side of the other or beside the ASCII one.
template <typename Matches>
std::string space_pairs(const std::string& text, Matches matches, const char* before, const char* after) {
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  size_t at = 0;
  for (; at + 1 < text.size(); ++at) {
    if (!matches(text[at], text[at + 1])) {
      out += text[at];
      continue;
    }
    ((((out += before) += text[at]) += ' ') += text[at + 1]) += after;
    ++at;
  }
  return out.append(text, at);
}

}  // namespace

double bleu(const std::vector<std::string>& pred_tokens, const std::vector<std::string>& label_tokens, int64_t k) {
  if (k < 1) fail("bleu: expected k of at least 1, found {}", k);
  if (pred_tokens.empty() || label_tokens.empty()) return 0;
  const auto len_pred = static_cast<double>(pred_tokens.size());
  const auto len_label = static_cast<double>(label_tokens.size());
  double score = std::exp(std::min(0.0, 1 - len_label / len_pred));
  const size_t orders = std::min(static_cast<size_t>(k), pred_tokens.size());
  for (size_t n = 1; n <= orders; ++n) {
    const auto matches = static_cast<double>(count_matches(pred_tokens, label_tokens, n));
    score *= std::pow(matches / static_cast<double>(pred_tokens.size() - n + 1), std::pow(0.5, n));
  }
  return score;
}

std::vector<std::string> tokenize_13a(std::string_view text) {
  std::string line = replace_all(std::string(text), "<skipped>", "");
  line = replace_all(std::move(line), "-\n", "");
  line = replace_all(std::move(line), "\n", " ");
  line = replace_all(std::move(line), "&quot;", "\"");
  line = replace_all(std::move(line), "&amp;", "&");
  line = replace_all(std::move(line), "&lt;", "<");
  line = replace_all(std::move(line), "&gt;", ">");

  std::string spaced = " ";
  for (const char c : line) {
    if (is_symbol(c)) {
      ((spaced += ' ') += c) += ' ';
    } else {
      spaced += c;
    }
  }
  spaced += ' ';
  spaced = space_pairs(
      spaced, [](char a, char b) { return !is_digit(a) && is_stop(b); }, "", " ");
  spaced = space_pairs(
      spaced, [](char a, char b) { return is_stop(a) && !is_digit(b); }, " ", "");
  spaced = space_pairs(
      spaced, [](char a, char b) { return is_digit(a) && b == '-'; }, "", " ");
  return split(spaced);
}

BleuScore corpus_bleu(const std::vector<std::string>& hypotheses, const std::vector<std::string>& references,
                      const BleuOptions& options) {
  if (hypotheses.size() != references.size()) {
    fail("BLEU: expected as many hypotheses as references, found {} and {}", hypotheses.size(), references.size());
  }
  if (hypotheses.empty()) fail("BLEU: expected lines to score, found none");
  bool is_unified = false;
  const auto tokens_of = [&](const std::string& text) {
    const std::string seen = options.unify ? data::unify_characters(text) : text;
    is_unified = is_unified || seen != text;
    return tokenize_13a(strip_end(options.lowercase ? data::lower(seen) : seen));
  };
  BleuScore bleu;
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    const std::vector<std::string> hypothesis = tokens_of(hypotheses[i]);
    const std::vector<std::string> reference = tokens_of(references[i]);
    bleu.hypothesis_length += static_cast<int64_t>(hypothesis.size());
    bleu.reference_length += static_cast<int64_t>(reference.size());
    for (size_t n = 1; n <= std::min(kMaxOrder, hypothesis.size()); ++n) {
      bleu.counts[n - 1] += count_matches(hypothesis, reference, n);
      bleu.totals[n - 1] += static_cast<int64_t>(hypothesis.size() - n + 1);
    }
  }
  bleu.signature = fmt::format("nrefs:1|case:{}{}|eff:no|tok:13a|smooth:exp|version:fovea-{}",
                               options.lowercase ? "lc" : "mixed", is_unified ? "|chars:unified" : "", kVersion);
  if (data::lacks_spaces(references)) {
    bleu.warning =
        "the references have no spaces between words, and BLEU with 13a tokens takes each clause for one word: the "
        "score "
        "means little; cut the texts into characters or words first, or score them with sacrebleu -tok zh, ja-mecab or "
        "char";
  }

  const auto hypothesis_length = static_cast<double>(bleu.hypothesis_length);
  const auto reference_length = static_cast<double>(bleu.reference_length);
  bleu.brevity_penalty = 1;
  if (bleu.hypothesis_length < bleu.reference_length) {
    bleu.brevity_penalty = bleu.hypothesis_length > 0 ? std::exp(1 - reference_length / hypothesis_length) : 0;
  }
  if (bleu.counts[0] == 0) return bleu;  // without a matching word nothing longer matches either
  double smoothing = 1;
  for (size_t n = 0; n < kMaxOrder && bleu.totals[n] > 0; ++n) {
    const auto total = static_cast<double>(bleu.totals[n]);
    if (bleu.counts[n] == 0) {
      smoothing *= 2;
      bleu.precisions[n] = 100 / (smoothing * total);
    } else {
      bleu.precisions[n] = 100 * static_cast<double>(bleu.counts[n]) / total;
    }
  }
  double sum = 0;
  for (const double precision : bleu.precisions) sum += precision == 0 ? kLogOfZero : std::log(precision);
  bleu.score = bleu.brevity_penalty * std::exp(sum / kMaxOrder);
  return bleu;
}

std::string BleuScore::format() const {
  const double ratio =
      reference_length > 0 ? static_cast<double>(hypothesis_length) / static_cast<double>(reference_length) : 0;
  return fmt::format(
      "BLEU = {:.2f} {:.1f}/{:.1f}/{:.1f}/{:.1f} (BP = {:.3f} ratio = {:.3f} hyp_len = {} ref_len "
      "= {})",
      score, precisions[0], precisions[1], precisions[2], precisions[3], brevity_penalty, ratio, hypothesis_length,
      reference_length);
}

}  // namespace fovea::metrics
