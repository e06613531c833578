"""Writes the golden tensors of tests/golden: inputs, parameters, outputs and gradients of d2l's own classes.

    python scripts/reference/make_golden.py [--out tests/golden]

tests/golden/README.md says what is in each file. Everything is float32 or int64, computed on one thread with dropout 0
from fixed seeds; the files' bytes do not depend on when they are made.
"""

import argparse
import json
import pathlib
import struct

import torch
from d2l import torch as d2l
from torch import nn

from attention_pooling import KERNELS, NWKernelRegression, nadaraya_watson, without_own
from seq2seq import BahdanauDecoder, ContextDecoder
from seq2seq import make_translator as make_recurrent_translator
from transformer import TransformerDecoderBlock, clip_gradients, make_translator
from vit import PatchEmbedding, ViT, ViTBlock

PAD, BOS, EOS = 1, 2, 0  # of the made-up vocabularies of the whole model


class Golden:
    """One file: cases of tensors `<case>/<group>.<name>`, and strings in the metadata."""

    def __init__(self, name):
        self.name = name
        self.tensors = {}
        self.metadata = {'cases': ''}

    def add_case(self, case, hyper_parameters, **groups):
        cases = self.metadata['cases'].split(',') if self.metadata['cases'] else []
        self.metadata['cases'] = ','.join(cases + [case])
        for key, value in hyper_parameters.items():
            self.metadata[f'{case}/{key}'] = str(value)
        for group, tensors in groups.items():
            for name, tensor in tensors.items():
                self.tensors[f'{case}/{group}.{name}'] = tensor.detach().clone().contiguous()

    def save(self, folder):
        """The safetensors format, written here because the package's writer puts the metadata in random order."""
        header, blobs, offset = {'__metadata__': dict(sorted(self.metadata.items()))}, [], 0
        by_alignment = sorted(self.tensors.items(), key=lambda item: (-item[1].element_size(), item[0]))
        for key, tensor in by_alignment:
            blob = tensor.numpy().tobytes()
            dtype = {torch.float32: 'F32', torch.int64: 'I64', torch.uint8: 'U8'}[tensor.dtype]
            header[key] = {'dtype': dtype, 'shape': list(tensor.shape), 'data_offsets': [offset, offset + len(blob)]}
            blobs.append(blob)
            offset += len(blob)
        text = json.dumps(header, separators=(',', ':')).encode()
        text += b' ' * (-len(text) % 8)
        (folder / f'{self.name}.safetensors').write_bytes(struct.pack('<Q', len(text)) + text + b''.join(blobs))


def randn(*shape):
    return torch.randn(*shape)


def randomize(module):
    """Values that leave no parameter without effect: biases and layer-norm gains would else be 0 and 1."""
    with torch.no_grad():
        for name, param in sorted(module.named_parameters()):
            if name.endswith(('ln.weight', 'ln1.weight', 'ln2.weight', 'head.0.weight')):
                param.copy_(1 + 0.2 * randn(*param.shape))
            elif param.dim() == 1:
                param.copy_(0.2 * randn(*param.shape))
            elif 'embedding' in name and 'conv' not in name or name == 'cls_token':
                param.copy_(randn(*param.shape))
            else:
                bound = (6 / sum(param.shape)) ** 0.5
                param.copy_((2 * torch.rand(*param.shape) - 1) * bound)


def parameters_and_gradients(module):
    params = {name: p.detach().clone() for name, p in module.named_parameters()}
    grads = {name: p.grad for name, p in module.named_parameters()}
    return params, grads


def record(golden, case, hyper_parameters, module, inputs, call, row_lens=None, integers=None, extras=None):
    """Runs `call(**inputs)`, back-propagates sum(output * upstream), and stores everything.

    row_lens: where given, `upstream` is 0 in rows (b, t) with t >= row_lens[b]: rows of padding count for nothing.
    extras: called afterwards; more outputs to store, the attention weights above all.
    """
    inputs = {name: tensor.requires_grad_() for name, tensor in inputs.items()}
    params = {name: p.detach().clone() for name, p in module.named_parameters()} if module else {}
    output = call(**inputs)
    upstream = randn(*output.shape)
    if row_lens is not None:
        steps = torch.arange(output.shape[1])
        upstream = upstream * (steps[None] < row_lens[:, None]).float()[..., None]
    (output * upstream).sum().backward()
    outputs = {'output': output, **(extras() if extras else {})}
    golden.add_case(
        case, hyper_parameters,
        input={**inputs, **(integers or {}), 'upstream': upstream},
        param=params,
        output=outputs,
        grad={name: p.grad for name, p in module.named_parameters()} if module else {},
        grad_input={name: tensor.grad for name, tensor in inputs.items()})


