// Translates with a file that `fovea export RUN -o model.pt` wrote. Needs LibTorch, and nothing of fovea.
//
//     translate model.pt "It's cold in Spain."
//     translate model.pt --beam 4 < lines.txt
//
// Text is UTF-8. Spaces, lower case and punctuation are treated as in training, with the C library's tables. It has
// none to compose characters (NFC), so that an `e` followed by a combining accent is another word than `é`; nearly all
// text is composed already, and `uconv -x nfc` does the rest.
#include <torch/script.h>

#include <algorithm>
#include <clocale>
#include <cstdlib>
#include <cwctype>
#include <iostream>
#include <sstream>
#include <unordered_map>
#include <unordered_set>

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::wstring to_wide(const std::string& text) {
  std::wstring wide(text.size(), L'\0');
  const size_t length = std::mbstowcs(wide.data(), text.c_str(), wide.size());
  if (length == static_cast<size_t>(-1)) throw std::runtime_error("expected UTF-8, found: " + text);
  wide.resize(length);
  return wide;
}

std::string to_utf8(const std::wstring& wide) {
  std::string text(wide.size() * 4 + 1, '\0');
  text.resize(std::wcstombs(text.data(), wide.c_str(), text.size()));
  return text;
}

// No-break spaces are spaces too; for iswspace they are not.
bool is_space(wchar_t c) {
  return std::iswspace(static_cast<wint_t>(c)) != 0 || c == 0xA0 || c == 0x2007 || c == 0x202F || c == 0x85 ||
         (c >= 0x1C && c <= 0x1F);
}

// Without a shape.
bool is_invisible(wchar_t c) {
  return c == 0xAD || c == 0x61C || c == 0x200B || c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) ||
         (c >= 0x2060 && c <= 0x2064) || (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF;
}

// Whose shape a joiner may change.
bool is_joined(wchar_t c) {
  return c >= 0x590 && !is_space(c) && !is_invisible(c) && !(c >= 0x2000 && c <= 0x206F) &&
         !(c >= 0x3000 && c <= 0x303F);
}

// The text as one sees it: nothing without a shape, joiners only where they join, U+2019 as an apostrophe unless it
// closes a quotation that U+2018 opened.
std::wstring unify(std::wstring text) {
  text.erase(std::remove_if(text.begin(), text.end(), is_invisible), text.end());
  const auto is_letter = [](wchar_t c) { return std::iswalnum(static_cast<wint_t>(c)) != 0; };
  std::wstring out;
  int open_quotes = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const wchar_t before = out.empty() ? L' ' : out.back(), after = i + 1 < text.size() ? text[i + 1] : L' ';
    wchar_t c = text[i];
    if (c == 0x200C && !(is_joined(before) && is_joined(after))) continue;
    if (c == 0x200D && !is_joined(before)) continue;
    if (c == 0x2018) ++open_quotes;
    if (c == 0x2019 && ((is_letter(before) && is_letter(after)) || open_quotes == 0)) {
      c = L'\'';
    } else if (c == 0x2019) {
      --open_quotes;
    }
    out += c;
  }
  return out;
}

class Translator {
 public:
  explicit Translator(const std::string& path) {
    torch::jit::ExtraFilesMap files = {{"source_tokens.txt", ""}, {"target_tokens.txt", ""}};
    model_ = torch::jit::load(path, torch::kCPU, files);
    target_ = lines_of(files["target_tokens.txt"]);
    const std::string tokenizer = model_.hasattr("tokenizer") ? model_.attr("tokenizer").toStringRef() : "words";
    is_by_characters_ = tokenizer == "characters";
    if (!is_by_characters_ && tokenizer != "words") {
      throw std::runtime_error(path + ": expected a tokenizer of words or characters, found " + tokenizer);
    }
    // A text that says "<eos>" does not mean the end: reserved tokens are reached by number only.
    std::unordered_set<std::string> reserved;
    for (const c10::IValue& token : model_.attr("source_reserved").toListRef()) reserved.insert(token.toStringRef());
    int64_t id = 0;
    for (const std::string& token : lines_of(files["source_tokens.txt"])) {
      if (reserved.count(token) == 0) ids_[token] = id;
      ++id;
    }
  }

