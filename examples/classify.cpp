// Classifies images with a file that `fovea export RUN -o model.pt` wrote. Needs LibTorch, and nothing of fovea.
//
//     classify model.pt boot.png shirt.ppm
//
// Images are binary PGM (gray) or PPM (colour) of 8 bits, and PNG where it was built with libpng. They may have any
// size: the model brings its resizing and normalisation along. What is transparent is laid on white, or on black where
// nothing would be seen on white, as `fovea classify` does.
#include <torch/script.h>

#ifdef WITH_PNG
#include <png.h>

#include <csetjmp>
#include <cstdio>
#endif

#include <fstream>
#include <iomanip>
#include <iostream>

namespace {

// A number of the header, behind white space and comments.
int64_t read_number(std::istream& file) {
  while ((file >> std::ws).peek() == '#') file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  int64_t number = -1;
  file >> number;
  return number;
}

// uint8 (1 or 3, height, width)
torch::Tensor read_pnm(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string magic(2, ' ');
  file.read(magic.data(), 2);
  const int64_t width = read_number(file), height = read_number(file), most = read_number(file);
  if (!file || (magic != "P5" && magic != "P6") || most != 255 || width < 1 || height < 1 || width > 65536 ||
      height > 65536) {
    throw std::runtime_error(path + ": expected a binary PGM or PPM file of 8 bits");
  }
  file.get();  // the one white space before the pixels
  auto pixels = torch::empty({height, width, magic == "P5" ? 1 : 3}, torch::kByte);
  file.read(static_cast<char*>(pixels.data_ptr()), pixels.numel());
  if (!file) throw std::runtime_error(path + ": the file is cut short");
  return pixels.permute({2, 0, 1});
}

#ifdef WITH_PNG
// uint8 (height, width, colours), of (height, width, colours + alpha).
torch::Tensor laid_on_paper(const torch::Tensor& pixels) {
  const auto image = pixels.to(torch::kInt);
  const auto colours = image.narrow(2, 0, image.size(2) - 1), alpha = image.narrow(2, image.size(2) - 1, 1);
  torch::Tensor seen;
  for (const int64_t paper : {255, 0}) {
    seen = torch::floor_divide(colours * alpha + paper * (255 - alpha) + 127, 255);
    if (seen.ne(255).any().item<bool>()) break;
  }
  return seen.to(torch::kByte);
}

// Which side is up, 1 to 8, as EXIF data tell in their first directory.
int64_t exif_orientation(const uint8_t* data, uint64_t size) {
  const bool little = size > 0 && data[0] == 'I';
  const auto number = [&](uint64_t at, uint64_t bytes) {
    uint64_t value = 0;
    for (uint64_t i = 0; i < bytes && at + bytes <= size; ++i) {
      value = value << 8 | data[at + (little ? bytes - 1 - i : i)];
    }
    return value;
  };
  const uint64_t directory = number(4, 4), entries = number(directory, 2);
  for (uint64_t i = 0; i < entries; ++i) {
    const uint64_t entry = directory + 2 + 12 * i, value = number(entry + 8, 2);
    if (number(entry, 2) == 0x0112 && number(entry + 2, 2) == 3 && value >= 1 && value <= 8) {
      return static_cast<int64_t>(value);
    }
  }
  return 1;
}

// (channels, height, width) of pixels with this EXIF orientation.
torch::Tensor upright(torch::Tensor image, int64_t orientation) {
  if (orientation >= 5) image = image.transpose(1, 2);
  if (orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7) image = image.flip({2});
  if (orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8) image = image.flip({1});
  return image;
}

// uint8 (1 or 3, height, width), upright and without transparency; of 16 bits the upper 8 stay. Not libpng's simple
// way: that applies the file's gamma, which training did not.
torch::Tensor read_png(const std::string& path) {
  struct Reader {
    std::FILE* file = nullptr;
    png_structp png = nullptr;
    png_infop info = nullptr;
    ~Reader() {
      png_destroy_read_struct(&png, &info, nullptr);
      if (file != nullptr) std::fclose(file);
    }
  } reader;
  reader.file = std::fopen(path.c_str(), "rb");
  if (reader.file == nullptr) throw std::runtime_error(path + ": cannot be read");
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  reader.info = png_create_info_struct(reader.png);
  torch::Tensor pixels;
  std::vector<png_bytep> rows;
  if (setjmp(png_jmpbuf(reader.png))) throw std::runtime_error(path + ": the PNG file is damaged");
  png_init_io(reader.png, reader.file);
  png_read_info(reader.png, reader.info);
  png_set_expand(reader.png);
  png_set_strip_16(reader.png);
  png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  const int64_t height = png_get_image_height(reader.png, reader.info),
                width = png_get_image_width(reader.png, reader.info),
                channels = png_get_channels(reader.png, reader.info);
  if (height > 65536 || width > 65536) throw std::runtime_error(path + ": the image is too large");
  pixels = torch::empty({height, width, channels}, torch::kByte);
  for (int64_t y = 0; y < height; ++y) rows.push_back(pixels.data_ptr<uint8_t>() + y * width * channels);
  png_read_image(reader.png, rows.data());
  png_read_end(reader.png, reader.info);
  png_bytep exif = nullptr;
  png_uint_32 exif_size = 0;
  png_get_eXIf_1(reader.png, reader.info, &exif_size, &exif);
  if (channels == 2 || channels == 4) pixels = laid_on_paper(pixels);
  return upright(pixels.permute({2, 0, 1}), exif_orientation(exif, exif_size));
}
#endif

torch::Tensor read_image(const std::string& path) {
#ifdef WITH_PNG
  if (std::ifstream(path, std::ios::binary).peek() == 0x89) return read_png(path);
#endif
  return read_pnm(path);
}

// Gray as colour, or colour as gray in the usual weights.
torch::Tensor with_channels(const torch::Tensor& image, int64_t channels) {
  if (image.size(0) < channels) return image.expand({channels, -1, -1});
  if (image.size(0) == channels) return image;
  const auto weights = torch::tensor({19595, 38470, 7471}, torch::kLong).view({3, 1, 1});
  return torch::floor_divide((image * weights).sum(0, /*keepdim=*/true) + 32768, 65536).to(torch::kByte);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: classify MODEL IMAGE...\n";
    return 2;
  }
  try {
    const torch::NoGradGuard no_grad;
    auto model = torch::jit::load(argv[1], torch::kCPU);
    const auto names = model.attr("class_names").toListRef();
    for (int i = 2; i < argc; ++i) {
      const auto image = with_channels(read_image(argv[i]), model.attr("channels").toInt());
      const auto probabilities = model.forward({image.unsqueeze(0)}).toTensor().softmax(1)[0];
      const auto best = probabilities.argmax().item<int64_t>();
      std::cout << argv[i] << "\t" << names[static_cast<size_t>(best)].toStringRef() << "\t" << std::fixed
                << std::setprecision(4) << probabilities[best].item<float>() << "\n";
    }
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
  return 0;
}
