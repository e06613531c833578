"""Writes tests/golden/bleu_cases.json: small corpora and the corpus BLEU that sacreBLEU gives them.

    python scripts/reference/make_bleu_cases.py [--out tests/golden/bleu_cases.json]

The format is described in tests/golden/README.md. The sentences are made up for the edges of the 13a tokenizer, of the
exponential smoothing and of the brevity penalty.
"""

import argparse
import json
import pathlib

import sacrebleu
from sacrebleu.metrics import BLEU

CASES = {
    'identical': (
        ['The cat sleeps on the warm stones.', 'We leave tomorrow morning.'],
        ['The cat sleeps on the warm stones.', 'We leave tomorrow morning.']),
    'close': (
        ['the dog ran quickly across the green field', 'she reads a book every single evening'],
        ['the dog ran fast across the green field', 'she reads one book every evening']),
    'nothing_in_common': (['alpha beta gamma delta epsilon'], ['one two three four five six']),
    'one_word_right': (['yes'], ['yes']),
    'two_words': (['good morning'], ['good evening']),
    'three_words_right': (['see you soon'], ['see you soon']),
    'no_bigram_matches': (
        ['rain tomorrow comes maybe and wind'], ['tomorrow rain will come and maybe then wind']),
    'no_four_gram_matches': (
        ['the red house by the river is old', 'he paints the door'],
        ['the red house near the river was old', 'he paints a door']),
    'too_short': (['we saw the'], ['we saw the old lighthouse from the boat at noon']),
    'much_too_short_corpus': (
        ['the train', 'a cold', 'nobody'],
        ['the train to the coast leaves at nine', 'a cold wind blows from the north', 'nobody knows what he wants now']),
    'too_long': (
        ['the bread is fresh and warm and good and sold here every day of the week'], ['the bread is fresh and warm']),
    'repeated_words_are_clipped': (['the the the the the the the'], ['the cat is on the mat']),
    'punctuation': (
        ['Wait, what?! (Really: "no way"; he said...)', "Don't go - please, don't!", 'A/B, C & D; [e] {f} <g> #h @i *j'],
        ['Wait - what?! (Really: "no way", he said.)', "Don't leave, please don't!", 'A/B, C and D; [e] {f} <g> #h @i *j']),
    'french_punctuation': (
        ["Qu'est-ce que c'est\u00a0?", 'Il a dit\u202f: «\u00a0Viens\u00a0!\u00a0»', "J'ai perdu l'adresse."],
        ["Qu'est-ce que c'est ?", 'Il a dit : « Viens ! »', "J'ai perdu son adresse."]),
    'numbers': (
        ['It costs 1,234.56 euros, not 1.234,56.', 'In 1999, 3.5% of 10-year-olds won 2-1.', 'Call 555.0199, or .5, or 7.'],
        ['It costs 1,234.56 euros and not 1,234.', 'In 1999 , 3.5 % of 10 - year-olds won 2-0 .', 'Call 555.0199 or 0.5 or 7.']),
    'hyphens': (
        ['A well-known, state-of-the-art twenty-two-year-old idea', 'pages 3-5 and 7 - 9 and B-2 and 2-B'],
        ['A well known, state-of-the-art, 22-year-old idea', 'pages 3 - 5 and 7-9 and B-2 and 2 -B']),
    'entities': (
        ['She said &quot;yes&quot; &amp; left.', '5 &lt; 6 &gt; 4', '&amp;quot; stays odd', '&apos; is left alone'],
        ['She said "yes" & left.', '5 < 6 > 4', '" stays odd', "' is left alone"]),
    'skipped_tag_and_line_breaks': (
        ['a <skipped> word is dropped here', 'a hyphen-\nated line', 'two\nlines of text here'],
        ['a word is dropped here', 'a hyphenated line', 'two lines of text here']),
    'accents': (
        ['Où étais-tu à Noël, chère Zoé ?', 'Ça va très bien, merci beaucoup.', 'Der Bär läuft über die Straße.'],
        ['Où étais-tu à Noël, cher Zoé ?', 'Ca va tres bien, merci beaucoup.', 'Der Bar läuft über die Strasse.']),
    'decomposed_accents': (['le cafe\u0301 noir est tre\u0300s chaud'], ['le caf\u00e9 noir est tr\u00e8s chaud']),
    'cjk': (
        ['我今天很高兴。', '他 喜欢 喝 绿茶 和 咖啡', '東京は とても 大きい です'],
        ['我今天很高兴！', '他 喜欢 喝 红茶 和 咖啡', '東京は とても 広い です']),
    'emoji_and_symbols': (
        ['I ♥ this 😀 very much ™ 2×3 = 6 ½', 'a → b … c — d – e'], ['I ♥ this 😀 so much ™ 2×3 = 6 ½', 'a → b ... c — d - e']),
    'case': (
        ['THE Great River Flows SOUTH past Our Town', 'ÉCOLE Ça À ŒUVRE ÎLE STRASSE'],
        ['The great river flows south past our town', 'école ça à œuvre île straße']),
    'case_special_letters': (['İstanbul ΟΔΟΣ ΣΑΣ ǅ one two three'], ['i\u0307stanbul οδος σας ǆ one two three']),
    'empty_hypothesis': ([''], ['there should be a sentence here']),
    'empty_reference': (['there should be nothing here'], ['']),
    'both_empty': ([''], ['']),
    'whitespace_only': (['   ', '\t \u00a0 \u3000'], ['some words stand here', 'and a few here too']),
    'one_empty_of_three': (
        ['the boats come back at dusk', '', 'nobody was at home that day'],
        ['the boats come back at dusk', 'the shop opens at eight', 'nobody was at home that evening']),
    'spaces_around_and_inside': (
        ['  two   spaces  here and\tone tab  ', ' trailing\u2009thin\u3000wide\u00a0hard spaces \n'],
        ['two spaces here and one tab', 'trailing thin wide hard spaces']),
    'separators_inside': (['one\x0btwo\x0cthree\x1cfour\x85five\u2028six'], ['one two three four five six']),
    'special_words': (['<unk> he <eos> stays home <pad> today'], ['he stays home today as always']),
    'apostrophes_and_dots': (
        ["it's the dogs' U.S.A. vs. U.K. e.g. Mr. O'Neil's 3.", "'tis rock 'n' roll... isn't it.Yes,no"],
        ["it is the dog's U.S.A. vs U.K. e.g. Mr O'Neil's 3 .", "'tis rock and roll... isn't it. Yes, no"]),
    'tokenized_already': (
        ['he is calm .', "i 'm home .", 'go !'], ["He's calm.", "I'm home.", 'Go!']),
    'trailing_dot_digit': (['he won in 5.', 'version 2.0.1-beta,3', '-5 to +5, $5.00 and 5$'],
                           ['he won in 5 .', 'version 2.0.1 - beta , 3', '-5 to +5 , $ 5.00 and 5 $']),
}


