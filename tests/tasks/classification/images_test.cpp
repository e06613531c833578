#include "fovea/tasks/classification/images/images.h"

#include <set>

#include "fovea/config/read.h"
#include "fovea/core/error.h"
#include "fovea/data/loader.h"
#include "fovea/tasks/classification/images/image_datasets.h"
#include "fovea/tasks/classification/task.h"
#include "tests/temp_dir.h"
#include "tests/test.h"

using namespace fovea;

namespace {

const std::vector<std::string> kClasses = {"a", "b", "c"};

const data::DataEntry& entry_of(const std::string& name) {
  for (const auto& entry : classification::task().datasets) {
    if (entry.named.name == name) return entry;
  }
  throw std::logic_error(name);
}

std::string idx(const at::Tensor& values) {
  std::string bytes = {0, 0, 8, static_cast<char>(values.dim())};
  for (const int64_t size : values.sizes()) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(size >> shift);
  }
  const at::Tensor contiguous = values.to(at::kByte).contiguous();
  return bytes.append(reinterpret_cast<const char*>(contiguous.const_data_ptr<uint8_t>()),
                      static_cast<size_t>(contiguous.numel()));
}

// Images that tell which they are: all pixels of image i are random, the first two count.
classification::ImageSet some_images(int64_t count, int64_t channels = 1, int64_t height = 6, int64_t width = 5) {
  classification::ImageSet set{at::randint(1, 256, {count, channels, height, width}, at::kByte),
                               at::arange(count).remainder(3)};
  for (int64_t i = 0; i < count; ++i) {
    set.images[i][0][0][0] = i / 250;
    set.images[i][0][0][1] = i % 250;
  }
  return set;
}

int64_t identity(const at::Tensor& image) {
  return image[0][0][0].item<int64_t>() * 250 + image[0][0][1].item<int64_t>();
}

std::set<int64_t> identities(const classification::ImageData& data, data::Part part) {
  std::set<int64_t> all;
  for (int64_t i = 0; i < data.size(part); ++i) all.insert(identity(data.image(part, i)));
  return all;
}

struct Options : config::Section {
  classification::ImageOptions images;
  void fields(config::Fields& f) override { images.fields(f); }
  void check(const config::Checker& c) const override { images.check(c); }
};

classification::ImageOptions options_of(const std::string& yaml) {
  Options options;
  config::read(options, config::parse_yaml(yaml, "data.yaml"));
  return options.images;
}

classification::ImageData make(const std::string& yaml, const classification::ImageSet& train,
                               const classification::ImageSet& test = {}, uint64_t seed = 1) {
  return classification::ImageData(options_of(yaml), kClasses, seed, train, test);
}

std::vector<int64_t> range(int64_t count) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < count; ++i) all.push_back(i);
  return all;
}

// Files of images and labels and what reading them says.
struct Files {
  TempDir dir;
  std::string error(const std::string& images, const std::string& labels) const {
    write_bytes(dir / "images", images);
    write_bytes(dir / "labels", labels);
    return error_of([&] { classification::read_image_set({dir / "images", dir / "labels"}, 10); });
  }
};

}  // namespace

TEST_CASE("a batch holds the images as numbers and their labels") {
  const classification::ImageSet set = some_images(20, 3);
  const classification::ImageData data =
      make("{validation: {size: 0}, mean: [0.1, 0.2, 0.3], std: [0.5]}", set, some_images(4, 3));
  const data::Batch batch = data.batch(data::Part::kTrain, 0, {3, 0, 19});
  const classification::ImageBatch view(batch);
  CHECK((batch.examples == 3 && batch.items == 3 && std::string(data.unit()) == "images"));
  CHECK(view.mixed_label == nullptr);
  CHECK(at::equal(view.label, at::tensor({0, 0, 1}, at::kLong)));
  const at::Tensor mean = at::tensor({0.1f, 0.2f, 0.3f}).view({3, 1, 1});
  const at::Tensor expected = (set.images[3].to(at::kFloat) / 255 - mean) / 0.5f;
  CHECK(at::allclose(view.image[0], expected, 1e-6, 1e-6));
  CHECK(at::equal(data.image_assets().preprocess(set.images[3]), view.image[0]));
  const auto spec = dynamic_cast<const classification::ImageSpec&>(data.spec());
  CHECK((spec.channels == 3 && spec.height == 6 && spec.width == 5 && spec.num_classes == 3));
  CHECK(data.size(data::Part::kTest) == 4);
  CHECK(at::equal(data.labels(data::Part::kTest), at::tensor({0, 1, 2, 0}, at::kLong)));
  CHECK_THROWS_AS(data.batch(data::Part::kTrain, 0, {20}), Error);
}