def by_head(weights, num_heads):
    """(batch_size * num_heads, queries, keys) -> (batch_size, num_heads, queries, keys)."""
    return weights.reshape(-1, num_heads, *weights.shape[1:])


def masked_softmax():
    golden = Golden('masked_softmax')
    lens = {
        'no_lens': None,
        'lens_1d': torch.tensor([5, 1, 7]),
        'lens_2d': torch.tensor([[1, 7, 3, 2, 6], [4, 1, 1, 7, 5], [2, 3, 7, 6, 1]]),
    }
    for seed, (case, valid_lens) in enumerate(lens.items()):
        torch.manual_seed(100 + seed)
        record(golden, case, {}, None, {'X': 3 * randn(3, 5, 7)},
               # d2l masks its argument in place
               lambda X, valid_lens=valid_lens: d2l.masked_softmax(X.clone(), valid_lens),
               integers={} if valid_lens is None else {'valid_lens': valid_lens})
    return golden


def pooling_cases(name, make, query_size, key_size, value_size, hyper_parameters, seed):
    """Additive and dot-product attention: (queries, keys, values, valid_lens) with 1-D and 2-D lengths and without."""
    golden = Golden(name)
    lens = {
        'no_lens': None,
        'lens_1d': torch.tensor([4, 7, 1]),
        'lens_2d': torch.tensor([[3, 1, 7, 2, 5], [6, 6, 2, 1, 4], [7, 5, 3, 4, 1]]),
    }
    for i, (case, valid_lens) in enumerate(lens.items()):
        torch.manual_seed(seed + i)
        attention = make()
        inputs = {'queries': randn(3, 5, query_size), 'keys': randn(3, 7, key_size), 'values': randn(3, 7, value_size)}
        attention(*inputs.values(), valid_lens)  # gives the lazy layers their sizes
        randomize(attention)
        record(golden, case, hyper_parameters, attention, inputs,
               lambda queries, keys, values, attention=attention, valid_lens=valid_lens: attention(
                   queries, keys, values, valid_lens),
               integers={} if valid_lens is None else {'valid_lens': valid_lens},
               extras=lambda attention=attention: {'attention_weights': attention.attention_weights})
    return golden


def additive_attention():
    sizes = {'query_size': 6, 'key_size': 5, 'value_size': 9, 'num_hiddens': 11}
    return pooling_cases('additive_attention', lambda: d2l.AdditiveAttention(11, dropout=0), 6, 5, 9, sizes, 200)


def dot_product_attention():
    sizes = {'query_size': 6, 'key_size': 6, 'value_size': 9}
    return pooling_cases('dot_product_attention', lambda: d2l.DotProductAttention(dropout=0), 6, 6, 9, sizes, 300)


def multi_head_attention():
    golden = Golden('multi_head_attention')
    lens = {
        'no_lens': None,
        'lens_1d': torch.tensor([2, 7, 5]),
        'lens_2d': torch.tensor([[7, 3, 1, 2, 5], [1, 6, 2, 7, 4], [5, 5, 3, 4, 1]]),
    }
    seed = 400
    for use_bias in (False, True):
        for lens_case, valid_lens in lens.items():
            torch.manual_seed(seed)
            seed += 1
            num_hiddens, num_heads = 20, 4
            attention = d2l.MultiHeadAttention(num_hiddens, num_heads, 0, bias=use_bias)
            inputs = {'queries': randn(3, 5, 20), 'keys': randn(3, 7, 20), 'values': randn(3, 7, 20)}
            attention(*inputs.values(), valid_lens)
            randomize(attention)
            record(golden, f'{lens_case}_{"bias" if use_bias else "no_bias"}',
                   {'num_hiddens': num_hiddens, 'num_heads': num_heads, 'use_bias': str(use_bias).lower()},
                   attention, inputs,
                   lambda queries, keys, values, attention=attention, valid_lens=valid_lens: attention(
                       queries, keys, values, valid_lens),
                   integers={} if valid_lens is None else {'valid_lens': valid_lens},
                   extras=lambda attention=attention: {
                       'attention_weights': by_head(attention.attention.attention_weights, 4)})
    return golden


