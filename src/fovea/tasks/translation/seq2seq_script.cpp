#include "fovea/tasks/translation/seq2seq_script.h"

#include <torch/torch.h>

namespace fovea::translation {
namespace {

namespace jit = torch::jit;
using decode::Seq2SeqState;

// What wraps the traced parts: checks with words, and ints where a trace needs tensors.
constexpr const char* kMethods = R"(
def _check(self, tokens: Tensor, what: str):
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

}  // namespace

void add_seq2seq(exports::ScriptModule& script, decode::Seq2Seq& model, const TranslationSpec& spec) {
  const Example e;
  script.trace("_forward", {"source", "target", "valid_lens"}, {e.source, e.target, e.valid_lens},
               [&](const jit::Stack& in) -> jit::IValue {
                 const at::Tensor source = in[0].toTensor(), target = in[1].toTensor();
                 return model.forward(source, source_layout(source, in[2].toTensor()), target,
                                      nn::SequenceLayout::full(target));
               });
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
  script.add("max_positions", model.max_len());
  script.add("num_steps", spec.num_steps);
  script.add("pad", spec.target.pad);
  script.add("bos", spec.target.bos);
  script.add("eos", spec.target.eos);
  script.add("unk", spec.target.unk);
  script.define(kMethods);
  script.define(kGenerate);
}

Seq2SeqState ScriptedSeq2Seq::encode(const at::Tensor& source, const nn::SequenceLayout& layout,
                                     const nn::Size& max_steps) {
  return {module_.run_method("encode", source, layout.lengths(), max_steps.value()).toTensorVector(),
          at::zeros({}, at::kLong)};
}

std::pair<at::Tensor, Seq2SeqState> ScriptedSeq2Seq::decode_step(const at::Tensor& token, Seq2SeqState state) {
  const auto result = module_.run_method("decode_step", token, state.tensors, state.next_position()).toTuple();
  return {result->elements()[0].toTensor(), Seq2SeqState{result->elements()[1].toTensorVector(), state.position + 1}};
}

at::Tensor ScriptedSeq2Seq::forward(const at::Tensor& source, const nn::SequenceLayout& source_layout,
                                    const at::Tensor& target, const nn::SequenceLayout&) {
  return module_.run_method("forward", source, target, source_layout.lengths()).toTensor();
}

}  // namespace fovea::translation
