#include "fovea/export/package.h"

#include "fovea/config/dump.h"
#include "fovea/train/safetensors.h"
#include "tests/tiny_experiment.h"

using namespace fovea;

TEST_CASE("a package is a directory or one file, and the same bytes each time") {
  TinyExperiment experiment(60);
  const auto config = experiment.config();
  const auto data = config.make_data();
  const auto model = config.make_model(data->spec());
  const std::string yaml = config::dump(config);
  const exports::Exportable exportable{*model, *data->assets(), "transformer", yaml, "step-1"};
  TempDir dir;
  for (const char* name : {"a", "b", "a.safetensors", "b.safetensors"}) {
    exports::export_package(exportable, dir / name);
    const exports::Package package(dir / name);
    CHECK(read_bytes(package.config()) == yaml);
    const auto assets = config.data_entry().load_assets(*config.data.section, package.assets());
    CHECK_NOTHROW(data->assets()->check_same(*assets));
    const auto tensors = train::load_safetensors(package.weights()).tensors;
    for (const auto& [key, tensor] : train::persistent_tensors(model->network()))
      CHECK(at::equal(tensors.at(key), tensor));
  }
  CHECK(read_bytes(dir / "a.safetensors") == read_bytes(dir / "b.safetensors"));
  CHECK(read_bytes(dir / "a/model.safetensors") == read_bytes(dir / "b/model.safetensors"));
  CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) == 4);

  std::filesystem::path unpacked;
  {
    const exports::Package package(dir / "a.safetensors");
    unpacked = package.assets();
    CHECK(std::filesystem::exists(unpacked));
  }
  CHECK_FALSE(std::filesystem::exists(unpacked));
}

TEST_CASE("what is no package is named") {
  TempDir dir;
  CHECK_THAT(error_of([&] { exports::Package(dir.path()); }), ContainsSubstring("holds config.yaml"));
  train::save_safetensors(dir / "plain.safetensors", {{{"a", at::zeros({2})}}, {}});
  CHECK_THAT(error_of([&] { exports::Package(dir / "plain.safetensors"); }),
             ContainsSubstring("no config.yaml in its metadata"));
  for (const char* name : {"assets/", "assets/../x", "assets/a/b", "assets/.x", "assets/config.yaml"}) {
    train::save_safetensors(dir / "bad.safetensors", {{{"a", at::zeros({2})}}, {{"config.yaml", ""}, {name, "x"}}});
    CHECK_THAT(error_of([&] { exports::Package(dir / "bad.safetensors"); }), ContainsSubstring("no name of an asset"));
  }
  CHECK_THAT(error_of([&] { exports::Package(dir / "weights.pt"); }),
             ContainsSubstring("fovea import CONFIG.yaml weights.pt"));
  CHECK_THAT(error_of([&] { exports::Package(dir / "missing.safetensors"); }),
             ContainsSubstring("missing.safetensors"));
}