TEST_CASE("resizing happens in the batch, and preprocess does the same to an image of any size") {
  const classification::ImageSet set = some_images(5);
  const classification::ImageData data = make("{validation: {size: 0}, resize: [12, 9]}", set);
  const data::Batch batch = data.batch(data::Part::kTrain, 0, {2});
  const classification::ImageAssets& assets = data.image_assets();
  CHECK((assets.height() == 12 && assets.width() == 9));
  CHECK(batch.tensor("image").sizes() == at::IntArrayRef({1, 1, 12, 9}));
  CHECK(at::equal(assets.preprocess(set.images[2]), batch.tensor("image")[0]));
  CHECK(assets.preprocess(at::zeros({1, 50, 40}, at::kByte)).sizes() == at::IntArrayRef({1, 12, 9}));
  CHECK_THAT(error_of([&] { assets.preprocess(at::zeros({3, 5, 5}, at::kByte)); }), ContainsSubstring("3 channels"));
  CHECK_THAT(error_of([&] { assets.preprocess(at::zeros({1, 5, 5})); }), ContainsSubstring("Float"));
}

TEST_CASE("the split is a function of the seed; no image is in two parts; train_size takes some") {
  classification::ImageSet set = some_images(300);
  const classification::ImageData data = make("{validation: {size: 0.2}}", set);
  CHECK((data.size(data::Part::kTrain) == 240 && data.size(data::Part::kValidation) == 60 &&
         data.size(data::Part::kTest) == 0));
  auto train = identities(data, data::Part::kTrain), validation = identities(data, data::Part::kValidation);
  for (const int64_t i : validation) CHECK_FALSE(train.contains(i));
  CHECK(train.size() + validation.size() == 300);
  CHECK(identities(make("{validation: {size: 0.2}}", set, {}, 2), data::Part::kValidation) != validation);

  const classification::ImageData some = make("{validation: {size: 0.2}, train_size: 50}", set);
  CHECK(some.size(data::Part::kTrain) == 50);
  CHECK(identities(some, data::Part::kValidation) == validation);
  for (const int64_t i : identities(some, data::Part::kTrain)) CHECK(train.contains(i));
  CHECK_THAT(error_of([&] { make("{validation: {size: 60}, train_size: 241}", set); }),
             ContainsSubstring("at most 240 images") && ContainsSubstring("found 241"));

  // The label goes with its image.
  for (int64_t i = 0; i < some.size(data::Part::kTrain); ++i) {
    CHECK(some.labels(data::Part::kTrain)[i].item<int64_t>() == identity(some.image(data::Part::kTrain, i)) % 3);
  }
  set.images.narrow(0, 0, 100).copy_(set.images.narrow(0, 100, 100).clone());  // each of these twice
  const classification::ImageData twins = make("{validation: {size: 0.3}}", set);
  train = identities(twins, data::Part::kTrain), validation = identities(twins, data::Part::kValidation);
  for (const int64_t i : validation) CHECK_FALSE(train.contains(i));
}

TEST_CASE("the plan is shuffled for training, in order for the rest, of its own batch sizes") {
  const classification::ImageData data =
      make("{validation: {size: 10}, batch_size: 16, eval_batch_size: 7}", some_images(60));
  CHECK(data.plan(data::Part::kTrain, 0).size() == 4);
  CHECK(data.plan(data::Part::kTrain, 0).back().size() == 2);
  CHECK(data.plan(data::Part::kTrain, 0) == data.plan(data::Part::kTrain, 0));
  CHECK(data.plan(data::Part::kTrain, 0) != data.plan(data::Part::kTrain, 1));
  const data::BatchPlan plan = data.plan(data::Part::kValidation, 3);
  CHECK(plan == data::BatchPlan{range(7), {7, 8, 9}});
}

