#include "fovea/train/train_state.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/core/file.h"

namespace fovea::train {
namespace {

constexpr int kStateFormat = 2;
constexpr int kStateFormatOf01 = 1;  // of fovea 0.1, which knew one term, the loss
constexpr uint64_t kMaxStateBytes = 1 << 20;

// What both formats have, for both directions.
template <typename State, typename Visitor>
void visit(State& s, Visitor v) {
  v("epoch", s.epoch);
  v("batch", s.batch);
  v("step", s.step);
  v("best", s.best);
  v("best_step", s.best_step);
  v("validations_without_best", s.validations_without_best);
  v("elapsed_seconds", s.elapsed_seconds);
  v("data_fingerprint", s.data_fingerprint);
  v("metrics_bytes", s.metrics_bytes);
}

template <typename State, typename Visitor>
void visit_2(State& s, Visitor v) {
  visit(s, v);
  v("validated_step", s.validated_step);
  v("epoch_terms", s.epoch_terms);
  v("window_terms", s.window_terms);
}

template <typename T>
void put(nlohmann::json& json, const T& value) {
  json = value;
}
void put(nlohmann::json& json, const std::optional<double>& value) {
  json = value ? nlohmann::json(*value) : nlohmann::json();
}
void put(nlohmann::json& json, const TermSums& terms) {
  json = nlohmann::json::array();
  for (const auto& term : terms.all()) json.push_back({term.name, term.sum, term.count});
}

template <typename T>
void get(const nlohmann::json& json, T& value) {
  if (std::is_integral_v<T> && !json.is_number_integer()) throw std::runtime_error("expected a whole number");
  value = json.get<T>();
}
void get(const nlohmann::json& json, std::optional<double>& value) {
  value = json.is_null() ? std::nullopt : std::optional(json.get<double>());
}
void get(const nlohmann::json& json, TermSums& terms) {
  for (const auto& term : json) {
    if (!term.is_array() || term.size() != 3) throw std::runtime_error("expected [name, sum, count]");
    int64_t count = 0;
    get(term[2], count);
    terms.add(term[0].get<std::string>(), term[1].get<double>(), count);
  }
}

// Reads keys of one JSON object, and counts them.
class StateReader {
 public:
  StateReader(const nlohmann::json& json, std::string path) : json_(json), path_(std::move(path)) {}

  template <typename T>
  void operator()(const char* key, T& value) {
    ++known_;
    if (!json_.contains(key)) fail("{}: '{}' is missing", path_, key);
    try {
      get(json_[key], value);
    } catch (const std::exception& e) {
      fail("{}: '{}': {}", path_, key, e.what());
    }
  }

  void check_all_read() const {
    if (json_.size() != known_) fail("{}: there are {} keys, expected {}", path_, json_.size(), known_);
  }

 private:
  const nlohmann::json& json_;
  std::string path_;
  size_t known_ = 1;  // "format"
};

void read_01(StateReader& read, TrainState& state) {
  visit(state, [&](const char* key, auto& value) { read(key, value); });
  for (const auto& [terms, sum_key, count_key] :
       {std::tuple(&state.epoch_terms, "loss_sum", "loss_count"),
        std::tuple(&state.window_terms, "window_loss_sum", "window_loss_count")}) {
    double sum = 0;
    int64_t count = 0;
    read(sum_key, sum);
    read(count_key, count);
    if (count > 0) terms->add("loss", sum, count);
  }
  // It validated at the end of epochs only.
  state.validated_step = state.batch == 0 ? state.step : -1;
}

}  // namespace

double TermSum::mean() const {
  return count > 0 ? sum / static_cast<double>(count) : std::numeric_limits<double>::quiet_NaN();
}

void TermSums::add(const std::string& name, double sum, int64_t count) {
  for (auto& term : terms_) {
    if (term.name != name) continue;
    term.sum += sum;
    term.count += count;
    return;
  }
  terms_.push_back({name, sum, count});
}

double TermSums::mean(const std::string& name) const {
  for (const auto& term : terms_) {
    if (term.name == name) return term.mean();
  }
  return std::numeric_limits<double>::quiet_NaN();
}

void save_state(const TrainState& state, const std::filesystem::path& path) {
  nlohmann::json json = {{"format", kStateFormat}};
  visit_2(state, [&](const char* key, const auto& value) { put(json[key], value); });
  write_file(path, json.dump(2) + "\n");
}

TrainState load_state(const std::filesystem::path& path) {
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(read_file(path, kMaxStateBytes));
  } catch (const nlohmann::json::exception& e) {
    fail("{}: expected JSON: {}", path.string(), e.what());
  }
  const int format = json.is_object() ? json.value("format", 0) : 0;
  if (format != kStateFormat && format != kStateFormatOf01) {
    fail("{}: expected the training state in format {}", path.string(), kStateFormat);
  }
  TrainState state;
  StateReader read(json, path.string());
  if (format == kStateFormatOf01) {
    read_01(read, state);
  } else {
    visit_2(state, [&](const char* key, auto& value) { read(key, value); });
  }
  read.check_all_read();
  return state;
}

}  // namespace fovea::train
