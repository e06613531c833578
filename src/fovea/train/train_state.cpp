#include "fovea/train/train_state.h"

#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/core/file.h"

namespace fovea::train {
namespace {

constexpr int kFormat = 1;
constexpr uint64_t kMaxBytes = 1 << 20;

// The one list of what is saved, for both directions.
template <typename State, typename Visitor>
void visit(State& s, Visitor v) {
  v("epoch", s.epoch);
  v("batch", s.batch);
  v("step", s.step);
  v("loss_sum", s.loss_sum);
  v("loss_count", s.loss_count);
  v("window_loss_sum", s.window_loss_sum);
  v("window_loss_count", s.window_loss_count);
  v("best", s.best);
  v("best_step", s.best_step);
  v("validations_without_best", s.validations_without_best);
  v("elapsed_seconds", s.elapsed_seconds);
  v("data_fingerprint", s.data_fingerprint);
  v("metrics_bytes", s.metrics_bytes);
}

template <typename T>
void put(nlohmann::json& json, const char* key, const T& value) {
  json[key] = value;
}
void put(nlohmann::json& json, const char* key, const std::optional<double>& value) {
  json[key] = value ? nlohmann::json(*value) : nlohmann::json();
}
template <typename T>
void get(const nlohmann::json& json, T& value) {
  if (std::is_integral_v<T> && !json.is_number_integer()) throw std::runtime_error("expected a whole number");
  value = json.get<T>();
}
void get(const nlohmann::json& json, std::optional<double>& value) {
  value = json.is_null() ? std::nullopt : std::optional(json.get<double>());
}

}  // namespace

void save_state(const TrainState& state, const std::filesystem::path& path) {
  nlohmann::json json = {{"format", kFormat}};
  visit(state, [&](const char* key, const auto& value) { put(json, key, value); });
  write_file(path, json.dump(2) + "\n");
}

TrainState load_state(const std::filesystem::path& path) {
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(read_file(path, kMaxBytes));
  } catch (const nlohmann::json::exception& e) {
    fail("{}: expected JSON: {}", path.string(), e.what());
  }
  if (!json.is_object() || json.value("format", 0) != kFormat) {
    fail("{}: expected the training state in format {}", path.string(), kFormat);
  }
  TrainState state;
  size_t known = 1;
  visit(state, [&](const char* key, auto& value) {
    ++known;
    if (!json.contains(key)) fail("{}: '{}' is missing", path.string(), key);
    try {
      get(json[key], value);
    } catch (const std::exception& e) {
      fail("{}: '{}': {}", path.string(), key, e.what());
    }
  });
  if (json.size() != known) fail("{}: there are {} keys, expected {}", path.string(), json.size(), known);
  return state;
}

}  // namespace fovea::train
