#include "fovea/export/torchscript_check.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <cmath>
#include <set>

#include "fovea/core/error.h"
#include "fovea/tasks/translation/translation.h"
#include "fovea/decode/search.h"
#include "fovea/tasks/classification/images/classifier_script.h"
#include "fovea/tasks/translation/seq2seq_script.h"

namespace fovea::exports {
namespace {

namespace jit = torch::jit;
using decode::Seq2SeqState;

class Comparing {
 public:
  /// Runs `compare` for one case, whose name and sizes go into any error.
  template <typename Function>
  void run(const std::string& at, const Function& compare) {
    at_ = at;
    ++result.cases;
    try {
      compare();
    } catch (const Error&) {
      throw;
    } catch (const c10::Error& e) {
      failed(e.what_without_backtrace());
    } catch (const std::exception& e) {  // what TorchScript raises
      failed(e.what());
    }
  }

  void same(const char* what, const at::Tensor& exported, const at::Tensor& live) {
    if (exported.sizes() != live.sizes()) {
      fail("export: {}: the exported model gives {} of {}, the model itself of {}{}", at_, what,
           c10::str(exported.sizes()), c10::str(live.sizes()), kAdvice);
    }
    if (live.numel() == 0) return;
    const at::Tensor a = exported.to(at::kDouble), b = live.to(at::kDouble);
    const double difference = (a - b).abs().max().item<double>() / std::max(1.0, b.abs().max().item<double>());
    if (!(difference <= kExportTolerance)) {
      fail(
          "export: {}: the {} of the exported model differ by {:.2g} from those of the model itself, more than "
          "{:.0e}{}",
          at_, what, difference, kExportTolerance, kAdvice);
    }
    result.largest = std::max(result.largest, difference);
  }

  const std::string& at() const { return at_; }
  Comparison result;

 private:
  static constexpr const char* kAdvice = "; a size that was frozen while tracing? (nn/size.h). Nothing was exported";

