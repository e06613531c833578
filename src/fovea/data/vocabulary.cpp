#include "fovea/data/vocabulary.h"

#include "fovea/core/error.h"
#include "fovea/core/file.h"
#include "fovea/core/gzip.h"
#include "fovea/core/utf8.h"
#include "fovea/data/text.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

namespace fovea::data {
namespace {

constexpr std::string_view kMagic = "fovea-vocabulary 1";
constexpr std::string_view kReservedKey = "reserved";
const std::vector<std::string> kAlwaysReserved = {"<bos>", "<eos>", "<pad>", "<unk>"};

/// One line of the file for one token: backslash and control characters as \\ and \xHH, all else as
/// it is.
std::string escape(std::string_view token) {
  std::string line;
  for (const char c : token) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\\') {
      line += "\\\\";
    } else if (byte < 0x20 || byte == 0x7F) {
      line += fmt::format("\\x{:02x}", byte);
    } else {
      line += c;
    }
  }
  return line;
}

/// The inverse; nothing for a line that escape() does not write.
std::optional<std::string> unescape(std::string_view line) {
  std::string token;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\\') {
      token += line[i];
    } else if (line.substr(i + 1, 1) == "\\") {
      token += '\\';
      i += 1;
    } else {
      unsigned value = 0;
      const std::string_view digits = line.substr(i).substr(0, 4);
      if (digits.size() != 4 || digits[1] != 'x') return std::nullopt;
      const auto [end, error] = std::from_chars(digits.data() + 2, digits.data() + 4, value, 16);
      if (error != std::errc{} || end != digits.data() + 4) return std::nullopt;
      token += static_cast<char>(value);
      i += 3;
    }
  }
  if (escape(token) != line) return std::nullopt;
  return token;
}

std::string format_header(int64_t count, uint32_t checksum) {
  return fmt::format("{} tokens={} crc32={:08x}", kMagic, count, checksum);
}

/// Walks over the lines of a vocabulary file; its errors name the file and the line.
class Lines {
 public:
  Lines(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  bool done() const { return text_.empty(); }

  std::string_view next() {
    ++number_;
    const size_t end = text_.find('\n');
    if (end == std::string_view::npos) fail_here("expected a line that ends in LF, found the end of the file");
    const std::string_view line = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    if (line.ends_with('\r')) fail_here("expected a line that ends in LF, found CR LF");
    return line;
  }

  std::string to_token(std::string_view escaped) const {
    if (escaped.empty()) fail_here("expected a token, found nothing");
    const std::optional<std::string> token = unescape(escaped);
    if (!token)
      fail_here(fmt::format("expected a token with \\\\ and \\xHH as escapes, found \"{}\"", excerpt(escaped)));
    return *token;
  }

  [[noreturn]] void fail_here(std::string_view message) const { fail_usage("{}:{}: {}", file_, number_, message); }

 private:
  std::string_view text_;
  const std::string& file_;
  int64_t number_ = 0;
};

/// "reserved<TAB>token<TAB>token..."
std::vector<std::string> parse_reserved(std::string_view line, const Lines& lines) {
  if (!line.starts_with(kReservedKey)) {
    lines.fail_here(fmt::format("expected \"{}\" and the reserved tokens, found \"{}\"", kReservedKey, excerpt(line)));
  }
  line.remove_prefix(kReservedKey.size());
  std::vector<std::string> reserved;
  while (line.starts_with('\t')) {
    line.remove_prefix(1);
    const std::string_view field = line.substr(0, line.find('\t'));
    reserved.push_back(lines.to_token(field));
    line.remove_prefix(field.size());
  }
  for (const auto& token : kAlwaysReserved) {
    if (std::find(reserved.begin(), reserved.end(), token) == reserved.end()) {
      lines.fail_here(fmt::format("expected {} among the reserved tokens, found it missing", token));
    }
  }
  return reserved;
}

Vocabulary::Frequencies count_tokens(const std::vector<std::vector<std::string>>& sentences) {
  Vocabulary::Frequencies frequencies;
  for (const auto& sentence : sentences) {
    for (const auto& token : sentence) ++frequencies[token];
  }
  return frequencies;
}

}  // namespace

Vocabulary::Vocabulary(const Frequencies& frequencies, int64_t min_freq, const std::vector<std::string>& reserved) {
  if (min_freq < 0) fail_usage("min_freq: expected 0 or more, found {}", min_freq);
  std::set<std::string> special(kAlwaysReserved.begin(), kAlwaysReserved.end());
  special.insert(reserved.begin(), reserved.end());

  std::set<std::string> kept = special;  // std::string compares bytes as unsigned: the order of the code points
  for (const auto& [token, frequency] : frequencies) {
    if (frequency >= min_freq) kept.emplace(token);
  }
  for (const auto& token : kept) {
    if (token.empty()) fail_usage("vocabulary: expected tokens of one character or more, found an empty one");
    if (!is_utf8(token)) fail_usage("vocabulary: expected tokens in UTF-8, found \"{}\"", excerpt(token));
  }
  assign({kept.begin(), kept.end()}, {special.begin(), special.end()});
}

