#include "fovea/train/train_state.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/core/file.h"
#include "fovea/data/data_module.h"

namespace fovea::train {
namespace {

constexpr int kStateFormat = 3;
constexpr int kStateFormat2 = 2;     // knew nothing of the parts of the data, nor of bad validations
constexpr int kStateFormatOf01 = 1;  // of fovea 0.1, which knew one term, the loss
constexpr size_t kParts = 3;         // train, validation, test
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

template <typename State, typename Visitor>
void visit_3(State& s, Visitor v) {
  visit_2(s, v);
  v("data_parts", s.data_parts);
  v("good_step", s.good_step);
  v("frozen_fingerprint", s.frozen_fingerprint);
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

void put(nlohmann::json& json, const std::vector<uint64_t>& numbers) {
  json = nlohmann::json::array();
  for (const uint64_t number : numbers) json.push_back(number);
}

template <typename T>
void get(const nlohmann::json& json, T& value) {
  if (std::is_integral_v<T> && !json.is_number_integer()) throw std::runtime_error("expected a whole number");
  value = json.get<T>();
}
void get(const nlohmann::json& json, std::optional<double>& value) {
  value = json.is_null() ? std::nullopt : std::optional(json.get<double>());
}
void get(const nlohmann::json& json, std::vector<uint64_t>& numbers) {
  numbers.clear();
  for (const auto& item : json) get(item, numbers.emplace_back());
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
    if (!json_.contains(key)) fail_usage("{}: '{}' is missing", path_, key);
    try {
      get(json_[key], value);
    } catch (const std::exception& e) {
      fail_usage("{}: '{}': {}", path_, key, e.what());
    }
  }

  void check_all_read() const {
    if (json_.size() != known_) fail_usage("{}: expected {}, found {}", path_, counted(known_, "key"), json_.size());
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

void note_data(TrainState& state, const data::DataModule& data) {
  const bool knows_test = state.step > 0 && !state.data_parts.empty();
  const uint64_t test = knows_test ? state.data_parts[2] : data.part_fingerprint(data::Part::kTest);
  state.data_parts = {data.part_fingerprint(data::Part::kTrain), data.part_fingerprint(data::Part::kValidation), test};
  state.data_fingerprint = data.fingerprint();
}

bool may_go_on_with(const TrainState& state, const data::DataModule& data) {
  // Weights that were imported have not been trained on anything yet.
  if (state.step == 0) return true;
  if (state.data_parts.empty()) return state.data_fingerprint == data.fingerprint();
  return state.data_parts[0] == data.part_fingerprint(data::Part::kTrain) &&
         state.data_parts[1] == data.part_fingerprint(data::Part::kValidation);
}

void save_state(const TrainState& state, const std::filesystem::path& path) {
  nlohmann::json json = {{"format", kStateFormat}};
  visit_3(state, [&](const char* key, const auto& value) { put(json[key], value); });
  write_file(path, json.dump(2) + "\n");
}

TrainState load_state(const std::filesystem::path& path) {
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(read_file(path, kMaxStateBytes));
  } catch (const nlohmann::json::exception& e) {
    fail_usage("{}: expected JSON: {}", path.string(), e.what());
  }
  const int format = json.is_object() ? json.value("format", 0) : 0;
  if (format != kStateFormat && format != kStateFormat2 && format != kStateFormatOf01) {
    fail_usage("{}: expected the training state in format {}", path.string(), kStateFormat);
  }
  TrainState state;
  StateReader read(json, path.string());
  const auto read_value = [&](const char* key, auto& value) { read(key, value); };
  if (format == kStateFormatOf01) {
    read_01(read, state);
  } else if (format == kStateFormat2) {
    visit_2(state, read_value);
  } else {
    visit_3(state, read_value);
  }
  if (format != kStateFormat) state.good_step = state.step;
  read.check_all_read();
  if (!state.data_parts.empty() && state.data_parts.size() != kParts) {
    fail_usage("{}: 'data_parts': expected {} numbers, found {}", path.string(), kParts, state.data_parts.size());
  }
  return state;
}

}  // namespace fovea::train