TEST_CASE("C18: little data trains on a partial batch or says why not") {
  const classification::ImageSet three = some_images(3);
  const classification::ImageData data = make("{validation: {size: 0}, batch_size: 64}", three);
  CHECK((data.plan(data::Part::kTrain, 0).size() == 1 && data.plan(data::Part::kTrain, 0)[0].size() == 3));
  CHECK(data.plan(data::Part::kValidation, 0).empty());
  CHECK(make("{batch_size: 64}", three).size(data::Part::kValidation) == 1);
  CHECK_THAT(error_of([&] { make("{validation: {size: 3}}", three); }), ContainsSubstring("left to train on"));
  CHECK_THAT(error_of([&] { make("{}", {}); }), ContainsSubstring("images to train on, found none"));
  const classification::ImageData mixed = make("{validation: {size: 0}, augment: {mixup: 1}}", some_images(1));
  CHECK(at::equal(mixed.batch(data::Part::kTrain, 0, {0}).tensor("mixed_label"), at::zeros({1}, at::kLong)));
  const classification::ImageData sixty_five = make("{validation: {size: 0}, batch_size: 64}", some_images(65));
  CHECK(sixty_five.plan(data::Part::kTrain, 0).back().size() == 1);
}

TEST_CASE("augmentation is of training only, and a function of (seed, epoch, examples)") {
  const std::string yaml = "{validation: {size: 20}, augment: {crop_padding: 1, flip: true, erasing: 0.5, mixup: 0.4}}";
  const classification::ImageSet set = some_images(80);
  const classification::ImageData data = make(yaml, set, some_images(9)),
                                  plain = make("{validation: {size: 20}}", set, some_images(9));
  for (const data::Part part : {data::Part::kValidation, data::Part::kTest}) {
    const data::Batch a = data.batch(part, 1, range(9)), b = data.batch(part, 2, range(9));
    CHECK(a.tensors.count("share") == 0);
    CHECK(at::equal(a.tensor("image"), b.tensor("image")));
  }
  CHECK(at::equal(data.batch(data::Part::kValidation, 0, range(20)).tensor("image"),
                  plain.batch(data::Part::kValidation, 0, range(20)).tensor("image")));

  const std::vector<int64_t> examples = {5, 9, 1, 30, 7, 12};
  const data::Batch first = data.batch(data::Part::kTrain, 3, examples),
                    again = make(yaml, set).batch(data::Part::kTrain, 3, examples);
  for (const auto& [name, tensor] : first.tensors) CHECK(at::equal(tensor, again.tensor(name)));
  CHECK_FALSE(at::equal(first.tensor("image"), data.batch(data::Part::kTrain, 4, examples).tensor("image")));
  const classification::ImageBatch view(first);
  REQUIRE(view.share != nullptr);
  CHECK(view.share->sizes() == at::IntArrayRef({6}));
  CHECK(view.share->eq((*view.share)[0]).all().item<bool>());

  // Without mixup an example looks the same in whatever batch it is; mixup is then linear.
  const classification::ImageData unmixed =
      make("{validation: {size: 20}, augment: {crop_padding: 1, flip: true, erasing: 0.5}}", set);
  const at::Tensor own = unmixed.batch(data::Part::kTrain, 3, examples).tensor("image");
  CHECK(at::equal(own[3], unmixed.batch(data::Part::kTrain, 3, {30}).tensor("image")[0]));
  data::AugmentConfig mixup;
  mixup.mixup = 0.4;
  const data::Mix mix = data::draw_mix(mixup, 6, 5, 1, 3, examples);
  const at::Tensor partners = at::tensor(mix.partners, at::kLong);
  CHECK(at::allclose(view.image, mix.share * own + (1 - mix.share) * own.index_select(0, partners), 1e-5, 1e-6));
  CHECK(at::equal(*view.mixed_label, view.label.index_select(0, partners)));
}

TEST_CASE("CutMix shows a rectangle of the partner, and the labels share by area") {
  const classification::ImageSet set = some_images(40);
  const classification::ImageData data = make("{validation: {size: 0}, augment: {cutmix: 1}}", set),
                                  plain = make("{validation: {size: 0}}", set);
  data::AugmentConfig cutmix;
  cutmix.cutmix = 1;
  const std::vector<int64_t> examples = {5, 9, 1, 30};
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    const data::Batch batch = data.batch(data::Part::kTrain, epoch, examples);
    const classification::ImageBatch view(batch);
    const data::Mix mix = data::draw_mix(cutmix, 6, 5, 1, epoch, examples);
    const auto own = plain.batch(data::Part::kTrain, epoch, examples).tensor("image").clone();
    const at::Tensor expected = own.clone();
    const auto box = [&](const at::Tensor& t) {
      return t.narrow(2, mix.box->top, mix.box->height).narrow(3, mix.box->left, mix.box->width);
    };
    box(expected).copy_(box(own.index_select(0, at::tensor(mix.partners, at::kLong))));
    CHECK(at::equal(view.image, expected));
    CHECK((*view.share)[0].item<float>() == mix.share);
  }
}