Vocabulary::Vocabulary(const std::vector<std::vector<std::string>>& sentences, int64_t min_freq,
                       const std::vector<std::string>& reserved)
    : Vocabulary(count_tokens(sentences), min_freq, reserved) {}

void Vocabulary::assign(std::vector<std::string> tokens, const std::vector<std::string>& reserved) {
  tokens_ = std::move(tokens);
  text_ids_.clear();
  reserved_ids_.clear();
  const std::set<std::string_view> special(reserved.begin(), reserved.end());
  for (int64_t i = 0; i < size(); ++i) {
    const std::string& token = tokens_[static_cast<size_t>(i)];
    (special.contains(token) ? reserved_ids_ : text_ids_).emplace(token, i);
  }
  pad_ = reserved_id("<pad>");
  bos_ = reserved_id("<bos>");
  eos_ = reserved_id("<eos>");
  unk_ = reserved_id("<unk>");
}

int64_t Vocabulary::id(std::string_view token) const {
  const auto found = text_ids_.find(token);
  return found == text_ids_.end() ? unk_ : found->second;
}

int64_t Vocabulary::reserved_id(std::string_view token) const {
  const auto found = reserved_ids_.find(token);
  if (found == reserved_ids_.end()) fail("vocabulary: expected a reserved token {}, found none", token);
  return found->second;
}

const std::string& Vocabulary::token(int64_t id) const {
  if (id < 0 || id >= size()) fail("vocabulary: expected an id from 0 to {}, found {}", size() - 1, id);
  return tokens_[static_cast<size_t>(id)];
}

bool Vocabulary::is_reserved(int64_t id) const {
  return reserved_ids_.contains(token(id));
}

std::vector<int64_t> Vocabulary::encode(const std::vector<std::string>& tokens) const {
  std::vector<int64_t> ids;
  ids.reserve(tokens.size());
  for (const auto& token : tokens) ids.push_back(id(token));
  return ids;
}

std::vector<std::string> Vocabulary::decode(const std::vector<int64_t>& ids) const {
  std::vector<std::string> tokens;
  for (const int64_t id : ids) {
    if (id == eos_) break;
    if (id != bos_ && id != pad_) tokens.push_back(token(id));
  }
  return tokens;
}

std::string Vocabulary::dump() const {
  std::string body(kReservedKey);
  for (const auto& token : tokens_) {
    if (reserved_ids_.contains(token)) body.append(1, '\t').append(escape(token));
  }
  body += '\n';
  for (const auto& token : tokens_) body += escape(token) + "\n";
  return format_header(size(), crc32(body)) + "\n" + body;
}

Vocabulary Vocabulary::parse(std::string_view text, const std::string& file) {
  check_utf8(text, file);
  Lines lines(text, file);
  const std::string_view header = lines.next();
  if (!header.starts_with(kMagic)) {
    lines.fail_here(fmt::format("expected a vocabulary (\"{} ...\"), found \"{}\"", kMagic, excerpt(header)));
  }
  const std::vector<std::string> reserved = parse_reserved(lines.next(), lines);
  std::vector<std::string> tokens;
  std::set<std::string> seen;
  while (!lines.done()) {
    const std::string_view line = lines.next();
    tokens.push_back(lines.to_token(line));
    if (!seen.insert(tokens.back()).second) {
      lines.fail_here(fmt::format("expected each token once, found \"{}\" again", excerpt(line)));
    }
  }
  for (const auto& token : reserved) {
    if (!seen.contains(token)) fail_usage("{}: expected a line for the reserved token {}, found none", file, token);
  }
  if (!header.starts_with(fmt::format("{} tokens={} ", kMagic, tokens.size()))) {
    fail_usage("{}:1: expected as many tokens as the header says (\"{}\"), found {}", file, excerpt(header),
               tokens.size());
  }
  Vocabulary vocabulary;
  vocabulary.assign(std::move(tokens), reserved);
  // Whatever else may be odd shows here: with the checksum in the header, equal text means an
  // undamaged file.
  if (vocabulary.dump() != text) {
    fail_usage(
        "{}: expected the tokens that the checksum in its first line stands for, found others: the "
        "file was changed "
        "after it was written",
        file);
  }
  return vocabulary;
}

void Vocabulary::save(const std::filesystem::path& path) const {
  replace_file(path, dump());
}

Vocabulary Vocabulary::load(const std::filesystem::path& path) {
  return parse(read_file(path, kMaxInputBytes), path.string());
}

bool Vocabulary::operator==(const Vocabulary& other) const {
  return tokens_ == other.tokens_ && reserved_ids_ == other.reserved_ids_;
}

}  // namespace fovea::data
