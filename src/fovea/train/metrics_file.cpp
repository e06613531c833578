#include "fovea/train/metrics_file.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "fovea/core/error.h"
#include "fovea/core/file.h"

namespace fovea::train {
namespace {

// Throws what nlohmann-json throws, or std::runtime_error.
MetricsFile::Line parse_metrics_line(std::string_view text) {
  const auto json = nlohmann::ordered_json::parse(text);
  if (!json.is_object()) throw std::runtime_error("expected an object");
  MetricsFile::Line line;
  line.kind = json.at("kind").get<std::string>();
  line.step = json.at("step").get<int64_t>();
  line.epoch = json.at("epoch").get<int64_t>();
  for (const auto& [name, value] : json.items()) {
    if (name == "kind" || name == "step" || name == "epoch") continue;
    if (!value.is_number() && !value.is_null()) throw std::runtime_error("expected a number for " + name);
    line.values.emplace_back(name, value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>());
  }
  return line;
}

std::string read_end(const std::filesystem::path& path, uint64_t bytes) {
  const InputFile file(path);
  const uint64_t size = std::min(file.size(), bytes);
  std::string text(size, '\0');
  file.read(file.size() - size, text.data(), size);
  if (size < file.size()) text.erase(0, text.find('\n') + 1);  // the first line may be half a line
  return text;
}

}  // namespace

std::optional<double> MetricsFile::Line::value(const std::string& name) const {
  for (const auto& [key, value] : values) {
    if (key == name) return value;
  }
  return std::nullopt;
}

Series MetricsFile::series(const std::string& kind, const std::string& measure) const {
  Series series{.name = kind + " " + measure};
  for (const Line& line : lines) {
    if (line.kind != kind) continue;
    if (const auto value = line.value(measure)) series.add(static_cast<double>(line.step), *value);
  }
  return series;
}

const MetricsFile::Line* MetricsFile::last(const std::string& kind) const {
  const auto found = std::find_if(lines.rbegin(), lines.rend(), [&](const Line& line) { return line.kind == kind; });
  return found == lines.rend() ? nullptr : &*found;
}

MetricsFile read_metrics(const std::filesystem::path& path, uint64_t bytes) {
  const std::string text = read_end(path, bytes);
  MetricsFile metrics;
  size_t number = 0;
  for (size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    ++number;
    try {
      metrics.lines.push_back(parse_metrics_line(std::string_view(text).substr(at, end - at)));
    } catch (const std::exception& error) {
      if (metrics.damaged++ > 0) continue;
      metrics.first_damage = fmt::format("{}:{}: expected a line of metrics: {}", path.string(), number, error.what());
    }
  }
  return metrics;
}

}  // namespace fovea::train