def positional_encoding():
    golden = Golden('positional_encoding')
    torch.manual_seed(500)
    encoding = d2l.PositionalEncoding(24, dropout=0, max_len=60)
    record(golden, 'sinusoidal', {'num_hiddens': 24, 'max_len': 60}, encoding, {'X': randn(3, 7, 24)}, encoding,
           extras=lambda: {'P': encoding.P[0]})
    return golden


def position_wise_ffn():
    golden = Golden('position_wise_ffn')
    torch.manual_seed(600)
    ffn = d2l.PositionWiseFFN(13, 20)
    X = randn(3, 7, 20)
    ffn(X)
    randomize(ffn)
    record(golden, 'ffn', {'num_hiddens': 20, 'ffn_num_hiddens': 13}, ffn, {'X': X}, ffn)
    return golden


def add_norm():
    golden = Golden('add_norm')
    torch.manual_seed(700)
    addnorm = d2l.AddNorm(20, dropout=0)
    randomize(addnorm)
    record(golden, 'add_norm', {'num_hiddens': 20}, addnorm, {'X': randn(3, 7, 20), 'Y': randn(3, 7, 20)}, addnorm)
    return golden


def transformer_encoder_block():
    golden = Golden('transformer_encoder_block')
    for i, use_bias in enumerate((False, True)):
        torch.manual_seed(800 + i)
        block = d2l.TransformerEncoderBlock(24, 13, 4, dropout=0, use_bias=use_bias)
        X, valid_lens = randn(3, 7, 24), torch.tensor([3, 7, 1])
        block(X, valid_lens)
        randomize(block)
        record(golden, 'bias' if use_bias else 'no_bias',
               {'num_hiddens': 24, 'ffn_num_hiddens': 13, 'num_heads': 4, 'use_bias': str(use_bias).lower()},
               block, {'X': X}, lambda X, block=block: block(X, valid_lens), row_lens=valid_lens,
               integers={'valid_lens': valid_lens},
               extras=lambda block=block: {
                   'attention_weights': by_head(block.attention.attention.attention_weights, 4)})
    return golden


def padded_tokens(lens, num_steps, vocab_size):
    """Random words (ids from 4 up), `<eos>` last, `<pad>` behind."""
    tokens = torch.full((len(lens), num_steps), PAD)
    for row, length in zip(tokens, lens):
        row[:length - 1] = torch.randint(4, vocab_size, (length - 1,))
        row[length - 1] = EOS
    return tokens


def transformer_encoder():
    golden = Golden('transformer_encoder')
    torch.manual_seed(900)
    encoder = d2l.TransformerEncoder(17, 24, 13, 4, 2, dropout=0)
    valid_lens = torch.tensor([5, 7, 2])
    X = padded_tokens([5, 7, 2], 7, 17)
    encoder(X, valid_lens)
    randomize(encoder)
    record(golden, 'encoder',
           {'vocab_size': 17, 'num_hiddens': 24, 'ffn_num_hiddens': 13, 'num_heads': 4, 'num_blks': 2,
            'use_bias': 'false', 'max_len': 1000},
           encoder, {}, lambda: encoder(X, valid_lens), row_lens=valid_lens,
           integers={'X': X, 'valid_lens': valid_lens},
           extras=lambda: {f'attention_weights.{i}': by_head(w, 4) for i, w in enumerate(encoder.attention_weights)})
    return golden


