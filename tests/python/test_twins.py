"""The Python twins: the encoder is d2l's, the decoder keeps its promises, the golden files can be made again."""

import json
import pathlib
import sys

import pytest
import torch
from d2l import torch as d2l
from safetensors import safe_open

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'scripts' / 'reference'))
sys.path.insert(0, str(ROOT / 'benchmarks'))

import make_bleu_cases  # noqa: E402
import make_golden  # noqa: E402
import make_image_golden  # noqa: E402
import transformer_step  # noqa: E402
import vit_step  # noqa: E402
from fra_eng import FraEng  # noqa: E402
from transformer import clip_gradients, make_translator  # noqa: E402
from vit import PatchEmbedding, ViT  # noqa: E402

PAD, BOS = 1, 2
GOLDEN = ROOT / 'tests' / 'golden'


@pytest.fixture(autouse=True)
def one_thread():
    torch.manual_seed(0)
    torch.set_num_threads(1)


def small_translator(**kwargs):
    kwargs = {'num_hiddens': 24, 'ffn_num_hiddens': 13, 'num_heads': 4, 'num_blks': 2, 'dropout': 0, **kwargs}
    return make_translator(17, 19, PAD, **kwargs)


def small_batch():
    label = torch.randint(4, 19, (3, 5))
    label[1, 3:] = PAD
    tgt = torch.cat([torch.full((3, 1), BOS), label[:, :-1]], dim=1)
    return torch.randint(4, 17, (3, 7)), tgt, torch.tensor([7, 4, 2]), label


def test_encoder_is_d2ls():
    model = small_translator()
    encoder = d2l.TransformerEncoder(17, 24, 13, 4, 2, dropout=0)
    src, _, src_valid_len, _ = small_batch()
    encoder(src, src_valid_len)
    encoder.load_state_dict(model.encoder.state_dict())
    assert torch.equal(encoder(src, src_valid_len), model.encoder(src, src_valid_len))


def test_parameter_names_are_the_books():
    names = set(small_translator().state_dict())
    linear = [f'W_{x}.weight' for x in 'qkvo']
    norm, dense = ['ln.weight', 'ln.bias'], ['weight', 'bias']
    expected = {f'{side}.embedding.weight' for side in ('encoder', 'decoder')} | {f'decoder.dense.{n}' for n in dense}
    for i in range(2):
        expected |= {f'encoder.blks.block{i}.attention.{n}' for n in linear}
        expected |= {f'decoder.blks.block{i}.attention{j}.{n}' for j in (1, 2) for n in linear}
        expected |= {f'encoder.blks.block{i}.addnorm{j}.{n}' for j in (1, 2) for n in norm}
        expected |= {f'decoder.blks.block{i}.addnorm{j}.{n}' for j in (1, 2, 3) for n in norm}
        expected |= {f'{side}.blks.block{i}.ffn.dense{j}.{n}'
                     for side in ('encoder', 'decoder') for j in (1, 2) for n in dense}
    assert names == expected


@pytest.mark.parametrize('training', [True, False])
def test_decoder_is_causal(training):
    model = small_translator().train(training)
    src, tgt, src_valid_len, _ = small_batch()
    before = model(src, tgt, src_valid_len)
    for t in range(1, 5):
        changed = tgt.clone()
        changed[:, t:] = (changed[:, t:] + 1) % 19
        after = model(src, changed, src_valid_len)
        assert torch.equal(before[:, :t], after[:, :t])
        assert not torch.allclose(before[:, t], after[:, t])


def test_training_and_evaluation_agree_without_dropout():
    model = small_translator()
    src, tgt, src_valid_len, _ = small_batch()
    assert torch.equal(model.train()(src, tgt, src_valid_len), model.eval()(src, tgt, src_valid_len))


def test_padding_content_does_not_matter():
    model = small_translator()
    src, tgt, src_valid_len, label = small_batch()
    before, loss = model(src, tgt, src_valid_len), model.training_step((src, tgt, src_valid_len, label))
    noisy = src.clone()
    noisy[1, 4:], noisy[2, 2:] = 9, 11
    torch.testing.assert_close(model(noisy, tgt, src_valid_len), before, rtol=0, atol=1e-6)
    noisy_tgt = tgt.clone()
    noisy_tgt[1, 4:] = 7  # an input whose label is padding
    torch.testing.assert_close(model.training_step((noisy, noisy_tgt, src_valid_len, label)), loss, rtol=0, atol=1e-6)


def test_step_by_step_equals_teacher_forcing():
    model = small_translator().eval()
    src, tgt, src_valid_len, _ = small_batch()
    expected = model(src, tgt, src_valid_len)
    state = model.decoder.init_state(model.encoder(src, src_valid_len), src_valid_len)
    for t in range(tgt.shape[1]):
        logits, state = model.decoder(tgt[:, t:t + 1], state)
        torch.testing.assert_close(logits[:, 0], expected[:, t], rtol=0, atol=1e-5)


def test_loss_is_the_mean_over_valid_targets():
    model = small_translator()
    logits, label = torch.randn(3, 5, 19), small_batch()[-1]
    rows = [torch.log_softmax(logits[b, t], 0)[label[b, t]] for b in range(3) for t in range(5) if label[b, t] != PAD]
    torch.testing.assert_close(model.loss(logits, label), -sum(rows) / 13)
    total, count = model.loss_terms(logits, label)
    assert count == 13 and total > 0


