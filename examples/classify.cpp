// Classifies images with a file that `fovea export RUN -o model.pt` wrote. Needs LibTorch, and nothing of fovea.
//
//     classify model.pt boot.png shirt.ppm
//
// Images are binary PGM (gray) or PPM (colour) of 8 bits, and PNG where it was built with libpng. They may have any
// size: the model brings its resizing and normalisation along.
#include <torch/script.h>

#ifdef WITH_PNG
#include <png.h>
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
// uint8 (1 or 3, height, width); what is transparent is dropped.
torch::Tensor read_png(const std::string& path) {
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  const auto check = [&](int ok) {
    if (!ok || png.width > 65536 || png.height > 65536) throw std::runtime_error(path + ": " + png.message);
  };
  check(png_image_begin_read_from_file(&png, path.c_str()));
  png.format = (png.format & PNG_FORMAT_FLAG_COLOR) != 0 ? PNG_FORMAT_RGBA : PNG_FORMAT_GA;
  const bool colour = png.format == PNG_FORMAT_RGBA;
  auto pixels = torch::empty({png.height, png.width, colour ? 4 : 2}, torch::kByte);
  check(png_image_finish_read(&png, nullptr, pixels.data_ptr(), 0, nullptr));
  return pixels.narrow(2, 0, colour ? 3 : 1).permute({2, 0, 1});
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