def transformer_decoder_block():
    golden = Golden('transformer_decoder_block')
    torch.manual_seed(1000)
    block = TransformerDecoderBlock(24, 13, 4, 0, i=0)
    enc_valid_lens = torch.tensor([4, 7, 1])
    inputs = {'X': randn(3, 5, 24), 'enc_outputs': randn(3, 7, 24)}
    block(inputs['X'], [inputs['enc_outputs'], enc_valid_lens, [None]])
    randomize(block)
    record(golden, 'decoder_block',
           {'num_hiddens': 24, 'ffn_num_hiddens': 13, 'num_heads': 4, 'use_bias': 'false'},
           block, inputs, lambda X, enc_outputs: block(X, [enc_outputs, enc_valid_lens, [None]])[0],
           integers={'enc_valid_lens': enc_valid_lens},
           extras=lambda: {'attention_weights.self': by_head(block.attention1.attention.attention_weights, 4),
                            'attention_weights.cross': by_head(block.attention2.attention.attention_weights, 4)})
    return golden


def ten_adam_steps(model, loss_of, lr):
    """The losses and gradient norms of ten steps with clipping, and the loss after them. loss_of() -> the loss."""
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, betas=(0.9, 0.999), eps=1e-8)
    losses, norms = [], []
    for _ in range(10):
        step_loss = loss_of()
        optimizer.zero_grad()
        step_loss.backward()
        norms.append(clip_gradients(1, model))
        optimizer.step()
        losses.append(step_loss.detach())
    with torch.no_grad():
        final_loss = loss_of()
    return {'losses': torch.stack(losses), 'grad_norms': torch.stack(norms), 'final_loss': final_loss}


def transformer():
    """The whole model: logits, masked loss, gradients, ten Adam steps, and the greedy translation after them."""
    golden = Golden('transformer')
    torch.manual_seed(1100)
    sizes = {'src_vocab_size': 17, 'tgt_vocab_size': 19, 'num_hiddens': 24, 'ffn_num_hiddens': 13, 'num_heads': 4,
             'num_blks': 2}
    model = make_translator(**sizes, tgt_pad=PAD, dropout=0, lr=0.001)
    randomize(model)
    src_valid_len = torch.tensor([7, 4, 2])
    src = padded_tokens([7, 4, 2], 7, sizes['src_vocab_size'])
    label = padded_tokens([3, 5, 2], 5, sizes['tgt_vocab_size'])
    tgt = torch.cat([torch.full((3, 1), BOS), label[:, :-1]], dim=1)
    batch = src, tgt, src_valid_len, label

    model.train()
    logits = model(src, tgt, src_valid_len)
    attention = {
        **{f'attention_weights.encoder.{i}': by_head(w, 4) for i, w in enumerate(model.encoder.attention_weights)},
        **{f'attention_weights.{kind}.{i}': by_head(w, 4)
           for kind, layers in zip(('self', 'cross'), model.decoder.attention_weights)
           for i, w in enumerate(layers)}}
    loss = model.loss(logits, label)
    loss.backward()
    params, grads = parameters_and_gradients(model)
    grads = {name: grad.clone() for name, grad in grads.items()}

    adam = ten_adam_steps(model, lambda: model.training_step(batch), lr=0.001)
    golden.add_case(
        'translator',
        {**sizes, 'use_bias': 'false', 'max_len': 1000, 'pad': PAD, 'bos': BOS, 'eos': EOS, 'lr': 0.001,
         'betas': '0.9,0.999', 'eps': 1e-8, 'gradient_clip_val': 1, 'greedy_num_steps': 6},
        input={'src': src, 'tgt': tgt, 'src_valid_len': src_valid_len, 'label': label},
        param=params,
        output={'output': logits, 'loss': loss, **attention},
        grad=grads,
        adam=adam,
        trained=dict(model.named_parameters()),
        greedy={'tokens': model.greedy(src, src_valid_len, BOS, 6)})
    return golden


def patch_embedding():
    """Square and oblong patches, one channel and several."""
    golden = Golden('patch_embedding')
    cases = {'square': ((12, 12), (4, 4), 1), 'oblong': ((6, 10), (3, 2), 3)}
    for seed, (case, (image, patch, channels)) in enumerate(cases.items()):
        torch.manual_seed(1200 + seed)
        embedding = PatchEmbedding(image, patch, 20, channels)
        with torch.no_grad():
            for param in embedding.parameters():
                param.copy_(0.3 * randn(*param.shape))
        record(golden, case,
               {'num_channels': channels, 'img_height': image[0], 'img_width': image[1], 'patch_height': patch[0],
                'patch_width': patch[1], 'num_hiddens': 20},
               embedding, {'X': randn(3, channels, *image)}, embedding)
    return golden