  [[noreturn]] void failed(const std::string& why) {
    fail("export: {}: the exported model fails: {}{}", at_, why, kAdvice);
  }
  std::string at_;
};

// valid_lens for a batch: whole, or a bit of everything, 0 included.
std::vector<std::vector<int64_t>> lengths_of(int64_t batch, int64_t steps) {
  if (batch == 1) return {{steps}, {(steps + 1) / 2}, {0}};
  return {std::vector<int64_t>(static_cast<size_t>(batch), steps), {0, steps, (steps + 1) / 2}, {0, 0, 0}};
}

// generate() is decode::search over the exported steps, so that nothing but its own logic can differ.
void compare_generate(Comparing& comparing, jit::Module module, translation::ScriptedSeq2Seq& scripted, const at::Tensor& source,
                      const nn::SequenceLayout& layout, const decode::SpecialTokens& special, decode::SearchOptions o) {
  const auto expected = decode::search(scripted, source, layout, special, o);
  const auto outputs =
      module.run_method("generate", source, layout.lengths(), o.beam, o.length_penalty, o.max_len, o.n_best).toTuple();
  const at::Tensor tokens = outputs->elements()[0].toTensor(), lengths = outputs->elements()[1].toTensor(),
                   scores = outputs->elements()[2].toTensor();
  for (size_t i = 0; i < expected.size(); ++i) {
    for (int64_t n = 0; n < o.n_best; ++n) {
      const auto row = [&](const at::Tensor& x) { return x[static_cast<int64_t>(i)][n]; };
      const auto length = row(lengths).item<int64_t>();
      const bool there = n < static_cast<int64_t>(expected[i].size());
      bool same = there == (length >= 0);
      if (same && there) {
        const auto& hypothesis = expected[i][static_cast<size_t>(n)];
        const at::Tensor words = row(tokens).narrow(0, 0, length).contiguous();
        same = std::vector<int64_t>(words.const_data_ptr<int64_t>(), words.const_data_ptr<int64_t>() + length) ==
                   hypothesis.tokens &&
               std::abs(row(scores).item<double>() - hypothesis.score) < 1e-9;
      }
      if (!same) {
        fail("export: {}, beam {}: generate() does not find what the search finds. Nothing was exported",
             comparing.at(), o.beam);
      }
    }
  }
}

}  // namespace

Comparison compare_seq2seq(const jit::Module& loaded, decode::Seq2Seq& live, const data::DataAssets& assets,
                           const std::function<void(const std::string&)>& say) {
  const auto spec = std::get<translation::TranslationSpec>(assets.spec());
  translation::ScriptedSeq2Seq scripted(loaded, live.max_len());
  std::set<int64_t> all_steps;
  constexpr int64_t kLongest = 64;  // longer ones only take longer
  for (const int64_t steps : {int64_t{1}, int64_t{9}, int64_t{37}, spec.num_steps, live.max_len()}) {
    all_steps.insert(std::min({steps, live.max_len(), kLongest}));
  }
  auto generator = at::make_generator<at::CPUGeneratorImpl>(11);
  const auto tokens_of = [&](int64_t vocabulary, int64_t batch, int64_t steps) {
    return at::randint(vocabulary, {batch, steps}, generator, at::kLong);
  };
  Comparing comparing;
  for (const int64_t batch : {int64_t{1}, int64_t{3}}) {
    for (const int64_t steps : all_steps) {
      say(fmt::format("comparing batches of {}, {} tokens long", batch, steps));
      for (const auto& lens : lengths_of(batch, steps)) {
        const auto layout = nn::SequenceLayout::padded(lens, steps);
        const at::Tensor source = tokens_of(spec.source_vocab_size, batch, steps);
        comparing.run(fmt::format("batch {}, {} tokens, valid_lens {}", batch, steps, fmt::join(lens, " ")), [&] {
          const int64_t target_steps = std::min(steps + 2, live.max_len());
          const at::Tensor target = tokens_of(spec.target_vocab_size, batch, target_steps);
          const auto target_layout = nn::SequenceLayout::full(target);
          comparing.same("logits", scripted.forward(source, layout, target, target_layout),
                         live.forward(source, layout, target, target_layout));
          Seq2SeqState a = scripted.encode(source, layout, target_steps);
          Seq2SeqState b = live.encode(source, layout, target_steps);
          for (int64_t t = 0; t < std::min<int64_t>(target_steps, 4); ++t) {
            if (a.tensors.size() != b.tensors.size()) fail("export: {}: the state has other parts", comparing.at());
            for (size_t i = 0; i < a.tensors.size(); ++i) comparing.same("states", a.tensors[i], b.tensors[i]);
            const at::Tensor token = target.select(1, t);
            auto [exported_logits, exported_state] = scripted.decode_step(token, std::move(a));
            auto [logits, state] = live.decode_step(token, std::move(b));
            comparing.same("logits of a step", exported_logits, logits);
            const at::Tensor reordered = at::arange(batch, at::kLong).flip(0);
            a = exported_state.select(reordered);
            b = state.select(reordered);
          }
          for (const int64_t beam : {1, 2, 4}) {
            const decode::SearchOptions options{
                .beam = beam, .n_best = beam, .max_len = std::min<int64_t>(10, live.max_len())};
            compare_generate(comparing, loaded, scripted, source, layout, spec.target, options);
          }
        });
      }
    }
  }
  comparing.result.sizes = fmt::format("batches of 1 and 3, {} tokens, valid_lens 0 too", fmt::join(all_steps, ", "));
  return comparing.result;
}

Comparison compare_classifier(const jit::Module& loaded, classification::Classifier& live, const classification::ImageInput& input,
                              const std::function<void(const std::string&)>& say) {
  const classification::ImageSpec& spec = input.spec;
  jit::Module module = loaded;
  const at::Tensor mean = classification::by_channel(input.mean), std = classification::by_channel(input.std);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(11);
  const std::vector<std::pair<int64_t, int64_t>> sizes = {{spec.height, spec.width},
                                                          {2 * spec.height + 1, 3 * spec.width},
                                                          {std::max<int64_t>(1, spec.height / 2), spec.width + 5}};
  Comparing comparing;
  std::string words;
  for (const int64_t batch : {1, 3}) {
    for (const auto& [height, width] : sizes) {
      say(fmt::format("comparing batches of {}, {} x {} pixels", batch, height, width));
      if (batch == 1) words += fmt::format("{}{} x {}", words.empty() ? "" : ", ", height, width);
      const at::Tensor bytes = at::randint(256, {batch, spec.channels, height, width}, generator, at::kByte);
      for (const bool is_bytes : {true, false}) {
        comparing.run(fmt::format("batch {}, {} x {} {}", batch, height, width, is_bytes ? "bytes" : "floats"), [&] {
          const at::Tensor image = is_bytes ? bytes : bytes.to(at::kFloat) / 255;
          const at::Tensor seen = module.run_method("preprocess", image).toTensor();
          if (is_bytes) {
            std::vector<at::Tensor> expected;
            for (const auto& one : image.unbind(0)) expected.push_back(input.preprocess(one));
            comparing.same("pixels", seen, at::stack(expected));
          } else {
            at::Tensor expected = image;
            if (height != spec.height || width != spec.width) {
              expected = at::_upsample_bilinear2d_aa(expected, {spec.height, spec.width}, /*align_corners=*/false);
            }
            comparing.same("pixels", seen, (expected - mean) / std);
          }
          comparing.same("logits", module.forward({image}).toTensor(), live.logits(seen));
        });
      }
    }
  }
  comparing.result.sizes = "batches of 1 and 3, images of " + words;
  return comparing.result;
}

}  // namespace fovea::exports