TEST_CASE("repeats: a batch has each of its images several times, changed anew") {
  const classification::ImageData data = make(
      "{validation: {size: 0}, batch_size: 6, augment: {flip: true, crop_padding: 2, repeats: 3}}", some_images(40));
  std::set<int64_t> seen;
  for (int64_t epoch = 0; epoch < 30; ++epoch) {
    std::set<int64_t> different;
    int64_t count = 0;
    for (const auto& examples : data.plan(data::Part::kTrain, epoch)) {
      CHECK(examples.size() <= 6);
      for (size_t i = 0; i < examples.size(); ++i) {
        CHECK(examples[i] % 40 == examples[i / 3 * 3] % 40);
        different.insert(examples[i] % 40);
        count += 1;
      }
    }
    CHECK((different.size() == 14 && count == 42));
    seen.insert(different.begin(), different.end());
  }
  CHECK(seen.size() == 40);  // every epoch has a choice of its own
  const data::Batch batch = data.batch(data::Part::kTrain, 0, {7, 47, 87});
  CHECK(at::equal(batch.tensor("label"), at::ones({3}, at::kLong)));
  CHECK_FALSE(at::equal(batch.tensor("image")[0], batch.tensor("image")[1]));
  CHECK_THAT(error_of([&] { make("{batch_size: 8, augment: {flip: true, repeats: 3}}", some_images(40)); }),
             ContainsSubstring("all repeats"));
  CHECK_THAT(error_of([&] { make("{batch_size: 9, augment: {repeats: 3}}", some_images(40)); }),
             ContainsSubstring("nothing else changes them"));
}

TEST_CASE("a loader on another thread gives the same batches") {
  const classification::ImageData data =
      make("{validation: {size: 0}, batch_size: 8, augment: {crop_padding: 2, mixup: 1}}", some_images(50));
  data::Loader loader(data, data::Part::kTrain, 2);
  for (const auto& examples : data.plan(data::Part::kTrain, 2)) {
    const auto batch = loader.next();
    REQUIRE(batch);
    CHECK(at::equal(batch->tensor("image"), data.batch(data::Part::kTrain, 2, examples).tensor("image")));
  }
  CHECK_FALSE(loader.next());
}

TEST_CASE("the fingerprint changes with what is trained or validated on") {
  const classification::ImageSet set = some_images(40);
  const auto fingerprint = [](const classification::ImageSet& s, const std::string& yaml = "{}",
                              const classification::ImageSet& test = {}) { return make(yaml, s, test).fingerprint(); };
  CHECK(fingerprint(set) == fingerprint({set.images.clone(), set.labels.clone()}));
  CHECK(fingerprint(set, "{}", some_images(3)) == fingerprint(set));
  CHECK(fingerprint(set, "{train_size: 30}") != fingerprint(set));
  for (const int64_t pixel : {0, 17, 29}) {
    classification::ImageSet other{set.images.clone(), set.labels};
    other.images.view({40, 30})[11][pixel].bitwise_xor_(1);
    CHECK(fingerprint(other) != fingerprint(set));
  }
  classification::ImageSet relabelled{set.images, set.labels.clone()};
  relabelled.labels[7] = 2;
  CHECK(fingerprint(relabelled) != fingerprint(set));
}

