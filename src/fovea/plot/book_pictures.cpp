#include "fovea/plot/book_pictures.h"

#include <torch/torch.h>

#include <array>
#include <cmath>

#include "fovea/nn/attention.h"
#include "fovea/nn/attention_pooling.h"
#include "fovea/nn/masked_softmax.h"
#include "fovea/nn/positional_encoding.h"
#include "fovea/plot/attention_figure.h"
#include "fovea/tasks/attention.h"

namespace fovea::plot {
namespace {

constexpr uint64_t kSeed = 1;

std::vector<std::string> counted_from_0(int64_t count) {
  std::vector<std::string> labels;
  for (int64_t i = 0; i < count; ++i) labels.push_back(std::to_string(i));
  return labels;
}

// Values with two digits, as labels.
std::vector<std::string> as_labels(const at::Tensor& values) {
  std::vector<std::string> labels;
  for (int64_t i = 0; i < values.numel(); ++i) labels.push_back(fmt::format("{:.2f}", values[i].item<double>()));
  return labels;
}

// Heatmaps side by side, weights (maps, queries, keys), a name for each.
Picture heatmaps(const std::string& title, const at::Tensor& weights, const std::vector<std::string>& names,
                 const std::vector<std::string>& queries, const std::vector<std::string>& keys) {
  auto attention = tasks::described(title, title, weights, queries, keys);
  attention.head_names = names;
  return attention_figure({.facts = {}, .grids = {}, .matrices = {}, .attentions = {attention}});
}

// A line, or points.
struct Line {
  std::string name;
  at::Tensor x, y;  // (points)
  bool has_points = false;
};

struct Axes {
  std::string title, x_label, y_label;
  std::string y_range = "[*:*]";
  std::vector<Line> lines;
};

// Axes side by side. Lines differ in colour and dashes.
Picture line_panels(const std::vector<Axes>& panels) {
  constexpr int kSide = 300, kLeft = 58, kGap = 62, kTop = 84, kBottom = 60, kHeight = 220;
  Picture picture{.width = kLeft + static_cast<int>(panels.size()) * (kSide + kGap),
                  .height = kTop + kHeight + kBottom,
                  .script = {}};
  std::string& out = picture.script;
  out =
      "set multiplot\nset border 3 lc rgb '#888888'\nset tics nomirror out scale 0.5 textcolor rgb '#222222'\n"
      "set key horizontal left bottom at graph 0,1.03 samplen 2 spacing 1.1\n";
  for (size_t i = 0; i < panels.size(); ++i) {
    const Axes& axes = panels[i];
    const int left = kLeft + static_cast<int>(i) * (kSide + kGap);
    const auto across = [&](int x) { return static_cast<double>(x) / picture.width; };
    const auto up = [&](int y) { return 1 - static_cast<double>(y) / picture.height; };
    out += fmt::format(
        "set lmargin at screen {:.5f}; set rmargin at screen {:.5f}; set tmargin at screen {:.5f}; set bmargin at "
        "screen "
        "{:.5f}\n",
        across(left), across(left + kSide), up(kTop), up(kTop + kHeight));
    out += fmt::format("set xlabel {}\nset ylabel {} offset 1,0\n", literal(axes.x_label), literal(axes.y_label));
    out += fmt::format("set yrange {}\n", axes.y_range);
    if (!axes.title.empty()) {
      out += fmt::format("set label 1 {} at screen {:.5f},{:.5f} left\n", literal(axes.title), across(left), up(14));
    }
    std::string plots;
    for (size_t l = 0; l < axes.lines.size(); ++l) {
      const Line& line = axes.lines[l];
      out += fmt::format("$d{}_{} << EOD\n", i, l);
      for (int64_t p = 0; p < line.x.numel(); ++p) {
        out += fmt::format("{:.6g} {:.6g}\n", line.x[p].item<double>(), line.y[p].item<double>());
      }
      out += "EOD\n";
      const std::string style = line.has_points
                                    ? fmt::format("points pt 6 ps 0.7 lc rgb '{}'", colour_of(l))
                                    : fmt::format("lines lw 1.5 dt {} lc rgb '{}'", l % 5 + 1, colour_of(l));
      plots += fmt::format("{}$d{}_{} with {} title {}", plots.empty() ? "" : ", ", i, l, style, literal(line.name));
    }
    out += "plot " + plots + "\nunset label 1\n";
  }
  out += "unset multiplot\n";
  return picture;
}

// The curve of 11.2 with points around it.
struct NoisyCurve {
  at::Tensor x, y;             // (40), sorted
  at::Tensor queries, true_y;  // (50)

