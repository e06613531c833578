#include "fovea/tasks/translation/script.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/decode/search.h"
#include "fovea/export/script_module.h"

namespace fovea::translation {
namespace {

namespace jit = torch::jit;
using decode::Seq2SeqState;

// What wraps the traced parts: checks with words, and ints where a trace needs tensors.
constexpr const char* kMethods = R"(
def _check(self, tokens: Tensor, what: str):
    # What masks a score is a constant of the trace, which no half-precision number can hold.
    float32, float64 = 6, 7  # dtypes by number
    fits = self.float_type.dtype == float32 or self.float_type.dtype == float64
    assert fits, "a translator computes in float32 or float64: .half() and .bfloat16() do not fit its masks"
    assert tokens.dim() == 2, "expected {} of (batch, steps), got {}".format(what, tokens.size())
    most = self.max_positions
    assert tokens.size(1) <= most, "expected {} of at most {} steps, got {}".format(what, most, tokens.size(1))

def _check_lens(self, source: Tensor, valid_lens: Tensor):
    self._check(source, "sources")
    batch, steps = source.size(0), source.size(1)
    assert valid_lens.size() == [batch], "expected {} valid_lens, got {}".format(batch, valid_lens.size())
    fit = torch.logical_and(valid_lens >= 0, valid_lens <= steps)
    assert bool(fit.all()), "expected valid_lens from 0 to {}, got {}".format(steps, valid_lens)

def forward(self, source: Tensor, target: Tensor, valid_lens: Tensor) -> Tensor:
    self._check_lens(source, valid_lens)
    self._check(target, "targets")
    return self._forward(source, target, valid_lens)

def encode(self, source: Tensor, valid_lens: Tensor, max_len: int) -> List[Tensor]:
    self._check_lens(source, valid_lens)
    most = self.max_positions
    assert max_len >= 1 and max_len <= most, "expected max_len from 1 to {}, got {}".format(most, max_len)
    return self._encode(source, valid_lens, torch.tensor(max_len))

def decode_step(self, token: Tensor, state: List[Tensor], position: int) -> Tuple[Tensor, List[Tensor]]:
    return self._decode_step(token, state, torch.tensor(position))
)";

constexpr const char* kForwardBySteps = R"(
def _forward(self, source: Tensor, target: Tensor, valid_lens: Tensor) -> Tensor:
    state = self._encode(source, valid_lens, torch.tensor(target.size(1)))
    logits: List[Tensor] = []
    for t in range(target.size(1)):
        of_step, state = self._decode_step(target[:, t], state, torch.tensor(t))
        logits.append(of_step)
    return torch.stack(logits, 1)
)";

// decode/search.cpp, with all sentences of a batch in one tensor: the same scores in the same precision, the same
// order among equals (sorts are stable), the same end. Slots of a beam that hold no hypothesis have -inf.
constexpr const char* kGenerate = R"(
def _take(self, state: List[Tensor], rows: Tensor) -> List[Tensor]:
    taken: List[Tensor] = []
    for tensor in state:
        taken.append(tensor.index_select(0, rows))
    return taken

def _rows(self, x: Tensor, slots: Tensor) -> Tensor:
    return x.gather(1, slots.unsqueeze(2).expand(-1, -1, x.size(2)))

