#include "fovea/core/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace fovea {
namespace {

constexpr size_t kLongestWord = 100;  // longer words are no slip of the fingers

std::string folded(std::string_view word) {
  std::string result(word);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-') c = '_';
  }
  return result;
}

// Letters to add, drop, change or swap with their neighbour (Damerau-Levenshtein, each place edited
// once).
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  if (word.empty() || word.size() > kLongestWord) return {};
  const std::string key = folded(word);
  std::string best;
  size_t best_distance = std::numeric_limits<size_t>::max();
  for (const std::string& candidate : candidates) {
    if (candidate.empty() || candidate.size() > kLongestWord) continue;
    const std::string other = folded(candidate);
    const size_t shorter = std::min(key.size(), other.size());
    const size_t allowed = shorter < 2 ? 0 : std::max<size_t>(1, std::max(key.size(), other.size()) / 3);
    size_t distance = edit_distance(key, other);
    const bool is_part = shorter >= 4 && (other.find(key) != std::string::npos || key.find(other) != std::string::npos);
    if (distance > allowed && !is_part) continue;
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string near = nearest(word, candidates);
  return near.empty() ? std::string() : fmt::format("; did you mean '{}'?", near);
}

}  // namespace fovea