def measure(hypotheses, references, lowercase):
    metric = BLEU(lowercase=lowercase, tokenize='13a', smooth_method='exp', force=True)
    result = metric.corpus_score(hypotheses, [references])
    return {'score': result.score, 'precisions': result.precisions, 'counts': result.counts, 'totals': result.totals,
            'bp': result.bp, 'sys_len': result.sys_len, 'ref_len': result.ref_len,
            'signature': str(metric.get_signature())}


def make_cases():
    cases = []
    for name, (hypotheses, references) in CASES.items():
        case = {'name': name, 'hypotheses': hypotheses, 'references': references}
        try:
            case['mixed'] = measure(hypotheses, references, lowercase=False)
            case['lc'] = measure(hypotheses, references, lowercase=True)
        except Exception as error:
            raise RuntimeError(f'sacreBLEU fails on case {name}') from error
        cases.append(case)
    return {'sacrebleu': sacrebleu.__version__, 'cases': cases}


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = pathlib.Path(__file__).resolve().parents[2] / 'tests' / 'golden' / 'bleu_cases.json'
    parser.add_argument('--out', type=pathlib.Path, default=default, help='file to write')
    out = parser.parse_args().out
    out.write_text(json.dumps(make_cases(), indent=1) + '\n', encoding='ascii')
