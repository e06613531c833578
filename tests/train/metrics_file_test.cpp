#include "fovea/train/metrics_file.h"

#include <cmath>

#include "tests/catch.h"
#include "tests/temp_dir.h"

using fovea::train::read_metrics;

TEST_CASE("metrics file: lines, damage, and a line being written") {
  const TempDir dir;
  const auto file = dir / "metrics.jsonl";
  write_bytes(file,
              "{\"kind\":\"train\",\"step\":1,\"epoch\":1,\"smoothed_loss\":3,\"loss\":2}\n"
              "{\"kind\":\"train\",\"st\n"
              "\n"
              "{\"kind\":\"train\",\"step\":2,\"epoch\":1,\"loss\":null}\n"
              "{\"kind\":\"validation\",\"step\":2,\"epoch\":1,\"loss\":1.5}\n"
              "{\"kind\":\"train\",\"step\":3,\"epoch\":1,\"loss\":\"low\"}\n"
              "{\"kind\":\"train\",\"step\":3,\"epo");
  const auto metrics = read_metrics(file);
  REQUIRE(metrics.lines.size() == 3);
  CHECK(metrics.damaged == 3);
  CHECK_THAT(metrics.first_damage, ContainsSubstring("metrics.jsonl:2: expected a line of metrics"));
  CHECK(metrics.lines[0].values.front().first == "smoothed_loss");
  const auto training = metrics.series("train", "loss");
  CHECK(training.x == std::vector<double>{1, 2});
  CHECK((training.y[0] == 2 && std::isnan(training.y[1])));
  CHECK(metrics.last("validation")->value("loss") == 1.5);
  CHECK(metrics.last("epoch") == nullptr);

  const auto end = read_metrics(file, 200);
  CHECK(end.lines.back().step == 2);
  CHECK(end.lines.size() < 3);
  CHECK(read_metrics(file, 3).lines.empty());
  CHECK_THAT(error_of([&] { read_metrics(dir / "none"); }), ContainsSubstring("none"));
}