def vit_block():
    golden = Golden('vit_block')
    lens = {'no_lens': None, 'lens_1d': torch.tensor([4, 7, 1])}
    seed = 1300
    for use_bias in (False, True):
        for lens_case, valid_lens in lens.items():
            torch.manual_seed(seed)
            seed += 1
            block = ViTBlock(24, 36, 4, dropout=0, use_bias=use_bias)
            X = randn(3, 7, 24)
            block(X, valid_lens)
            randomize(block)
            record(golden, f"{lens_case}_{'bias' if use_bias else 'no_bias'}",
                   {'num_hiddens': 24, 'mlp_num_hiddens': 36, 'num_heads': 4, 'use_bias': str(use_bias).lower()},
                   block, {'X': X}, lambda X, block=block, valid_lens=valid_lens: block(X, valid_lens),
                   integers={} if valid_lens is None else {'valid_lens': valid_lens},
                   extras=lambda block=block: {
                       'attention_weights': by_head(block.attention.attention.attention_weights, 4)})
    return golden


def vit():
    """The whole model: logits, loss, gradients, ten Adam steps, logits under a mask."""
    golden = Golden('vit')
    torch.manual_seed(1400)
    sizes = {'num_hiddens': 24, 'mlp_num_hiddens': 36, 'num_heads': 4, 'num_blks': 3, 'num_classes': 5}
    model = ViT(img_size=(8, 12), patch_size=(4, 3), num_channels=2, emb_dropout=0, blk_dropout=0, **sizes)
    randomize(model)
    image, label = randn(6, 2, 8, 12), torch.tensor([0, 4, 2, 2, 1, 3])
    valid_lens = torch.tensor([8, 1, 5, 0, 3, 7])
    loss = nn.CrossEntropyLoss()

    model.train()
    logits = model(image)
    attention = {f'attention_weights.{i}': by_head(w, 4) for i, w in enumerate(model.attention_weights)}
    first_loss = loss(logits, label)
    first_loss.backward()
    params, grads = parameters_and_gradients(model)
    grads = {name: grad.clone() for name, grad in grads.items()}
    with torch.no_grad():
        masked = model(image, valid_lens)
        smoothed = nn.CrossEntropyLoss(label_smoothing=0.1)(logits, label)

    adam = ten_adam_steps(model, lambda: loss(model(image), label), lr=0.003)
    golden.add_case(
        'vit',
        {**sizes, 'num_channels': 2, 'img_height': 8, 'img_width': 12, 'patch_height': 4, 'patch_width': 3,
         'use_bias': 'false', 'lr': 0.003, 'betas': '0.9,0.999', 'eps': 1e-8, 'gradient_clip_val': 1,
         'label_smoothing': 0.1},
        input={'image': image, 'label': label, 'valid_lens': valid_lens},
        param=params,
        output={'output': logits, 'loss': first_loss, 'smoothed_loss': smoothed, 'masked': masked, **attention},
        grad=grads,
        adam=adam)
    return golden


def seq2seq_encoder():
    """d2l's class as it is, on sentences without padding, which it would read."""
    golden = Golden('seq2seq_encoder')
    torch.manual_seed(1600)
    encoder = d2l.Seq2SeqEncoder(17, 6, 10, 2)
    X = torch.randint(4, 17, (3, 7))
    randomize(encoder)
    record(golden, 'encoder', {'vocab_size': 17, 'embed_size': 6, 'num_hiddens': 10, 'num_layers': 2}, encoder, {},
           lambda: encoder(X)[0].transpose(0, 1), integers={'X': X},
           extras=lambda: {f'state.{i}': h for i, h in enumerate(encoder(X)[1])})
    return golden