def test_clipping_is_d2ls():
    model, other = small_translator(), small_translator()
    other.load_state_dict(model.state_dict())
    for each in (model, other):
        each.training_step(small_batch_fixed()).backward()
    with torch.no_grad():
        assert clip_gradients(1, model) > 1
        d2l.Trainer(1).clip_gradients(1, other)
    for p, q in zip(model.parameters(), other.parameters()):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-6, atol=0)


def small_batch_fixed():
    torch.manual_seed(7)
    return small_batch()


def test_xavier_initialisation():
    model = make_translator(17, 19, PAD, num_hiddens=64, init='xavier')
    weight = model.encoder.blks.block0.attention.W_q.weight
    assert (6 / 128) ** 0.5 * 0.9 < weight.abs().max() <= (6 / 128) ** 0.5
    with pytest.raises(ValueError, match='xavier'):
        make_translator(17, 19, PAD, init='he')


def test_benchmarks_fast_attention_is_the_same_function():
    model = small_translator()
    batch = small_batch()
    expected = model(*batch[:-1])
    transformer_step.use_fast_attention(model)
    torch.testing.assert_close(model(*batch[:-1]), expected, rtol=0, atol=1e-5)


def test_corpus_keeps_eos_when_it_cuts(tmp_path):
    path = tmp_path / 'fra.txt'
    path.write_text('I see.\tJe vois.\nOne two three four.\tUn deux trois quatre cinq six sept\u202f!\n' * 3,
                    encoding='utf-8')
    data = FraEng(path, batch_size=2, num_steps=5, num_train=4, num_val=1)
    src, tgt, src_valid_len, label = data.arrays
    assert data.tgt_vocab.to_tokens(label[0]) == ['je', 'vois', '.', '<eos>', '<pad>']
    assert data.tgt_vocab.to_tokens(label[1]) == ['un', 'deux', 'trois', 'quatre', '<eos>']
    assert data.tgt_vocab.to_tokens(tgt[1]) == ['<bos>', 'un', 'deux', 'trois', 'quatre']
    assert data.src_vocab.to_tokens(src[1]) == ['one', 'two', 'three', 'four', '<eos>']
    assert src_valid_len[:2].tolist() == [4, 5]


def small_vit(**kwargs):
    return ViT(**{'img_size': (8, 12), 'patch_size': (4, 3), 'num_hiddens': 24, 'mlp_num_hiddens': 36, 'num_heads': 4,
                  'num_blks': 2, 'emb_dropout': 0, 'blk_dropout': 0, **kwargs})


def test_vit_names_and_shapes_are_the_books():
    state = small_vit().state_dict()
    assert state['patch_embedding.conv.weight'].shape == (24, 1, 4, 3)
    assert state['cls_token'].shape == (1, 1, 24) and not state['cls_token'].any()
    assert state['pos_embedding'].shape == (1, 9, 24)
    blocks = {f'blks.{i}.{n}' for i in range(2) for n in
              [f'attention.W_{x}.weight' for x in 'qkvo'] +
              [f'{part}.{n}' for part in ('ln1', 'ln2', 'mlp.dense1', 'mlp.dense2') for n in ('weight', 'bias')]}
    others = {'cls_token', 'pos_embedding'} | {
        f'{part}.{n}' for part in ('patch_embedding.conv', 'head.0', 'head.1') for n in ('weight', 'bias')}
    assert set(state) == blocks | others


def test_patch_embedding_has_the_books_shape():
    X = torch.randn(4, 1, 96, 96)
    assert PatchEmbedding(96, 16, 512)(X).shape == (4, 36, 512)


def test_vit_masked_patches_do_not_matter():
    model, X = small_vit(), torch.randn(3, 1, 8, 12)
    valid_lens = torch.tensor([8, 1, 0])
    before = model(X, valid_lens)
    noisy = X.clone()
    noisy[1, :, 4:], noisy[1, :, :, 3:], noisy[2] = 7, 9, 11
    torch.testing.assert_close(model(noisy, valid_lens), before, rtol=0, atol=1e-6)
    assert torch.equal(before[0], model(X)[0]) and not torch.allclose(before[1], model(X)[1])


def test_vit_benchmarks_fast_attention_is_the_same_function():
    model, X = small_vit(), torch.randn(3, 1, 8, 12)
    expected = model(X)
    vit_step.use_fast_attention(model)
    torch.testing.assert_close(model(X), expected, rtol=0, atol=1e-5)


def test_golden_tensors_can_be_made_again(tmp_path):
    make_golden.make_all(tmp_path)
    make_image_golden.make().save(tmp_path)
    made, kept = ({p.name for p in folder.glob('*.safetensors')} for folder in (tmp_path, GOLDEN))
    assert made == kept
    for name in sorted(kept):
        with safe_open(tmp_path / name, 'pt') as new, safe_open(GOLDEN / name, 'pt') as old:
            assert new.metadata() == old.metadata()
            assert set(new.keys()) == set(old.keys())
            for key in old.keys():
                # Ten steps add up how processors round: what comes after them differs by more than 1e-6.
                rtol = 1e-5 if '/adam.' in key or '/trained.' in key else 0
                torch.testing.assert_close(
                    new.get_tensor(key), old.get_tensor(key), rtol=rtol, atol=1e-6, msg=lambda m: f'{name}, {key}: {m}')


def test_bleu_cases_can_be_made_again():
    kept = json.loads((GOLDEN / 'bleu_cases.json').read_text(encoding='ascii'))
    new = json.loads(json.dumps(make_bleu_cases.make_cases()))
    assert new == kept
