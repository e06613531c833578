"""`fovea evaluate` and `fovea score` against sacreBLEU, on the very lines that `fovea translate` writes."""

import math
import os

import pytest
import sacrebleu
from conftest import lines_of, metrics_of, write_lines, write_tsv

FIELDS = ['run', 'checkpoint', 'data', 'pairs', 'loss', 'perplexity', 'tokens', 'bleu', 'bleu_signature', 'd2l_bleu']


def sacre(hypotheses, references, lowercase=False):
    metric = sacrebleu.BLEU(lowercase=lowercase)
    return metric.corpus_score(hypotheses, [references]), str(metric.get_signature())


def same_signature(ours, theirs):
    """But for the version, which is each program's own."""
    return [part for part in ours.split('|') if not part.startswith('version:')] == \
        [part for part in theirs.split('|') if not part.startswith('version:')]


@pytest.mark.parametrize('search', [[], ['--beam', '4', '--length-penalty', '0.5'], ['--max-len', '4']], ids=' '.join)
def test_c27_bleu_is_sacrebleus_of_what_translate_writes(fovea, trained, tmp_path, search):
    result = fovea.json('evaluate', trained, *search)
    write_lines(tmp_path / 'in.txt', trained.sources)
    hypotheses = fovea.translate(trained, '--input', 'in.txt', *search)
    score, signature = sacre(hypotheses, trained.references, lowercase=True)
    assert result['bleu'] == pytest.approx(score.score, abs=0.005) and score.score > 5
    assert 'case:lc' in result['bleu_signature'] and same_signature(result['bleu_signature'], signature)
    write_lines(tmp_path / 'hyp.txt', hypotheses)
    write_lines(tmp_path / 'ref.txt', trained.references)
    assert fovea.json('score', 'hyp.txt', 'ref.txt', '--lowercase')['bleu'] == pytest.approx(result['bleu'], abs=1e-9)


def test_c27_bleu_counts_case_where_the_model_does(fovea, tiny):
    fovea('train', 'tiny.yaml', 'data.lowercase=false', 'train.max_epochs=8', '--run-dir', 'r', expect=0)
    result = fovea.json('evaluate', 'r')
    sources, references = zip(*(line.split('\t') for line in lines_of((tiny / 'test.tsv').read_text(encoding='utf-8'))))
    score, signature = sacre(fovea.translate('r', input='\n'.join(sources)), references)
    assert result['bleu'] == pytest.approx(score.score, abs=0.005)
    assert same_signature(result['bleu_signature'], signature)


def test_json_fields(fovea, trained):
    result = fovea.json('evaluate', trained)
    assert list(result)[:len(FIELDS)] == FIELDS
    assert result['data'] == 'test' and result['pairs'] == 40 and result['checkpoint'].startswith('step-')
    assert result['perplexity'] == pytest.approx(math.exp(result['loss']))
    assert 0 < result['d2l_bleu'] <= 1
    assert result['tokens'] == sum(len(ref.replace('.', ' .').split()) + 1 for ref in trained.references)
    for key in ('loss', 'perplexity', 'BLEU', 'd2l bleu'):
        assert key in fovea('evaluate', trained, expect=0).stdout


def test_a_file_and_the_split_made_of_it_are_the_same(fovea, trained):
    by_split = fovea.json('evaluate', trained)
    by_file = fovea.json('evaluate', trained, '--input', trained.folder / 'test.tsv')
    for key in ('pairs', 'loss', 'tokens', 'bleu', 'd2l_bleu'):
        assert by_split[key] == by_file[key]
    assert by_file['data'].endswith('test.tsv')


def test_splits(fovea, trained):
    train, validation = (fovea.json('evaluate', trained, '--split', split) for split in ('train', 'validation'))
    assert (train['pairs'], validation['pairs']) == (130, 20)
    best = min(line['loss'] for line in metrics_of(trained.path)
               if line['kind'] == 'validation')
    assert validation['loss'] == pytest.approx(best, abs=1e-6)  # of the best checkpoint, which is the one that is used
    done = fovea('evaluate', trained, '--split', 'tset', expect=2)
    assert 'tset' in done.stderr and 'validation' in done.stderr