  // One translation for each text.
  std::vector<std::string> operator()(const std::vector<std::string>& texts, int64_t beam) {
    const torch::NoGradGuard no_grad;
    std::vector<std::vector<int64_t>> sources;
    std::vector<int64_t> lengths;
    for (const auto& text : texts) {
      sources.push_back(encode(text));
      lengths.push_back(static_cast<int64_t>(sources.back().size()));
    }
    const int64_t longest = std::max<int64_t>(1, *std::max_element(lengths.begin(), lengths.end()));
    auto padded = torch::full({static_cast<int64_t>(texts.size()), longest}, integer("source_pad"), torch::kLong);
    for (size_t i = 0; i < sources.size(); ++i) {
      padded[static_cast<int64_t>(i)].narrow(0, 0, lengths[i]).copy_(torch::tensor(sources[i], torch::kLong));
    }
    const auto outputs = model_.run_method("generate", padded, torch::tensor(lengths), beam).toTuple();
    const auto tokens = outputs->elements()[0].toTensor();  // (batch, n_best = 1, steps)
    const auto found = outputs->elements()[1].toTensor();   // (batch, n_best = 1): their lengths
    std::vector<std::string> translations;
    for (int64_t i = 0; i < tokens.size(0); ++i) {
      std::string text;
      for (int64_t t = 0; t < found[i][0].item<int64_t>(); ++t) {
        const std::string& token = target_.at(static_cast<size_t>(tokens[i][0][t].item<int64_t>()));
        text += (is_by_characters_ || text.empty() || token.find_first_of(",.!?") == 0 ? "" : " ") + token;
      }
      translations.push_back(text);
    }
    return translations;
  }

 private:
  int64_t integer(const char* name) const { return model_.attr(name).toInt(); }

  // Words, with punctuation marks on their own, or characters.
  std::vector<std::string> tokenize(const std::string& text) const {
    const bool lowercase = model_.attr("lowercase").toBool();
    const bool unifies = model_.hasattr("unify_characters") && model_.attr("unify_characters").toBool();
    std::wstring spaced;
    for (const wchar_t c : unifies ? unify(to_wide(text)) : to_wide(text)) {
      const bool is_mark = std::wstring(L",.!?").find(c) != std::wstring::npos;
      if (is_mark && !is_by_characters_) spaced += L' ';
      spaced += is_space(c) ? L' ' : lowercase ? static_cast<wchar_t>(std::towlower(static_cast<wint_t>(c))) : c;
    }
    std::istringstream words(to_utf8(spaced));
    std::vector<std::string> tokens;
    for (std::string word; std::getline(words, word, ' ');) {
      if (word.empty()) continue;
      if (!is_by_characters_) {
        tokens.push_back(word);
        continue;
      }
      if (!tokens.empty()) tokens.push_back(" ");
      for (const wchar_t c : to_wide(word)) tokens.push_back(to_utf8(std::wstring(1, c)));
    }
    return tokens;
  }

  // Ids and <eos>, cut to what the model takes; nothing for a blank text.
  std::vector<int64_t> encode(const std::string& text) const {
    std::vector<int64_t> ids;
    for (const auto& token : tokenize(text)) {
      if (static_cast<int64_t>(ids.size()) == integer("num_steps") - 1) break;
      const auto known = ids_.find(token);
      ids.push_back(known == ids_.end() ? integer("source_unk") : known->second);
    }
    if (!ids.empty()) ids.push_back(integer("source_eos"));
    return ids;
  }

  torch::jit::Module model_;
  bool is_by_characters_ = false;
  std::unordered_map<std::string, int64_t> ids_;
  std::vector<std::string> target_;
};

int run(const std::vector<std::string>& arguments) {
  std::vector<std::string> words;
  int64_t beam = 1;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--beam" && i + 1 < arguments.size()) {
      beam = std::stoll(arguments[++i]);
    } else {
      words.push_back(arguments[i]);
    }
  }
  if (words.empty()) throw std::invalid_argument("usage: translate MODEL [--beam N] [TEXT...]");
  Translator translate(words[0]);
  std::vector<std::string> batch(words.begin() + 1, words.end());
  const bool is_piped = batch.empty();
  const auto flush = [&] {
    if (batch.empty()) return;
    for (const auto& text : translate(batch, beam)) std::cout << text << "\n";
    batch.clear();
  };
  for (std::string line; is_piped && std::getline(std::cin, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    batch.push_back(line);
    if (batch.size() == 64) flush();
  }
  flush();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::setlocale(LC_CTYPE, "C.UTF-8");
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
