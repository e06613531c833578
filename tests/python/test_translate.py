"""`fovea translate`: a line for a line, whatever the lines hold, and the same text however they are batched."""

import json
import random
import subprocess
import threading

import pytest
from conftest import TIMEOUT, lines_of, tiny_pairs, write_lines

SEARCHES = [['--beam', '1'], ['--beam', '4']]
by_search = pytest.mark.parametrize('search', SEARCHES, ids=['greedy', 'beam'])

ODD_TEXTS = {
    'nothing': (b'', 0),
    'blank lines': (b'\n\n\n', 3),
    'tabs only': (b'\t\t\n\t\n', 2),
    'Unicode spaces only': (b' \n\xc2\xa0\n\xe2\x80\xaf\xe3\x80\x80\n', 3),
    'no final newline': (b'Ba ce.\nFo.', 2),
    'blank line without a newline': (b'Ba ce.\n ', 2),
    'CR LF': (b'Ba ce.\r\n\r\nFo.\r\n', 3),
    'CR LF without the last': (b'Ba ce.\r\nFo.', 2),
    'one-sided': (b'ba\t\n\tba\nba\tce\n', 3),
    'no-break spaces': ('ba\u00a0!\nba\u202fce\u2009.\n'.encode(), 2),
    'line ends that are none': ('ba\u2028ce\u0085di\x0bfo\x0cgu\x1cha\n'.encode(), 1),
    'byte order mark': (b'\xef\xbb\xbfBa.\n', 1),
}


def refused(fovea, *args, expect=2, **kwargs):
    done = fovea('translate', *args, expect=expect, **kwargs)
    assert done.stderr.startswith('error: ')
    return done.stderr


@pytest.mark.parametrize('name', ODD_TEXTS)
def test_c13_c14_c16_a_line_for_a_line(fovea, trained, tmp_path, name):
    text, count = ODD_TEXTS[name]
    (tmp_path / 'in.txt').write_bytes(text)
    out = fovea.translate(trained, '--input', 'in.txt')
    assert len(out) == count
    assert fovea.translate(trained, input=text) == out


def test_c14_c16_what_odd_lines_become(fovea, trained):
    assert fovea.translate(trained, input='\n\t\n \u00a0\u3000\n') == ['', '', '']
    plain = fovea.translate(trained, input='BA  CE \u202f!\nba ce !\nba\tce\u00a0!\nba ce!\n\u2028ba\u0085ce !\r\n')
    assert len(set(plain)) == 1 and plain[0] != ''


def test_c16_a_thousand_lines(fovea, trained, tmp_path):
    sources = [source if i % 7 else '' for i, (source, _) in enumerate(tiny_pairs(1000, seed=5))]
    write_lines(tmp_path / 'in.txt', sources)
    out = fovea.translate(trained, '--input', 'in.txt')
    assert len(out) == 1000
    assert all((source == '') == (text == '') for source, text in zip(sources, out))
    assert fovea.translate(trained, '--input', '-', input=(tmp_path / 'in.txt').read_bytes()) == out
    assert len(set(out)) > 100  # the model does look at its input


def test_c16_n_best_and_json_are_a_line_for_a_line_too(fovea, trained):
    text = 'Ba ce.\n\nba\tce\n\t\t\nUn mot inconnu!\n\u2028\nFo'
    best = fovea.translate(trained, '--beam', '2', input=text)
    options = ['--beam', '2', '--n-best', '2']
    two = [line.split('\t') for line in fovea.translate(trained, *options, input=text)]
    assert [len(candidates) for candidates in two] == [2, 1, 2, 1, 2, 1, 2]
    assert [candidates[0] for candidates in two] == best
    assert all(len(set(candidates)) == len(candidates) for candidates in two)
    lines = [json.loads(line) for line in fovea.translate(trained, *options, '--json', input=text)]
    assert [line['source'] for line in lines] == text.split('\n')
    assert [[c['text'] for c in line['translations']] for line in lines] == two
    for line in lines:
        scores = [c['score'] for c in line['translations']]
        assert scores == sorted(scores, reverse=True) and all(c['log_probability'] <= 0 for c in line['translations'])
        assert all(isinstance(c['finished'], bool) for c in line['translations'])


def test_json_is_valid_whatever_the_line_holds(fovea, trained):
    text = '"ba" \\ce\\ {di} \u2028 é\n'
    assert json.loads(fovea.translate(trained, '--json', input=text)[0])['source'] == text[:-1]