def test_without_a_test_part_the_validation_part_is_taken_and_said(fovea, tiny):
    fovea('train', 'tiny.yaml', 'data.test.path=null', 'train.max_steps=1', '--run-dir', 'r', expect=0)
    assert 'data.test' in fovea('evaluate', 'r', '--split', 'test', expect=2).stderr
    done = fovea('evaluate', 'r', expect=0)
    assert 'validation (there is no test part), 20 pairs' in done.stdout
    assert done.stdout.replace(' (there is no test part)', '') == fovea('evaluate', 'r', '--split', 'validation').stdout
    assert fovea.json('evaluate', 'r')['data'] == 'validation'
    fovea('train', 'tiny.yaml', 'data.test.path=null', 'data.validation.size=0', 'train.watch=train',
          'train.max_steps=1', '--run-dir', 'none', expect=0)
    assert 'the run has no test data' in fovea('evaluate', 'none', expect=2).stderr


def test_two_parallel_files_are_the_pairs_of_one(fovea, trained, tmp_path):
    write_lines(tmp_path / 'src.txt', trained.sources)
    write_lines(tmp_path / 'tgt.txt', trained.references)
    parallel = fovea.json('evaluate', trained, '--input', 'src.txt', 'tgt.txt')
    assert parallel['data'] == 'src.txt and tgt.txt'
    by_split = fovea.json('evaluate', trained)
    assert all(parallel[key] == by_split[key] for key in ('pairs', 'loss', 'tokens', 'bleu', 'd2l_bleu'))
    write_lines(tmp_path / 'short.txt', trained.references[1:])
    error = fovea('evaluate', trained, '--input', 'src.txt', 'short.txt', expect=2).stderr
    assert 'as many lines in src.txt as in short.txt, found 40 and 39' in error
    assert fovea('evaluate', trained, '--input', 'a', 'b', 'c').returncode == 2


def test_the_held_out_pairs_can_be_written_out(fovea, trained, tmp_path):
    result = fovea.json('evaluate', trained, '--write-pairs', 'pairs.tsv')
    rows = [line.split('\t') for line in lines_of((tmp_path / 'pairs.tsv').read_text(encoding='utf-8'))]
    assert [row[:2] for row in rows] == trained.test
    assert [row[2] for row in rows] == fovea.translate(trained, *trained.sources)
    again = fovea.json('evaluate', trained, '--input', 'pairs.tsv')  # the third column is none of it
    assert all(again[key] == result[key] for key in ('pairs', 'loss', 'bleu'))
    error = fovea('evaluate', trained, '--write-pairs', 'missing/pairs.tsv', expect=2).stderr
    assert 'write-pairs' in error and 'missing' in error


def test_what_is_there_is_not_replaced_by_pairs(fovea, trained, tmp_path):
    (tmp_path / 'mine.tsv').write_text('ba\tba ba\n')
    os.mkfifo(tmp_path / 'pipe')
    (tmp_path / 'link').symlink_to('mine.tsv')
    evaluate = ['evaluate', trained, '--input', 'mine.tsv', '--write-pairs']
    before = (tmp_path / 'mine.tsv').read_bytes()
    read = [trained.folder / 'corpus.tsv', trained.path / 'config.yaml', trained.path / 'checkpoints/last/state.json']
    for file, said in [('mine.tsv', 'is read here'), ('link', 'is read here'), ('pipe', 'is a pipe'),
                       ('/dev/null', 'is a device'), (tmp_path, 'is a directory'), ('-', 'name a file'),
                       *((file, 'is read here') for file in read)]:
        for overwrite in ([], ['--overwrite']):
            done = fovea(*evaluate, file, *overwrite, expect=2)
            assert said in done.stderr and '--write-pairs' in done.stderr and done.stdout == '', done.stderr
    assert (tmp_path / 'mine.tsv').read_bytes() == before and (tmp_path / 'pipe').is_fifo()
    assert sorted(p.name for p in tmp_path.iterdir()) == ['link', 'mine.tsv', 'pipe']
    fovea(*evaluate, 'out.tsv', expect=0)
    pairs = (tmp_path / 'out.tsv').read_bytes()
    (tmp_path / 'out.tsv').write_bytes(b'precious')
    (tmp_path / 'linked').symlink_to('out.tsv')
    assert 'already exists; replace it with --overwrite' in fovea(*evaluate, 'linked', expect=2).stderr
    assert (tmp_path / 'out.tsv').read_bytes() == b'precious'
    fovea(*evaluate, 'linked', '--overwrite', expect=0)
    assert (tmp_path / 'linked').is_symlink() and (tmp_path / 'out.tsv').read_bytes() == pairs
    assert 'needs --output or --write-pairs' in fovea('evaluate', trained, '--overwrite', expect=2).stderr