TEST_CASE("C40: images and labels that do not belong together are refused with names and numbers") {
  const Files files;
  const at::Tensor images = at::randint(0, 256, {60, 4, 4}), labels = at::arange(60).remainder(10);
  CHECK(files.error(idx(images), idx(labels)).empty());
  CHECK_THAT(files.error(idx(labels), idx(images)), ContainsSubstring("/images: expected images") &&
                                                        ContainsSubstring("1 dimension (60)") &&
                                                        ContainsSubstring("swapped?"));
  CHECK_THAT(files.error(idx(images), idx(images)),
             ContainsSubstring("/labels: expected labels") && ContainsSubstring("3 dimensions (60 x 4 x 4)"));
  CHECK_THAT(files.error(idx(images), idx(labels.narrow(0, 0, 10))),
             ContainsSubstring("/images holds 60 images") && ContainsSubstring("/labels holds 10 labels"));
  CHECK_THAT(files.error(idx(images), idx(labels + 1)),
             ContainsSubstring("/labels: expected labels from 0 to 9 for 10 classes, found labels from 1 to 10") &&
                 ContainsSubstring("is 10, of example 9 (are they counted from 1?)"));
  CHECK_THAT(files.error(idx(images.narrow(0, 0, 0)), idx(labels.narrow(0, 0, 0))), ContainsSubstring("found none"));
  CHECK_THAT(files.error(idx(images.narrow(1, 0, 0)), idx(labels)), ContainsSubstring("60 x 1 x 0 x 4"));

  const at::Tensor colour = at::randint(0, 256, {6, 3, 4, 5}, at::kByte);
  CHECK(files.error(idx(colour), idx(labels.narrow(0, 0, 6))).empty());
  CHECK(at::equal(classification::read_image_set({files.dir / "images", files.dir / "labels"}, 10).images, colour));

  CHECK_THAT(error_of([&] { classification::make_image_set(colour, at::arange(5), 10, "x"); }),
             ContainsSubstring("6 images and 5"));
  CHECK_THAT(error_of([&] { classification::make_image_set(colour, at::arange(6), 5, "x"); }),
             ContainsSubstring("0 to 4"));
  CHECK_THAT(error_of([&] { classification::make_image_set(colour.to(at::kFloat), at::arange(6), 6, "x"); }),
             ContainsSubstring("expected images as uint8"));
  CHECK_THAT(error_of([&] { make("{}", some_images(9), some_images(9, 1, 7)); }),
             ContainsSubstring("1 x 6 x 5 (channels x height x width), found 1 x 7 x 5"));
}

TEST_CASE("C52: classes without an image to train on are named") {
  classification::ImageSet set = some_images(30);
  set.labels = at::arange(30).remainder(3);
  CHECK(make("{}", set).warnings().empty());
  set.labels = at::arange(30).remainder(2);
  CHECK_THAT(make("{}", set).warnings().at(0), ContainsSubstring("train: no image is of the class "));
  set.labels = at::zeros({30}, at::kLong);
  CHECK_THAT(make("{}", set).warnings().at(0), ContainsSubstring("all images are of one class"));
}

TEST_CASE("C53: images have 1 or 3 channels before height and width, or are refused") {
  const Files files;
  const at::Tensor labels = at::arange(6).remainder(10);
  const auto error = [&](at::IntArrayRef sizes) { return files.error(idx(at::randint(0, 256, sizes)), idx(labels)); };
  CHECK(error({6, 1, 32, 32}).empty());
  CHECK(error({6, 3, 32, 32}).empty());
  CHECK_THAT(
      error({6, 32, 32, 3}),
      ContainsSubstring("/images: expected images as count x channels x height x width with 1 channel (gray) or 3 "
                        "(red, green, blue), found 6 x 32 x 32 x 3") &&
          ContainsSubstring("images.transpose(0, 3, 1, 2)"));
  CHECK_THAT(error({6, 32, 32, 1}), ContainsSubstring("transpose"));
  CHECK_THAT(error({6, 4, 32, 32}), ContainsSubstring("found 6 x 4 x 32 x 32") && !ContainsSubstring("transpose"));
  CHECK_THAT(error_of([&] {
               classification::make_image_set(at::zeros({6, 8, 9, 3}, at::kByte), labels, 10, "x");
             }),
             ContainsSubstring("x: expected images as count x channels"));
}

TEST_CASE("settings are checked by key") {
  const auto complaint = [](const std::string& yaml) { return error_of([&] { options_of(yaml); }); };
  CHECK(complaint("{}").empty());
  CHECK(complaint("{resize: [96, 96], mean: [0.5], std: [0.5, 0.2, 0.1]}").empty());
  CHECK_THAT(complaint("resize: [96]"), ContainsSubstring("resize: expected [height, width] or [], found 1 number"));
  CHECK_THAT(complaint("resize: [0, 96]"), ContainsSubstring("resize"));
  CHECK_THAT(complaint("std: [0]"), ContainsSubstring("std"));
  CHECK_THAT(complaint("{mean: [0, 0], std: [1, 1, 1]}"), ContainsSubstring("found 2 and 3"));
  CHECK_THAT(complaint("augment: {erasing: 1.5}"), ContainsSubstring("augment.erasing"));
  CHECK_THAT(complaint("augment: {crop_padding: -1}"), ContainsSubstring("augment.crop_padding"));
  CHECK_THAT(complaint("augment: {flipp: true}"), ContainsSubstring("flip"));
  CHECK_THAT(error_of([] { make("{mean: [0, 0], std: [1, 1]}", some_images(9)); }),
             ContainsSubstring("data.mean") && ContainsSubstring("1 number or 1"));
}

