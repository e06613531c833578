"""Trains the Python twin of the Transformer in d2l's setting and prints what it reaches.

    python scripts/reference/train_fra_eng.py fra.txt [--seeds 0 1 2] [--lr 0.0015] [--init default|xavier]

The setting is that of chapter 11.7: the first 512 pairs, 9 steps, 256 hidden units, 64 in the feed-forward network, two
blocks, four heads, dropout 0.2, batches of 128, Adam with learning rate 0.0015, gradients clipped to norm 1, 30 epochs,
PyTorch's default initialisation. The book's printed figures belong to another version of the corpus.

The training loss is the mean over the valid target tokens of the last epoch, measured while training, with dropout.
Tokens per second counts valid target tokens (`<eos>` included) and only the time spent in training steps and loading.
"""

import argparse
import pathlib
import statistics
import time

import torch
from d2l import torch as d2l

from fra_eng import FraEng
from transformer import clip_gradients, make_translator

SENTENCES = ['go .', 'i lost .', "he's calm .", "i'm home ."]
TRANSLATIONS = ['va !', "j'ai perdu .", 'il est calme .', 'je suis chez moi .']


def fit(model, data, max_epochs, gradient_clip_val=1):
    """d2l's training loop. Returns the loss of each epoch, the seconds and the number of valid target tokens."""
    optimizer = torch.optim.Adam(model.parameters(), lr=model.lr)
    losses, tokens = [], 0
    model.train()
    start = time.perf_counter()
    for _ in range(max_epochs):
        epoch_loss, epoch_tokens = 0.0, 0
        for batch in data.train_dataloader():
            total, count = model.loss_terms(model(*batch[:-1]), batch[-1])
            optimizer.zero_grad()
            (total / count).backward()
            clip_gradients(gradient_clip_val, model)
            optimizer.step()
            epoch_loss += total.item()
            epoch_tokens += int(count)
        losses.append(epoch_loss / epoch_tokens)
        tokens += epoch_tokens
    return losses, time.perf_counter() - start, tokens


@torch.no_grad()
def validate(model, data):
    model.eval()
    terms = [model.loss_terms(model(*batch[:-1]), batch[-1]) for batch in data.val_dataloader()]
    return (sum(total for total, _ in terms) / sum(count for _, count in terms)).item()


def translate(model, data):
    """The book's four sentences: (source, translation, d2l's bleu with k = 2)."""
    src, _, src_valid_len, _ = data.build(SENTENCES, TRANSLATIONS)
    for sentence, reference, tokens in zip(
            SENTENCES, TRANSLATIONS, model.greedy(src, src_valid_len, data.tgt_vocab['<bos>'], data.num_steps)):
        words = data.tgt_vocab.to_tokens(tokens.tolist())
        words = words[:words.index('<eos>')] if '<eos>' in words else words
        text = ' '.join(words)
        yield sentence, text, d2l.bleu(text, reference, k=2)


def dump(data, vocab_dir, batch_path):
    if vocab_dir:
        vocab_dir.mkdir(parents=True, exist_ok=True)
        for name, vocab in (('src', data.src_vocab), ('tgt', data.tgt_vocab)):
            (vocab_dir / f'{name}_vocab.txt').write_text('\n'.join(vocab.idx_to_token) + '\n', encoding='utf-8')
    if batch_path:
        from safetensors.torch import save_file
        names = ('src', 'tgt', 'src_valid_len', 'label')
        save_file({name: array[:data.batch_size].to(torch.int64).contiguous()
                   for name, array in zip(names, data.arrays)}, batch_path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('path', help='fra.txt')
    parser.add_argument('--seeds', type=int, nargs='+', default=[0, 1, 2])
    parser.add_argument('--epochs', type=int, default=30)
    parser.add_argument('--lr', type=float, default=0.0015)
    parser.add_argument('--dropout', type=float, default=0.2)
    parser.add_argument('--init', choices=('default', 'xavier'), default='default')
    parser.add_argument('--threads', type=int, help="torch's threads (default: torch decides)")
    parser.add_argument('--dump-vocab', type=pathlib.Path, metavar='DIR',
                        help='write src_vocab.txt and tgt_vocab.txt, one token per line, in the order of their ids')
    parser.add_argument('--dump-batch', type=pathlib.Path, metavar='FILE',
                        help='write the first 128 pairs in file order as safetensors: src, tgt, src_valid_len, label')
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)

    data = FraEng(args.path)
    dump(data, args.dump_vocab, args.dump_batch)
    print(f'pairs: {data.num_train} for training, {len(data.arrays[0]) - data.num_train} for validation; '
          f'vocabularies: {len(data.src_vocab)} and {len(data.tgt_vocab)}; lr {args.lr}, init {args.init}, '
          f'threads {torch.get_num_threads()}')
    final_losses, rates = [], []
    for seed in args.seeds:
        torch.manual_seed(seed)
        model = make_translator(len(data.src_vocab), len(data.tgt_vocab), data.tgt_vocab['<pad>'], lr=args.lr,
                                dropout=args.dropout, init=args.init)
        losses, seconds, tokens = fit(model, data, args.epochs)
        final_losses.append(losses[-1])
        rates.append(tokens / seconds)
        print(f'seed {seed}: training loss {losses[-1]:.4f}, validation loss {validate(model, data):.4f}, '
              f'{seconds:.1f} s, {rates[-1]:.0f} valid target tokens/s', flush=True)
        for sentence, text, score in translate(model, data):
            print(f'  {sentence} => {text}, bleu {score:.3f}')
    print(f'mean over {len(args.seeds)} seeds: training loss {statistics.mean(final_losses):.4f} '
          f'(from {min(final_losses):.4f} to {max(final_losses):.4f}), '
          f'{statistics.mean(rates):.0f} valid target tokens/s')


if __name__ == '__main__':
    main()