@pytest.mark.parametrize('bad, said', [
    (b'caf\xe9 !', "'\u00e9'"), (b'ba \xc3', '0xC3'), (b'ba\x00ce', 'NUL'), (b'ba\rce', 'CR'),
    (b'\xff\xfeb\x00', 'UTF-8'), (b'\xed\xa0\x80', 'UTF-8'),
])
def test_c15_bad_bytes_name_the_line(fovea, trained, tmp_path, bad, said):
    (tmp_path / 'in.txt').write_bytes(b'Ba ce.\nFo.\n' + bad + b'\nGu.\n')
    answers = fovea.translate(trained, 'Ba ce.', 'Fo.', 'Gu.')
    whole = (tmp_path / 'in.txt').read_bytes()
    for where, options in (('in.txt', {}), ('standard input', {'input': whole})):
        done = fovea('translate', trained, *([] if options else ['--input', where]), expect=2, **options)
        assert done.stderr.startswith(f'error: {where}:3: ') and said in done.stderr, done.stderr
        assert lines_of(done.stdout) == [*answers[:2], '', answers[2]]
    rows = [json.loads(line) for line in lines_of(fovea('translate', trained, '--json', input=whole, expect=2).stdout)]
    assert [list(row) for row in rows] == [['source', 'translations']] * 2 + [['source', 'error']] + [
        ['source', 'translations']]


def test_c15_a_list_of_another_encoding_is_refused_as_a_whole(fovea, trained):
    assert 'UTF-16' in refused(fovea, trained, input='ba\nce\n'.encode('utf-16'))


@pytest.mark.parametrize('options, said', [
    (['--n-best', '3', '--beam', '2'], ['n-best', '3', '2']), (['--n-best', '2'], ['n-best']),
    (['--n-best', '0'], ['n-best']), (['--beam', '0'], ['beam']), (['--beam', '-1'], ['beam']),
    (['--batch-size', '0'], ['batch']), (['--max-len', '17'], ['17', '16', 'model.max_len']),
    (['--max-len', '-1'], ['max-len', '-1']), (['model.dropout=0'], ['model.dropout', 'runtime.']), (['--checkpoint', 'first'], ['first']),
    (['--input', 'missing.txt'], ['missing.txt']), (['--input', '.'], ['cannot read']),
    (['Ba.', '--input', 'in.txt'], ['--input']), (['runtime.device=tpu', 'Ba.'], ['runtime.device', 'tpu']),
], ids=lambda value: ' '.join(value))
def test_c21_options_that_cannot_be_met(fovea, narrow, options, said):
    error = refused(fovea, narrow, *options)
    assert all(part in error for part in said), error


def test_wrong_runs(fovea, tmp_path):
    (tmp_path / 'empty').mkdir()
    assert 'nowhere' in refused(fovea, 'nowhere', 'Ba.')
    assert 'empty' in refused(fovea, 'empty', 'Ba.') and 'config.yaml' in refused(fovea, 'empty', 'Ba.')


@pytest.mark.parametrize('special', ['<eos>', '<pad>', '<bos>', '<unk>'])
def test_c20_a_special_in_the_text_is_a_word_as_any_other(fovea, trained, special):
    text = 'ba ce {} di fo.'
    with_special, with_unknown = fovea.translate(trained, text.format(special), text.format('zzz'))
    assert with_special == with_unknown != ''
    alone, unknown = fovea.translate(trained, input=f'{special}\nzzz\n')
    assert alone == unknown


def test_c20_specials_in_the_corpus_end_no_sequence(fovea, tiny):
    pairs = [f'ba {s} ce\tba-ba {s} ce-ce\n' for s in ('<eos>', '<pad>', '<bos>', '<unk>')]
    (tiny / 'specials.tsv').write_text(''.join(pairs) * 20)
    settings = ['data.path=specials.tsv', 'data.validation.size=0', 'data.test.path=null', 'train.max_epochs=10']
    fovea('train', 'tiny.yaml', *settings, '--run-dir', 'r', expect=0)
    result = fovea.json('evaluate', 'r', '--split', 'train')
    assert result['tokens'] == 80 * 4 and result['pairs'] == 80  # two words, the special, <eos>
    for text in fovea.translate('r', *[f'ba {s} ce' for s in ('<eos>', '<pad>', '<bos>', '<unk>')]):
        assert text.startswith('ba-ba ')  # the model never says <unk>, but neither does it stop there


def test_c24_too_long_lines_are_cut_and_said(fovea, narrow):
    def words(count):
        return ' '.join((['ba', 'ce', 'di', 'fo', 'gu'] * 100)[:count])

    done = fovea('translate', narrow, '--json', input=''.join(words(n) + '\n' for n in (15, 16, 17, 500)), expect=0)
    lines = [json.loads(line) for line in lines_of(done.stdout)]
    assert [line.get('source_cut', False) for line in lines] == [False, True, True, True]
    assert len({line['translations'][0]['text'] for line in lines}) == 1  # what is left is the same
    assert [len(line['source'].split()) for line in lines] == [15, 16, 17, 500]
    assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith('warning: 3 sentences')
    assert '16 tokens' in done.stderr
    fits = fovea('translate', narrow, words(15), expect=0)
    assert fits.stderr == ''
    cut = fovea('translate', narrow, words(500), expect=0)
    assert cut.stdout == fits.stdout and cut.stderr.startswith('warning: 1 sentence was')


def test_c24_max_len_is_kept_to(fovea, narrow):
    for limit in (1, 3, 16):
        for search in SEARCHES:
            lines = fovea.translate(narrow, '--max-len', limit, *search, '--json', input='Ba ce di fo gu.\nHa!\n')
            for line in map(json.loads, lines):
                best = line['translations'][0]
                tokens = best['text'].replace('.', ' .').replace('!', ' !').split()
                assert len(tokens) + best['finished'] <= limit