  NoisyCurve() {
    const auto generator = at::detail::createCPUGenerator(kSeed);
    x = std::get<0>((at::rand({40}, generator, at::kDouble) * 5).sort());
    y = curve(x) + at::randn({40}, generator, at::kDouble);
    queries = at::arange(0, 50, at::kDouble) / 10;
    true_y = curve(queries);
  }
  static at::Tensor curve(const at::Tensor& x) { return 2 * x.sin() + x; }
  // Weights (queries, keys).
  at::Tensor weights(nn::Kernel kernel, double bandwidth) const {
    return nn::kernel_weights(kernel, ((queries.unsqueeze(1) - x.unsqueeze(0)) / bandwidth).square());
  }
  std::vector<Line> fit(nn::Kernel kernel, double bandwidth) const {
    return {{"data", x, y, true}, {"curve", queries, true_y}, {"fit", queries, weights(kernel, bandwidth).matmul(y)}};
  }
};

constexpr std::array kKernels = {nn::Kernel::kGaussian, nn::Kernel::kBoxcar, nn::Kernel::kConstant,
                                 nn::Kernel::kEpanechikov};
constexpr std::array kBandwidths = {0.1, 0.2, 0.5, 1.0};

std::string width_name(double width) {
  return fmt::format("width {}", width);
}

Picture identity() {
  const auto labels = counted_from_0(10);
  return heatmaps("attention", at::eye(10).unsqueeze(0), {"each query looks at its own key"}, labels, labels);
}

Picture kernels() {
  const at::Tensor x = at::arange(-25, 26, at::kDouble) / 10;
  // By the book's definitions: kernel_weights() has them normalised.
  const at::Tensor u = x.abs(), within = (u < 1).to(at::kDouble);
  const auto lines = [&](const char* name, const at::Tensor& y) { return std::vector<Line>{{name, x, y}}; };
  const auto axes = [&](const char* name, const at::Tensor& y) {
    return Axes{.title = {},
                .x_label = "distance of query and key",
                .y_label = "weight",
                .y_range = "[0:1.1]",
                .lines = lines(name, y)};
  };
  return line_panels({axes("gaussian", (-u.square() / 2).exp()), axes("boxcar", within),
                      axes("constant", at::ones_like(u)), axes("epanechikov", (1 - u).clamp_min(0))});
}

Picture kernel_fits() {
  const NoisyCurve data;
  std::vector<Axes> panels;
  for (const auto kernel : kKernels) {
    panels.push_back({.title = std::string(name_of(kernel)),
                      .x_label = "x",
                      .y_label = "y",
                      .y_range = "[-2:8]",
                      .lines = data.fit(kernel, 1)});
  }
  return line_panels(panels);
}

Picture kernel_weights_of_all() {
  const NoisyCurve data;
  std::vector<at::Tensor> maps;
  std::vector<std::string> names;
  for (const auto kernel : kKernels) {
    maps.push_back(data.weights(kernel, 1));
    names.emplace_back(name_of(kernel));
  }
  return heatmaps("queries over training points", at::stack(maps), names, as_labels(data.queries), as_labels(data.x));
}

Picture bandwidth_fits() {
  const NoisyCurve data;
  std::vector<Axes> panels;
  for (const double width : kBandwidths) {
    panels.push_back({.title = width_name(width),
                      .x_label = "x",
                      .y_label = "y",
                      .y_range = "[-2:8]",
                      .lines = data.fit(nn::Kernel::kGaussian, width)});
  }
  return line_panels(panels);
}

Picture bandwidth_weights() {
  const NoisyCurve data;
  std::vector<at::Tensor> maps;
  std::vector<std::string> names;
  for (const double width : kBandwidths) {
    maps.push_back(data.weights(nn::Kernel::kGaussian, width));
    names.push_back(width_name(width));
  }
  return heatmaps("queries over training points", at::stack(maps), names, as_labels(data.queries), as_labels(data.x));
}

// Two sentences with 2 and 6 keys that count, of 10.
const at::Tensor& valid_lens() {
  static const at::Tensor lens = at::tensor({2, 6}, at::kLong);
  return lens;
}
const std::vector<std::string> kLengths = {"2 valid keys", "6 valid keys"};

Picture masked_softmax_weights() {
  const auto generator = at::detail::createCPUGenerator(kSeed);
  const at::Tensor scores = at::rand({2, 4, 10}, generator, at::kFloat);
  return heatmaps("masked softmax", nn::masked_softmax(scores, valid_lens()), kLengths, counted_from_0(4),
                  counted_from_0(10));
}

Picture additive_weights() {
  torch::manual_seed(kSeed);
  nn::AdditiveAttention attention(20, 2, 8, 0.0);
  attention->eval();
  const at::NoGradGuard no_grad;
  // As in the book: equal keys, so that all that count have equal weights.
  const at::Tensor queries = at::randn({2, 1, 20}), keys = at::ones({2, 10, 2});
  const at::Tensor values = at::arange(40, at::kFloat).view({1, 10, 4}).repeat({2, 1, 1});
  nn::AttentionRecorder recorder;
  attention->forward(queries, keys, values, nn::AttentionMask::from_valid_lens(valid_lens(), 2, 1, 10), &recorder);
  return heatmaps("additive attention", recorder.records().front().weights.squeeze(1), kLengths, counted_from_0(1),
                  counted_from_0(10));
}

at::Tensor sinusoids(int64_t steps, int64_t num_hiddens) {
  nn::PositionalEncoding encoding(nn::PositionalEncodingOptions{.num_hiddens = num_hiddens, .max_len = steps});
  encoding->eval();
  const at::Tensor none = at::zeros({1, steps, num_hiddens});
  return encoding->forward(none, nn::SequenceLayout::full(none))[0];  // (steps, num_hiddens)
}

Picture positions() {
  const at::Tensor p = sinusoids(60, 32);
  Axes axes{.title = "positional encoding, columns 6 to 9",
            .x_label = "position",
            .y_label = "value",
            .y_range = "[*:*]",
            .lines = {}};
  const at::Tensor x = at::arange(60, at::kDouble);
  for (int64_t column = 6; column < 10; ++column) {
    axes.lines.push_back({fmt::format("column {}", column), x, p.select(1, column)});
  }
  return line_panels({axes});
}

Picture position_codes() {
  constexpr int64_t kSteps = 16, kWidth = 16, kBits = 4;
  // -1 to 1 drawn as 0 to 1, as the bits are.
  const at::Tensor waves = (sinusoids(kSteps, kWidth) + 1) / 2;
  const at::Tensor numbers = at::arange(kSteps, at::kLong).unsqueeze(1),
                   places = at::arange(kBits - 1, -1, -1, at::kLong);
  const at::Tensor bits = numbers.bitwise_right_shift(places).bitwise_and(1).to(at::kFloat);
  const auto rows = counted_from_0(kSteps);
  auto encoded = tasks::described("positional encoding", "positions", waves.unsqueeze(0), rows, counted_from_0(kWidth));
  auto binary = tasks::described("binary numbers", "binary", bits.unsqueeze(0), rows, {"8", "4", "2", "1"});
  Picture picture = attention_figure({.facts = {}, .grids = {}, .matrices = {}, .attentions = {encoded, binary}},
                                     {.side_by_side = true, .scale = "value"});
  return picture;
}

}  // namespace

const std::vector<BookPicture>& book_pictures() {
  static const std::vector<BookPicture> pictures = {
      {"identity", "11.1", "weights of an attention in which each query has its own key", identity},
      {"kernels", "11.2", "how the four kernels fall with the distance", kernels},
      {"kernel-fits", "11.2", "what each kernel makes of noisy points on a curve", kernel_fits},
      {"kernel-weights", "11.2", "the weights of these fits", kernel_weights_of_all},
      {"bandwidth-fits", "11.2", "a Gaussian kernel of four widths on the same points", bandwidth_fits},
      {"bandwidth-weights", "11.2", "the weights of these fits", bandwidth_weights},
      {"masked-softmax", "11.3", "weights of random scores, of which some keys do not count", masked_softmax_weights},
      {"additive", "11.3", "weights of additive attention over equal keys, masked", additive_weights},
      {"positions", "11.6", "four columns of the sinusoidal positional encoding", positions},
      {"position-codes", "11.6", "its frequencies beside the bits of binary numbers", position_codes},
  };
  return pictures;
}

}  // namespace fovea::plot
