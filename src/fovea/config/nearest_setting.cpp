#include "fovea/config/nearest_setting.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "fovea/core/suggest.h"

namespace fovea::config {
namespace {

constexpr auto kAbbreviations = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"lr", "learning_rate"},
    {"bs", "batch_size"},
    {"batch", "batch_size"},
    {"epochs", "max_epochs"},
    {"num_epochs", "max_epochs"},
    {"wd", "weight_decay"},
    {"heads", "num_heads"},
    {"layers", "num_blks"},
    {"num_layers", "num_blks"},
    {"hidden", "num_hiddens"},
    {"hidden_size", "num_hiddens"},
    {"d_model", "num_hiddens"},
});

std::string last_part(const std::string& key) {
  return key.substr(key.rfind('.') + 1);
}

std::vector<std::string> ending_in(std::string_view last, const std::vector<Explained>& lines) {
  std::vector<std::string> found;
  for (const Explained& line : lines) {
    const bool is_new = std::find(found.begin(), found.end(), line.key) == found.end();
    if (line.what != Explained::What::kName && last_part(line.key) == last && is_new) found.push_back(line.key);
  }
  return found;
}

}  // namespace

std::vector<std::string> settings_called(const std::string& word, const std::vector<Explained>& lines) {
  std::string wanted = word;
  std::replace(wanted.begin(), wanted.end(), '-', '_');
  std::vector<std::string> found = ending_in(wanted, lines);
  if (!found.empty()) return found;
  for (const auto& [abbreviation, full] : kAbbreviations) {
    if (abbreviation == wanted) return ending_in(full, lines);
  }
  return {};
}

std::string nearest_setting(const std::string& word, const std::vector<Explained>& lines) {
  const auto called = settings_called(word, lines);
  if (!called.empty()) return called.front();
  std::vector<std::string> last_parts;
  for (const Explained& line : lines) {
    if (line.what == Explained::What::kSetting) last_parts.push_back(last_part(line.key));
  }
  const std::string near = nearest(word, last_parts);
  return near.empty() ? near : ending_in(near, lines).front();
}

}  // namespace fovea::config