def generate(self, source: Tensor, valid_lens: Tensor, beam: int = 1, length_penalty: float = 0.75,
             max_len: Optional[int] = None, n_best: int = 1) -> Tuple[Tensor, Tensor, Tensor]:
    limit = self.num_steps if max_len is None else max_len
    assert n_best >= 1 and n_best <= beam, "expected 1 <= n_best <= beam, got {} and {}".format(n_best, beam)
    is_penalty = length_penalty >= 0. and length_penalty < float("inf")
    assert is_penalty, "expected a length_penalty from 0 on, got {}".format(length_penalty)
    float32, float64 = 6, 7  # dtypes by number
    none = float("-inf")
    batch = source.size(0)
    scores = torch.full([batch, n_best], none, dtype=float64, device=source.device)
    lengths = source.new_full([batch, n_best], -1)
    tokens = source.new_full([batch, n_best, limit], self.pad)
    state = self.encode(source, valid_lens, limit)
    scores[:, 0].masked_fill_(valid_lens == 0, 0.)
    lengths[:, 0].masked_fill_(valid_lens == 0, 0)
    open = torch.nonzero(valid_lens).flatten()  # the sentences still searched for
    if open.numel() < batch:
        state = self._take(state, open)
    n = open.numel()
    live = torch.zeros([n, 1], dtype=float64, device=source.device)  # log-probabilities, best first
    prefix = source.new_full([n, 1, limit], self.pad)
    last = source.new_full([n], self.bos)
    best = scores.index_select(0, open)  # of the hypotheses that have ended
    best_lengths = lengths.index_select(0, open)
    best_tokens = tokens.index_select(0, open)
    never = torch.tensor([self.pad, self.bos, self.unk], device=source.device)
    step = 0
    while step < limit and n > 0:
        logits, state = self.decode_step(last, state, step)
        log_probs = torch.log_softmax(logits.to(float32), -1).index_fill(1, never, none)
        width = min(2 * beam, log_probs.size(1))
        values, words = log_probs.topk(width)  # (rows, width)
        values = values.masked_fill(torch.isfinite(values).cumprod(-1) == 0, none)
        k = live.size(1)
        total = (live.unsqueeze(-1) + values.to(float64).view(n, k, width)).flatten(1)
        total, order = torch.sort(total, stable=True, dim=1, descending=True)
        count = min(2 * beam, k * width)  # each hypothesis has one end, so this is enough
        total = total[:, :count]
        order = order[:, :count]
        parent = order.div(width, rounding_mode="floor")
        word = words.view(n, k * width).gather(1, order)
        ends = word == self.eos
        possible = total > none

        # Only among the `beam` best does an end count.
        ended = (ends & possible)[:, :beam]
        if bool(ended.any()):
            score = (total[:, :beam] / float(step + 1) ** length_penalty).masked_fill(ended.logical_not(), none)
            all_tokens = torch.cat([best_tokens, self._rows(prefix, parent[:, :beam])], 1)
            all_lengths = torch.cat([best_lengths, torch.where(ended, step, -1)], 1)
            best, order = torch.sort(torch.cat([best, score], 1), stable=True, dim=1, descending=True)
            best = best[:, :n_best]
            best_lengths = all_lengths.gather(1, order[:, :n_best])
            best_tokens = self._rows(all_tokens, order[:, :n_best])

        # The `beam` best of the others go on.
        goes_on = possible & ends.logical_not()
        goes_on = goes_on & (goes_on.cumsum(1) <= beam)
        slots = torch.sort(goes_on.to(0), stable=True, dim=1, descending=True)[1][:, :int(goes_on.sum(1).max())]
        live = total.gather(1, slots).masked_fill(goes_on.gather(1, slots).logical_not(), none)
        parent = parent.gather(1, slots)
        word = word.gather(1, slots)

        # A log-probability only falls, and the greatest possible length is the kindest divisor.
        hope = live.max(1)[0] if live.size(1) > 0 else torch.full_like(best[:, 0], none)
        settled = hope / float(limit) ** length_penalty <= best[:, -1]
        if beam == 1:
            settled = settled | (best[:, 0] > none)
        rows = (parent + torch.arange(n, device=source.device).unsqueeze(1) * k)
        prefix = self._rows(prefix, parent)
        if bool(settled.any()):
            found = bool((best[:, 0][settled] > none).all())
            assert found, "the model gives no token a finite probability; its weights are damaged"
            closed = open[settled]
            scores.index_copy_(0, closed, best[settled])
            lengths.index_copy_(0, closed, best_lengths[settled])
            tokens.index_copy_(0, closed, best_tokens[settled])
            going = settled.logical_not()
            open, live, rows, word, prefix = open[going], live[going], rows[going], word[going], prefix[going]
            best, best_lengths, best_tokens = best[going], best_lengths[going], best_tokens[going]
        prefix.select(2, step).copy_(word)
        last = word.flatten()
        rows = rows.flatten()
        if rows.numel() != n * k or not torch.equal(rows, torch.arange(n * k, device=source.device)):
            state = self._take(state, rows)
        n = open.numel()
        step += 1

    if n > 0:  # cut at the limit: ended and live hypotheses are ranked alike
        order = torch.sort(torch.cat([best, live / float(limit) ** length_penalty], 1), stable=True, dim=1,
                           descending=True)
        chosen = order[1][:, :n_best]
        all_lengths = torch.cat([best_lengths, torch.where(live > none, limit, -1)], 1)
        scores.index_copy_(0, open, order[0][:, :n_best])
        lengths.index_copy_(0, open, all_lengths.gather(1, chosen))
        tokens.index_copy_(0, open, self._rows(torch.cat([best_tokens, prefix], 1), chosen))
    longest = int(lengths.max()) if lengths.numel() > 0 else 0
    return tokens[:, :, :max(longest, 0)], lengths, scores
)";