CHINESE = ['今天天气很好，我们去公园吧。', '我爱你。']
GERMAN = ['Donaudampfschifffahrtsgesellschaftskapitän.', 'Rindfleischetikettierungsüberwachungsaufgabe!']


def test_c57_text_without_spaces_is_warned_of(fovea, trained, tmp_path):
    write_lines(tmp_path / 'zh.txt', CHINESE)
    write_lines(tmp_path / 'de.txt', GERMAN)
    done = fovea('score', 'zh.txt', 'zh.txt', expect=0)
    assert done.stderr.startswith('warning: ') and 'no spaces between words' in done.stderr
    assert 'no spaces' in fovea.json('score', 'zh.txt', 'zh.txt')['warning']
    assert fovea('score', 'de.txt', 'de.txt', expect=0).stderr == ''
    assert 'warning' not in fovea.json('score', 'de.txt', 'de.txt')
    done = fovea('evaluate', trained, '--input', 'de.txt', 'zh.txt', expect=0)
    assert 'no spaces between words' in done.stderr
    assert len(fovea.json('evaluate', trained, '--input', 'de.txt', 'zh.txt')['warnings']) == 1
    assert fovea('evaluate', trained, '--input', 'zh.txt', 'de.txt', expect=0).stderr == ''


def test_c55_a_text_counts_for_what_it_looks_like(fovea, trained, tmp_path):
    plain = ["L'o ba ce.", 'di fo!']
    odd = ['L\u2019o b\u00ada\u200b ce.', '\ufeffdi \u2060fo!']
    assert fovea.translate(trained, *odd) == fovea.translate(trained, *plain)
    assert fovea.translate(trained, input='\u200b\n \u00ad\n') == ['', '']
    write_tsv(tmp_path / 'plain.tsv', zip(plain, plain))
    write_tsv(tmp_path / 'odd.tsv', zip(odd, odd))
    by_plain, by_odd = (fovea.json('evaluate', trained, '--input', name) for name in ('plain.tsv', 'odd.tsv'))
    assert all(by_plain[key] == by_odd[key] for key in ('loss', 'bleu', 'd2l_bleu'))
    assert '|chars:unified|' in by_odd['bleu_signature'] and 'chars' not in by_plain['bleu_signature']


def test_samples(fovea, trained):
    plain = fovea('evaluate', trained, expect=0).stdout
    done = fovea('evaluate', trained, '--samples', '5', expect=0)
    assert done.stdout.endswith(plain) and done.stderr == ''
    table = done.stdout[:-len(plain)]
    assert sum(source in table for source in trained.sources[::8]) == 5
    everything = fovea('evaluate', trained, '--samples', '1000', expect=0).stdout
    assert sum(line in everything for line in trained.sources) == 40


def test_c26_files_with_holes(fovea, trained, tmp_path):
    write_tsv(tmp_path / 'holes.tsv', trained.test[:10])
    with (tmp_path / 'holes.tsv').open('a') as f:
        f.write('\n\t\nba\t\n\tba\nba ce di fo gu ha je ki ba ce di fo.\tba-ba.\n')
    result = fovea.json('evaluate', trained, '--input', 'holes.tsv')
    assert result['pairs'] == 11  # the long one is translated, though its loss is not counted
    assert math.isfinite(result['loss']) and math.isfinite(result['bleu'])
    (tmp_path / 'empty.tsv').write_text('\n\n')
    assert 'empty.tsv' in fovea('evaluate', trained, '--input', 'empty.tsv').stderr
    assert 'missing.tsv' in fovea('evaluate', trained, '--input', 'missing.tsv', expect=2).stderr


def test_c11_evaluating_twice_gives_the_same(fovea, trained):
    assert fovea('evaluate', trained).stdout == fovea('evaluate', trained).stdout


SCORED = {
    'words': (['the cat sat on the mat', 'a dog'], ['the cat sat on a mat', 'the dog']),
    'case': (['The Cat sat on the mat.'], ['the cat sat on the mat.']),
    'accents': (["J'ai vu l'été à Noël !", 'Ça va ?'], ["J'ai vu l'ÉTÉ à Noël\u202f!", 'ça va\u00a0?']),
    'holes': (['', 'he is at home now', '  '], ['he is here', 'he is at home now', '']),
    'all empty': (['', ''], ['a b', 'c d']),
    'entities': (['a &amp; b &lt;eos&gt; 1,000.5 "x"-y'], ['a & b <eos> 1,000.5 "x" - y']),
}


