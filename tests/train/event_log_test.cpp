#include "fovea/train/event_log.h"

#include <protozero/pbf_reader.hpp>

#include <cmath>
#include <cstring>
#include <ctime>

#include "fovea/train/tf_record.h"
#include "tests/catch.h"
#include "tests/temp_dir.h"

using namespace fovea;
using fovea::train::EventLog;

namespace {

struct Event {
  double wall_time = 0;
  int64_t step = 0;
  std::string version;
  int32_t session_status = 0;
  std::string tag;
  float value = 0;
};

Event parse_event(std::string_view bytes) {
  Event event;
  protozero::pbf_reader reader(bytes.data(), bytes.size());
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        event.wall_time = reader.get_double();
        break;
      case 2:
        event.step = reader.get_int64();
        break;
      case 3:
        event.version = reader.get_string();
        break;
      case 5: {
        protozero::pbf_reader summary = reader.get_message();
        REQUIRE(summary.next(1));
        protozero::pbf_reader value = summary.get_message();
        REQUIRE(value.next(1));
        event.tag = value.get_string();
        REQUIRE(value.next(2));
        event.value = value.get_float();
        break;
      }
      case 7: {
        protozero::pbf_reader session = reader.get_message();
        REQUIRE(session.next(1));
        event.session_status = session.get_enum();
        break;
      }
      default:
        FAIL("unexpected field " << reader.tag());
    }
  }
  return event;
}

std::vector<Event> events_in(const std::filesystem::path& path) {
  const std::string bytes = read_bytes(path);
  std::vector<Event> events;
  for (size_t at = 0; at < bytes.size();) {
    uint64_t size = 0;
    REQUIRE(at + 16 <= bytes.size());
    std::memcpy(&size, bytes.data() + at, 8);
    REQUIRE(at + 16 + size <= bytes.size());
    const std::string payload = bytes.substr(at + 12, size);
    CHECK(train::tf_record(payload) == bytes.substr(at, 16 + size));
    events.push_back(parse_event(payload));
    at += 16 + size;
  }
  return events;
}

}  // namespace

TEST_CASE("event log: record framing", "[event_log]") {
  CHECK(fovea::train::crc32c("123456789") == 0xe3069283);
  CHECK(fovea::train::crc32c("") == 0);
  CHECK(fovea::train::crc32c(std::string(32, '\0')) == 0x8a9136aa);  // RFC 3720, B.4
  // What TensorBoard's RecordWriter makes of b"abc".
  const std::string length("\x03\0\0\0\0\0\0\0", 8);
  CHECK(train::tf_record("abc") == length + "\xb0\x99\x49\x0e" + "abc" + "\x6e\x57\xf1\x21");
}

TEST_CASE("event log: scalars come back", "[event_log]") {
  const TempDir dir;
  const auto start = static_cast<double>(std::time(nullptr));
  train::EventLog log(dir / "runs/a");
  log.scalar("train/loss", 1, 2.5);
  log.scalar("train/loss", int64_t{1} << 40, std::nan(""));
  log.scalar("valid/é", 3, -1e-3);
  log.flush();
  CHECK_THAT(log.path().filename().string(), ContainsSubstring("events.out.tfevents."));

  const std::vector<Event> events = events_in(log.path());
  REQUIRE(events.size() == 4);
  CHECK(events[0].version == "brain.Event:2");
  CHECK(events[0].wall_time >= start);
  CHECK(events[0].wall_time < start + 60);
  CHECK(events[1].tag == "train/loss");
  CHECK(events[1].step == 1);
  CHECK(events[1].value == 2.5F);
  CHECK(events[2].step == int64_t{1} << 40);
  CHECK(std::isnan(events[2].value));
  CHECK(events[3].tag == "valid/é");
  CHECK(events[3].value == -1e-3F);

  train::EventLog resumed(dir / "runs/a", 2);
  CHECK(resumed.path() != log.path());
  resumed.scalar("train/loss", 2, 1);
  const std::vector<Event> more = events_in(resumed.path());
  REQUIRE(more.size() == 3);
  CHECK(more[1].session_status == 1);
  CHECK(more[1].step == 2);

  CHECK_THAT(error_of([] { train::EventLog("/dev/null/x"); }), ContainsSubstring("/dev/null/x: Not a directory"));
}