def seq2seq():
    """Whole recurrent translators: logits, masked loss, gradients, ten Adam steps, greedy translations after them."""
    golden = Golden('seq2seq')
    sizes = {'src_vocab_size': 17, 'tgt_vocab_size': 19, 'embed_size': 6, 'num_hiddens': 10, 'num_layers': 2}
    for seed, (case, decoder) in enumerate({'each_step': ContextDecoder, 'attention': BahdanauDecoder}.items()):
        torch.manual_seed(1700 + seed)
        model = make_recurrent_translator(decoder, **sizes, tgt_pad=PAD)
        randomize(model)
        src_valid_len = torch.tensor([7, 4, 2])
        src = padded_tokens([7, 4, 2], 7, sizes['src_vocab_size'])
        label = padded_tokens([3, 5, 2], 5, sizes['tgt_vocab_size'])
        tgt = torch.cat([torch.full((3, 1), BOS), label[:, :-1]], dim=1)
        logits = model(src, tgt, src_valid_len)
        attention = {'attention_weights': model.decoder.attention_weights} if case == 'attention' else {}
        loss = model.loss(logits, label)
        loss.backward()
        params, grads = parameters_and_gradients(model)
        grads = {name: grad.clone() for name, grad in grads.items()}
        adam = ten_adam_steps(model, lambda: model.training_step((src, tgt, src_valid_len, label)), lr=0.001)
        golden.add_case(
            case,
            {**sizes, 'pad': PAD, 'bos': BOS, 'eos': EOS, 'lr': 0.001, 'betas': '0.9,0.999', 'eps': 1e-8,
             'gradient_clip_val': 1, 'greedy_num_steps': 6},
            input={'src': src, 'tgt': tgt, 'src_valid_len': src_valid_len, 'label': label},
            param=params, output={'output': logits, 'loss': loss, **attention}, grad=grads, adam=adam,
            trained=dict(model.named_parameters()),
            greedy={'tokens': model.greedy(src, src_valid_len, BOS, 6)})
    return golden


def attention_pooling():
    """Each kernel at fixed widths; the learnt width over five steps of SGD on the summed loss, as the book trains it."""
    golden = Golden('attention_pooling')
    torch.manual_seed(1500)
    keys = torch.sort(5 * torch.rand(30)).values
    values = 2 * torch.sin(keys) + keys**0.8 + 0.5 * randn(30)
    queries = torch.arange(0, 5, 0.1)
    for kernel in KERNELS:
        # A boxcar must reach a key from everywhere: the book's own is 0 / 0 where it does not.
        for bandwidth in (1.0, 0.7):
            prediction, weights = nadaraya_watson(keys, values, queries, kernel, bandwidth)
            golden.add_case(f'{kernel}_{bandwidth}', {'kernel': kernel, 'bandwidth': bandwidth},
                            input={'queries': queries, 'keys': keys, 'values': values},
                            output={'output': prediction, 'attention_weights': weights})

    model = NWKernelRegression(torch.rand(1))
    own_keys, own_values = without_own(keys), without_own(values)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    first = model.w.detach().clone()
    losses, widths, grads = [], [], []
    for _ in range(5):
        optimizer.zero_grad()
        loss = ((model(keys, own_keys, own_values) - values)**2).sum()
        loss.backward()
        grads.append(model.w.grad.clone())
        optimizer.step()
        losses.append(loss.detach())
        widths.append(model.w.detach().clone())
    n = len(keys)
    with torch.no_grad():
        prediction = model(queries, keys.repeat(len(queries), 1), values.repeat(len(queries), 1))
    golden.add_case('learnt', {'lr': 0.5},
                    input={'queries': queries, 'keys': keys, 'values': values},
                    param={'w': first},
                    output={'output': prediction, 'attention_weights': model.attention_weights},
                    sgd={'losses': torch.stack(losses) / n, 'grads': torch.cat(grads) / n, 'w': torch.cat(widths)})
    return golden


def make_all(folder):
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    for make in (masked_softmax, additive_attention, dot_product_attention, multi_head_attention, positional_encoding,
                 position_wise_ffn, add_norm, transformer_encoder_block, transformer_encoder,
                 transformer_decoder_block, transformer, patch_embedding, vit_block, vit,
                 attention_pooling, seq2seq_encoder, seq2seq):
        make().save(folder)


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = pathlib.Path(__file__).resolve().parents[2] / 'tests' / 'golden'
    parser.add_argument('--out', type=pathlib.Path, default=default, help='folder to write to (default: tests/golden)')
    make_all(parser.parse_args().out)
