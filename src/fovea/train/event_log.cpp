#include "fovea/train/event_log.h"

#include <unistd.h>

#include <protozero/pbf_writer.hpp>

#include <array>
#include <chrono>

#include "fovea/core/error.h"
#include "fovea/train/tf_record.h"

namespace fovea::train {
namespace fs = std::filesystem;
namespace {

// Field numbers of tensorflow/core/util/event.proto and framework/summary.proto.
enum EventField : protozero::pbf_tag_type { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7 };
enum SessionLogField : protozero::pbf_tag_type { kStatus = 1 };
enum SummaryField : protozero::pbf_tag_type { kValue = 1 };
enum ValueField : protozero::pbf_tag_type { kTag = 1, kSimpleValue = 2 };
constexpr int32_t kStatusStart = 1;

double wall_time() {  // seconds since 1970
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data() : "localhost";
}

std::unique_ptr<OutputFile> create_file(const fs::path& dir) {
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) fail_errno("cannot create", dir, error.value());
  const auto stem =
      fmt::format("events.out.tfevents.{:010}.{}.{}", static_cast<int64_t>(wall_time()), host_name(), ::getpid());
  int number = 0;
  while (fs::exists(dir / fmt::format("{}.{}", stem, number))) ++number;
  return std::make_unique<OutputFile>(dir / fmt::format("{}.{}", stem, number), OutputFile::Mode::kCreateNew);
}

/// An Event record; `fill` adds to it what it is about.
template <typename Fill>
std::string event(int64_t step, Fill fill) {
  std::string bytes;
  protozero::pbf_writer writer(bytes);
  writer.add_double(kWallTime, wall_time());
  writer.add_int64(kStep, step);
  fill(writer);
  return tf_record(bytes);
}

}  // namespace

EventLog::EventLog(const fs::path& dir, std::optional<int64_t> resume_step) : file_(create_file(dir)) {
  file_->write(event(0, [](protozero::pbf_writer& writer) { writer.add_string(kFileVersion, "brain.Event:2"); }));
  if (!resume_step) return;
  file_->write(event(*resume_step, [](protozero::pbf_writer& writer) {
    protozero::pbf_writer session(writer, kSessionLog);
    session.add_enum(kStatus, kStatusStart);
  }));
}

void EventLog::scalar(std::string_view tag, int64_t step, double value) {
  file_->write(event(step, [&](protozero::pbf_writer& writer) {
    protozero::pbf_writer summary(writer, kSummary);
    protozero::pbf_writer point(summary, kValue);
    point.add_string(kTag, tag.data(), tag.size());
    point.add_float(kSimpleValue, static_cast<float>(value));
  }));
}

}  // namespace fovea::train