// Two at least of everything, so that the tracer cannot take a size for the 1 that broadcasts.
struct Example {
  at::Tensor source = at::zeros({2, 3}, at::kLong);
  at::Tensor valid_lens = at::tensor({3, 2}, at::kLong);
  at::Tensor target = at::zeros({2, 4}, at::kLong);
  int64_t max_steps = 5;
};

nn::SequenceLayout source_layout(const at::Tensor& source, const at::Tensor& valid_lens) {
  return nn::SequenceLayout::padded(valid_lens, nn::Size::of(source, 1));
}

void add_seq2seq(exports::ScriptModule& script, const decode::Seq2Seq& model, const TranslationSpec& spec) {
  const Example e;
  if (!model.forward_is_steps()) {
    script.trace("_forward", {"source", "target", "valid_lens"}, {e.source, e.target, e.valid_lens},
                 [&](const jit::Stack& in) -> jit::IValue {
                   const at::Tensor source = in[0].toTensor(), target = in[1].toTensor();
                   return model.forward(source, source_layout(source, in[2].toTensor()), target,
                                        nn::SequenceLayout::full(target));
                 });
  }
  script.trace(
      "_encode", {"source", "valid_lens", "max_len"}, {e.source, e.valid_lens, at::tensor(e.max_steps)},
      [&](const jit::Stack& in) -> jit::IValue {
        const at::Tensor source = in[0].toTensor();
        return model.encode(source, source_layout(source, in[1].toTensor()), nn::Size::from(in[2].toTensor())).tensors;
      });
  const auto state = model.encode(e.source, source_layout(e.source, e.valid_lens), e.max_steps).tensors;
  script.trace("_decode_step", {"token", "state", "position"}, {e.target.select(1, 0), state, at::tensor(int64_t{2})},
               [&](const jit::Stack& in) -> jit::IValue {
                 auto [logits, next] =
                     model.decode_step(in[0].toTensor(), Seq2SeqState{in[1].toTensorVector(), in[2].toTensor()});
                 return c10::ivalue::Tuple::create(logits, next.tensors);
               });
  script.add_buffer("float_type", at::zeros({1}));  // becomes what .half() and its kin make of the module
  script.add("max_positions", model.max_len());
  script.add("num_steps", spec.num_steps);
  script.add("pad", spec.target.pad);
  script.add("bos", spec.target.bos);
  script.add("eos", spec.target.eos);
  script.add("unk", spec.target.unk);
  if (model.forward_is_steps()) script.define(kForwardBySteps);
  script.define(kMethods);
  script.define(kGenerate);
}

std::vector<std::string> reserved_tokens(const data::Tokenizer& tokenizer) {
  std::vector<std::string> reserved;
  for (int64_t id = 0; id < tokenizer.size(); ++id) {
    if (tokenizer.is_reserved(id)) reserved.push_back(tokenizer.token(id));
  }
  return reserved;
}

// The space is the only white space in normalized text, so no token holds a line's end.
std::string token_lines(const data::Tokenizer& tokenizer) {
  std::string lines;
  for (int64_t id = 0; id < tokenizer.size(); ++id) lines += tokenizer.token(id) + "\n";
  return lines;
}

nlohmann::ordered_json describe(const data::Tokenizer& tokenizer) {
  return {{"tokens", tokenizer.size()}, {"reserved", reserved_tokens(tokenizer)},
          {"pad", tokenizer.pad()},     {"bos", tokenizer.bos()},
          {"eos", tokenizer.eos()},     {"unk", tokenizer.unk()}};
}

// The attributes that say how text becomes ids.
void add_text(exports::ScriptModule& script, const TranslationAssets& assets) {
  script.add("tokenizer", assets.source().name());
  script.add("lowercase", assets.text().lowercase);
  script.add("unify_characters", assets.text().unify);
  script.add("source_pad", assets.source().pad());
  script.add("source_eos", assets.source().eos());
  script.add("source_unk", assets.source().unk());
  script.add("source_reserved", reserved_tokens(assets.source()));
}

// valid_lens for a batch: whole, or a bit of everything, 0 included.
std::vector<std::vector<int64_t>> lengths_of(int64_t batch, int64_t steps) {
  if (batch == 1) return {{steps}, {(steps + 1) / 2}, {0}};
  return {std::vector<int64_t>(static_cast<size_t>(batch), steps), {0, steps, (steps + 1) / 2}, {0, 0, 0}};
}