TEST_CASE("image assets come back as they were saved; damage is named") {
  const classification::ImageAssets assets({3, 28, 30, 3}, {"a", "é \"b\"", "c"},
                                           {.mean = {0.1, 0.25, 1e-7}, .stddev = {1, 2, 1.0 / 3}});
  TempDir dir;
  assets.save(dir.path());
  const auto loaded = classification::ImageAssets::load(classification::FashionMnistConfig(), dir.path());
  CHECK_NOTHROW(assets.check_same(*loaded));
  CHECK((loaded->dump() == assets.dump() && loaded->class_names()[1] == "é \"b\"" && loaded->mean()[2] == 1e-7));

  const std::string text = assets.dump();
  const auto damaged = [&](const std::string& what, const std::string& with) {
    std::string bytes = text;
    REQUIRE(bytes.find(what) != std::string::npos);
    write_bytes(dir / "images.json", bytes.replace(bytes.find(what), what.size(), with));
    return error_of([&] { classification::ImageAssets::load(classification::FashionMnistConfig(), dir.path()); });
  };
  CHECK_THAT(damaged("}", ""), ContainsSubstring("images.json: expected JSON"));
  CHECK_THAT(damaged("\"height\"", "\"heigth\""), ContainsSubstring("images.json: unknown key \"heigth\""));
  CHECK_THAT(damaged("\"height\": 28,", ""), ContainsSubstring("\"height\" is missing"));
  CHECK_THAT(damaged("28", "-28"), ContainsSubstring("\"height\": expected a whole number"));
  CHECK_THAT(damaged("28", "2.5"), ContainsSubstring("\"height\": expected a whole number"));
  CHECK_THAT(damaged("0.25,", ""), ContainsSubstring("each of 3 channels, found 2 and 3"));
  CHECK_THAT(damaged("0.25", "\"x\""), ContainsSubstring("\"mean\": expected a list of numbers"));
  CHECK_THAT(damaged("2.0", "0.0"), ContainsSubstring("above 0"));
  CHECK_THAT(damaged("fovea-images-1", "fovea-images-9"), ContainsSubstring("fovea-images-9"));
  CHECK_THAT(damaged(text, ""), ContainsSubstring("images.json"));
  CHECK_THAT(damaged(text, "[]"), ContainsSubstring("expected a JSON object"));

  const auto differs = [&](classification::ImageSpec spec, std::vector<std::string> names,
                           classification::Normalisation n) {
    return error_of([&] { classification::ImageAssets(spec, names, n).check_same(assets); });
  };
  const classification::ImageSpec spec = assets.spec();
  const classification::Normalisation n{assets.mean(), assets.stddev()};
  CHECK(differs(spec, assets.class_names(), n).empty());
  CHECK_THAT(differs({3, 28, 28, 3}, assets.class_names(), n), ContainsSubstring("were 3 x 28 x 30, now 3 x 28 x 28"));
  CHECK_THAT(differs(spec, {"a", "x", "c"}, n), ContainsSubstring("class 1 was 'é \"b\"', now 'x'"));
  CHECK_THAT(differs({3, 28, 30, 2}, {"a", "b"}, n), ContainsSubstring("there were 3, now 2"));
  CHECK_THAT(differs(spec, assets.class_names(), {n.mean, {1, 1, 1}}), ContainsSubstring("std was"));
}

TEST_CASE("images can be had for evaluation alone, with a checkpoint's assets") {
  const classification::ImageData trained = make("{resize: [4, 4], mean: [0.5]}", some_images(9));
  const auto assets = std::dynamic_pointer_cast<const classification::ImageAssets>(trained.assets());
  const classification::ImageSet other = some_images(5, 1, 9, 9);
  const classification::ImageData test(options_of("{}"), other, assets);
  CHECK((test.size(data::Part::kTrain) == 0 && test.size(data::Part::kTest) == 5 &&
         test.plan(data::Part::kTest, 0).size() == 1));
  CHECK(at::equal(test.batch(data::Part::kTest, 0, {4}).tensor("image")[0], assets->preprocess(other.images[4])));
  CHECK_THAT(error_of([&] { classification::ImageData(options_of("{}"), some_images(5, 3), assets); }),
             ContainsSubstring("1 channel,") && ContainsSubstring("found 3"));
  const classification::ImageData again(options_of("{}"), kClasses, 1, some_images(9), {}, assets);
  CHECK(again.assets() == assets);
}