@pytest.mark.parametrize('name', SCORED)
@pytest.mark.parametrize('lowercase', [False, True], ids=['mixed', 'lc'])
def test_c26_score_is_sacrebleus(fovea, tmp_path, name, lowercase):
    hypotheses, references = SCORED[name]
    write_lines(tmp_path / 'hyp.txt', hypotheses)
    write_lines(tmp_path / 'ref.txt', references)
    options = ['--lowercase'] if lowercase else []
    result = fovea.json('score', 'hyp.txt', 'ref.txt', *options)
    score, signature = sacre(hypotheses, references, lowercase)
    assert result['bleu'] == pytest.approx(score.score, abs=1e-6)
    assert result['brevity_penalty'] == pytest.approx(score.bp, abs=1e-9)
    assert (result['hypothesis_length'], result['reference_length']) == (score.sys_len, score.ref_len)
    assert result['precisions'] == pytest.approx(score.precisions, abs=1e-6)
    assert same_signature(result['signature'], signature)
    text = fovea('score', 'hyp.txt', 'ref.txt', *options, expect=0).stdout.splitlines()
    assert text[0].split(' (')[0] == str(score).split(' (')[0]


def test_c26_score_refuses_files_that_do_not_match(fovea, tmp_path):
    write_lines(tmp_path / 'hyp.txt', ['a', 'b'])
    write_lines(tmp_path / 'ref.txt', ['a'])
    error = fovea('score', 'hyp.txt', 'ref.txt', expect=2).stderr
    assert 'hyp.txt' in error and '2' in error and 'ref.txt' in error and '1' in error
    assert 'missing.txt' in fovea('score', 'hyp.txt', 'missing.txt', expect=2).stderr
    (tmp_path / 'latin.txt').write_bytes(b'a\n\xe9\n')
    assert 'latin.txt:2' in fovea('score', 'latin.txt', 'hyp.txt', expect=2).stderr


def test_c24_pairs_that_are_all_too_long_have_bleu_and_no_loss(fovea, trained, tmp_path):
    long = ' '.join(['one'] * 60)
    (tmp_path / 'long.tsv').write_text(f'{long}\t{long}\n')
    report = fovea.json('evaluate', trained, '--input', 'long.tsv')
    assert report['loss'] is None and report['tokens'] == 0 and report['bleu'] >= 0
    assert 'loss         - (1 pair' in fovea('evaluate', trained, '--input', 'long.tsv', expect=0).stdout


def test_scores_by_length(fovea, trained, tmp_path):
    """Bands cover every pair once, and the score of one band is that of its pairs alone."""
    whole = fovea.json('evaluate', trained, '--by', 'length', '--samples', '3')
    bands = whole['by_length']
    assert len(bands) >= 3 and sum(band['pairs'] for band in bands) == whole['pairs'] == 40
    pairs = {}
    for source, target in trained.test:
        pairs.setdefault(next(band['source words'] for band in bands if in_band(source, band)), []).append((source, target))
    for band in bands:
        mine = pairs[band['source words']]
        assert len(mine) == band['pairs']
        write_tsv(tmp_path / 'band.tsv', mine)
        alone = fovea.json('evaluate', trained, '--input', 'band.tsv')
        assert alone['bleu'] == pytest.approx(band['bleu'], abs=1e-9)
        assert alone['loss'] == pytest.approx(band['loss'], rel=1e-5)
    table = fovea('evaluate', trained, '--by', 'length', '-o', 'length.svg', expect=0).stdout
    assert 'source words' in table and 'bleu' in (tmp_path / 'length.svg').read_text().lower()
    assert len([key for key in whole if isinstance(whole[key], list)]) == 2  # the samples are there too


def in_band(source, band):
    low, _, high = band['source words'].partition('-')
    return int(low) <= len(source.split()) <= int(high or low)


def test_scores_by_frequency(fovea, trained):
    whole = fovea.json('evaluate', trained, '--by', 'frequency')
    tables = [whole[key] for key in whole if isinstance(whole[key], list)]
    assert len(tables) == 3
    assert sum(row['tokens'] for row in tables[0]) == whole['tokens'], whole
    mean = sum(row['tokens'] * row['loss'] for row in tables[0]) / whole['tokens']
    assert mean == pytest.approx(whole['loss'], rel=1e-5)


def test_scores_by_something_else(fovea, trained, tmp_path):
    done = fovea('evaluate', trained, '--by', 'lenght', expect=2)
    assert 'length' in done.stderr and 'frequency' in done.stderr
    done = fovea('evaluate', trained, '-o', 'out.svg', expect=2)
    assert '--by' in done.stderr and not (tmp_path / 'out.svg').exists()