// generate() is decode::search over the exported steps, so that nothing but its own logic can differ.
void compare_generate(exports::Comparing& comparing, jit::Module module, ScriptedSeq2Seq& scripted,
                      const at::Tensor& source, const nn::SequenceLayout& layout, const decode::SpecialTokens& special,
                      decode::SearchOptions o) {
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

exports::Comparison compare_seq2seq(const jit::Module& loaded, const decode::Seq2Seq& live, const TranslationSpec& spec,
                                    const std::function<void(const std::string&)>& say) {
  ScriptedSeq2Seq scripted(loaded, live.max_len());
  std::set<int64_t> all_steps;
  constexpr int64_t kLongest = 64;  // longer ones only take longer
  for (const int64_t steps : {int64_t{1}, int64_t{9}, int64_t{37}, spec.num_steps, live.max_len()}) {
    all_steps.insert(std::min({steps, live.max_len(), kLongest}));
  }
  auto generator = at::make_generator<at::CPUGeneratorImpl>(11);
  const auto tokens_of = [&](int64_t vocabulary, int64_t batch, int64_t steps) {
    return at::randint(vocabulary, {batch, steps}, generator, at::kLong);
  };
  exports::Comparing comparing;
  for (const int64_t batch : {int64_t{1}, int64_t{3}}) {
    for (const int64_t steps : all_steps) {
      say(fmt::format("comparing batches of {}, {} long", batch, counted(steps, "token")));
      for (const auto& lens : lengths_of(batch, steps)) {
        const auto layout = nn::SequenceLayout::padded(lens, steps);
        const at::Tensor source = tokens_of(spec.source_vocab_size, batch, steps);
        comparing.run(fmt::format("batch {}, {}, valid_lens {}", batch, counted(steps, "token"), fmt::join(lens, " ")),
                      [&] {
                        const int64_t target_steps = std::min(steps + 2, live.max_len());
                        const at::Tensor target = tokens_of(spec.target_vocab_size, batch, target_steps);
                        const auto target_layout = nn::SequenceLayout::full(target);
                        comparing.same("logits", scripted.forward(source, layout, target, target_layout),
                                       live.forward(source, layout, target, target_layout));
                        Seq2SeqState a = scripted.encode(source, layout, target_steps);
                        Seq2SeqState b = live.encode(source, layout, target_steps);
                        for (int64_t t = 0; t < std::min<int64_t>(target_steps, 4); ++t) {
                          if (a.tensors.size() != b.tensors.size())
                            fail("export: {}: the state has other parts", comparing.at());
                          for (size_t i = 0; i < a.tensors.size(); ++i)
                            comparing.same("states", a.tensors[i], b.tensors[i]);
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
  comparing.result.sizes = fmt::format("batches of 1 and 3; lengths {}; valid_lens 0", fmt::join(all_steps, ", "));
  return comparing.result;
}

}  // namespace

Seq2SeqState ScriptedSeq2Seq::encode(const at::Tensor& source, const nn::SequenceLayout& layout,
                                     const nn::Size& max_steps) const {
  return {jit::Module(module_).run_method("encode", source, layout.lengths(), max_steps.value()).toTensorVector(),
          at::zeros({}, at::kLong)};
}

std::pair<at::Tensor, Seq2SeqState> ScriptedSeq2Seq::decode_step(const at::Tensor& token, Seq2SeqState state) const {
  const auto result =
      jit::Module(module_).run_method("decode_step", token, state.tensors, state.next_position()).toTuple();
  return {result->elements()[0].toTensor(), Seq2SeqState{result->elements()[1].toTensorVector(), state.position + 1}};
}

at::Tensor ScriptedSeq2Seq::forward(const at::Tensor& source, const nn::SequenceLayout& source_layout,
                                    const at::Tensor& target, const nn::SequenceLayout&, nn::AttentionRecorder*) const {
  return jit::Module(module_).run_method("forward", source, target, source_layout.lengths()).toTensor();
}

exports::ScriptRecipe script_recipe(const decode::Seq2Seq& model, const TranslationAssets& assets) {
  const nlohmann::ordered_json facts = {
      {"tokenizer", assets.source().name()},     {"lowercase", assets.text().lowercase},
      {"unify_characters", assets.text().unify}, {"num_steps", assets.spec().num_steps},
      {"source", describe(assets.source())},     {"target", describe(assets.target())}};
  return {.kind = "translation",
          .build =
              [&](exports::ScriptModule& script) {
                add_seq2seq(script, model, assets.spec());
                add_text(script, assets);
              },
          .compare = [&](const jit::Module& loaded,
                         const auto& say) { return compare_seq2seq(loaded, model, assets.spec(), say); },
          .facts_json = facts.dump(),
          .files = {{"source_tokens.txt", token_lines(assets.source())},
                    {"target_tokens.txt", token_lines(assets.target())}}};
}

}  // namespace fovea::translation