TEST_CASE("idx_images reads any files; fashion_mnist says where it looked and how to get it") {
  TempDir dir;
  write_bytes(dir / "i", idx(some_images(12).images.squeeze(1)));
  write_bytes(dir / "l", idx(at::arange(12).remainder(3)));
  const auto read = [&](const data::DataEntry& entry, const std::string& yaml) {
    write_bytes(dir / "data.yaml", yaml);
    const auto section = entry.named.make();
    config::read(*section, config::load_yaml(dir / "data.yaml"));
    return entry.make(*section, 1, nullptr);
  };
  const auto data = read(entry_of("idx_images"),
                         "{train_images: i, train_labels: l, test_images: i, test_labels: l, classes: [x, y, z]}");
  CHECK((data->size(data::Part::kTrain) == 11 && data->size(data::Part::kValidation) == 1 &&
         data->size(data::Part::kTest) == 12));
  std::string said;
  for (const auto& [what, text] : data->describe()) said += what + ": " + text + "\n";
  CHECK_THAT(said, ContainsSubstring("train: 11 images\n") && ContainsSubstring("images: 1 x 6 x 5"));
  CHECK_THAT(error_of([&] { read(entry_of("idx_images"), "{train_images: i, train_labels: l, classes: [x, y]}"); }),
             ContainsSubstring("expected labels from 0 to 1 for 2 classes, found labels from 0 to 2"));
  CHECK_THAT(error_of([&] {
               read(entry_of("idx_images"), "{train_images: i, train_labels: l, test_labels: l, classes: [x]}");
             }),
             ContainsSubstring("test_labels") && ContainsSubstring("needs test_images"));

  CHECK_THAT(error_of([&] { read(entry_of("fashion_mnist"), "path: none"); }),
             ContainsSubstring((dir / "none").string()) && ContainsSubstring("apt-get install dataset-fashion-mnist") &&
                 ContainsSubstring("scripts/fetch-data fashion-mnist"));
  std::filesystem::create_directory(dir / "half");
  write_bytes(dir / "half/train-images-idx3-ubyte", "");
  CHECK_THAT(error_of([&] { read(entry_of("fashion_mnist"), "path: half"); }),
             ContainsSubstring("train-labels-idx1-ubyte[.gz], t10k-images-idx3-ubyte[.gz], t10k-labels-idx1-ubyte[.gz] "
                               "are missing"));
  std::set<std::string> names;
  for (const auto& entry : classification::task().datasets) names.insert(entry.named.name);
  CHECK((names.contains("fashion_mnist") && names.contains("idx_images")));
}

TEST_CASE("Fashion-MNIST itself") {
  const std::filesystem::path debian = "/usr/share/datasets/fashion-mnist";
  if (!std::filesystem::exists(debian)) {
    WARN("not checked: " << debian << " is not there; apt-get install dataset-fashion-mnist");
    return;
  }
  const classification::FashionMnistFiles files = classification::find_fashion_mnist(debian);
  const classification::ImageSet train = classification::read_image_set(files.train, 10),
                                 test = classification::read_image_set(files.test, 10);
  CHECK(train.images.sizes() == at::IntArrayRef({60000, 1, 28, 28}));
  CHECK(test.count() == 10000);
  CHECK(at::equal(train.labels.bincount(), at::full({10}, 6000, at::kLong)));
  CHECK(train.images.to(at::kFloat).mean().item<double>() / 255 == Approx(0.2860).margin(1e-4));
  const classification::ImageData data(options_of("{}"), classification::fashion_mnist_classes(), 1, train, test);
  CHECK((data.size(data::Part::kTrain) == 54000 && data.size(data::Part::kValidation) == 6000));
  CHECK_THAT(error_of([&] {
               classification::read_image_set({files.train.images, files.test.labels}, 10);
             }),
             ContainsSubstring("60000 images") && ContainsSubstring("10000 labels"));
}