@by_search
def test_c22_batches_do_not_change_the_text(fovea, trained, search):
    sources = [source for source, _ in tiny_pairs(47, seed=11)] + ['', 'zzz', 'ba ' * 30]
    expected = fovea.translate(trained, *search, '--batch-size', '1', input='\n'.join(sources))
    assert len(expected) == 50
    for batch_size in (7, 50):
        assert fovea.translate(trained, *search, '--batch-size', batch_size, input='\n'.join(sources)) == expected
    order = list(range(50))
    random.Random(0).shuffle(order)
    shuffled = fovea.translate(trained, *search, '--batch-size', '7', input='\n'.join(sources[i] for i in order) + '\n')
    assert shuffled == [expected[i] for i in order]
    assert fovea.translate(trained, *search, *sources) == expected


def test_c11_translating_twice_gives_the_same(fovea, trained):
    options = [trained, '--json', '--beam', '3', '--n-best', '3', *trained.sources[:5]]
    assert fovea.translate(*options) == fovea.translate(*options)


def test_sentences_on_the_command_line(fovea, trained):
    sentences = ['Ba ce.', 'key=value', 'a.b=c !', '[ba, ce]', '']
    assert fovea.translate(trained, *sentences) == fovea.translate(trained, input='\n'.join(sentences) + '\n')
    assert fovea.translate('runtime.threads=2', trained, 'Ba ce.') == fovea.translate(trained, 'Ba ce.')
    assert fovea.translate(trained, '--', '--ba', '-ce') == fovea.translate(trained, input='--ba\n-ce\n')
    done = fovea('translate', trained, 'Ba.', b'caf\xe9', expect=2)
    assert done.stderr.startswith('error: argument:2: ') and lines_of(done.stdout) == fovea.translate(trained, 'Ba.')


@by_search
def test_a_line_is_answered_before_the_next_is_written(fovea, trained, search):
    expected = fovea.translate(trained, *search, 'Ba ce.', '', 'Di fo gu!')
    process = fovea.start('translate', trained, *search, stdin=subprocess.PIPE)
    alarm = threading.Timer(TIMEOUT, process.kill)
    alarm.start()
    try:
        for sentence, answer in zip(['Ba ce.', '', 'Di fo gu!'], expected):
            process.stdin.write(sentence.encode() + b'\n')
            process.stdin.flush()
            assert process.stdout.readline().decode() == answer + '\n'
        process.stdin.write(b'Ba ce.')  # the last line need not end
        assert process.communicate()[0].decode() == expected[0] + '\n'
        assert process.returncode == 0
    finally:
        alarm.cancel()
        process.kill()


def test_a_reader_that_leaves_early(fovea, trained, tmp_path):
    write_lines(tmp_path / 'in.txt', ['Ba ce.'] * 3000)
    process = fovea.start('translate', trained, '--batch-size', '1', '--input', 'in.txt')
    assert process.stdout.readline() != b''
    process.stdout.close()
    process.wait(TIMEOUT)
    said = process.stderr.read().decode()
    process.stderr.close()
    assert process.returncode != 0
    assert 'terminate' not in said and 'unexpected' not in said and len(said.splitlines()) <= 1


def test_a_full_disk_is_an_error(fovea, trained):
    with open('/dev/full', 'wb') as full:
        process = fovea.start('translate', trained, 'Ba ce.', stdout=full)
        assert process.communicate(timeout=TIMEOUT)[1].startswith(b'error: ') and process.returncode == 1


def high_water(process):
    """Kilobytes of resident memory that a process had at most."""
    with open(f'/proc/{process.pid}/status') as status:
        return next(int(line.split()[1]) for line in status if line.startswith('VmHWM'))


@by_search
def test_c42_memory_stays_flat(fovea, trained, search):
    sources = [source.encode() + b'\n' for source, _ in tiny_pairs(2000, seed=21)]
    process = fovea.start('translate', trained, '--batch-size', '4', *search, stdin=subprocess.PIPE)
    alarm = threading.Timer(TIMEOUT, process.kill)
    alarm.start()
    marks = []
    try:
        for begin in range(0, 2000, 100):
            process.stdin.write(b''.join(sources[begin:begin + 100]))
            process.stdin.flush()
            for _ in range(100):
                assert process.stdout.readline() != b''
            marks.append(high_water(process))
        process.stdin.close()
        assert process.wait(TIMEOUT) == 0
    finally:
        alarm.cancel()
        process.kill()
    assert marks[-1] - marks[4] < 2048, marks  # after 500 and after 2,000 lines


def test_c42_a_line_of_5000_words_among_short_ones(fovea, trained, tmp_path):
    sources = [source for source, _ in tiny_pairs(1000, seed=3)]
    sources.insert(400, 'ba ' * 5000)
    write_lines(tmp_path / 'in.txt', sources)
    done = fovea('translate', trained, '--input', 'in.txt', expect=0)
    assert len(lines_of(done.stdout)) == 1001 and done.stderr.startswith('warning: 1 sentence was longer')
