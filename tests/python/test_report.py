"""`fovea report`: a page about a run, in one file; driven in a browser without a screen."""

import json
import re
import shutil
import subprocess

import pytest

BROWSER = shutil.which('chromium') or shutil.which('chromium-browser') or shutil.which('google-chrome')

# What a reader does, and what the page shows then, as text at its end.
DRIVER = """
<script>
window.addEventListener('load', () => {
  const seen = {};
  seen.sections = [...document.querySelectorAll('h2')].map(h => h.textContent);
  seen.width = document.documentElement.scrollWidth;
  const choice = document.getElementById('example'), layer = document.getElementById('layer');
  seen.explained = choice.options.length;
  seen.layers = [...layer.options].map(o => o.textContent);
  const cells = () => [...document.querySelectorAll('.shown rect')].map(r => r.getAttribute('fill'));
  const mean = cells().join();
  layer.value = String(layer.options.length - 1);
  layer.dispatchEvent(new Event('change'));
  seen.other_layer = cells().join() !== mean;
  layer.value = '0';
  layer.dispatchEvent(new Event('change'));
  const buttons = [...document.querySelectorAll('[role=group] button')];
  seen.buttons = buttons.map(b => b.textContent);
  buttons[1].focus();
  buttons[1].click();
  seen.other_head = cells().join() !== mean;
  seen.pressed = document.activeElement.textContent;
  const explore = [...document.querySelectorAll('button')].filter(b => b.textContent === 'explore');
  explore[explore.length - 1].click();
  seen.chosen = choice.selectedIndex;
  seen.images = [...document.images].filter(i => i.naturalWidth > 0).length;
  document.body.append(Object.assign(document.createElement('pre'), {id: 'seen', textContent: JSON.stringify(seen)}));
});
</script>
"""


def page_of(text):
    return json.loads(re.search(r'<script type="application/json" id="page">(.*?)</script>', text, re.S)[1])


def driven(path, width, tmp_path):
    if BROWSER is None:
        pytest.skip('no Chromium on the PATH')
    copy = tmp_path / 'driven.html'
    copy.write_text(path.read_text(encoding='utf-8').replace('</body>', DRIVER + '</body>'), encoding='utf-8')
    done = subprocess.run([BROWSER, '--headless', '--no-sandbox', '--disable-gpu', f'--window-size={width},900',
                           f'--user-data-dir={tmp_path / "profile"}', '--virtual-time-budget=5000', '--dump-dom', copy.as_uri()],
                          capture_output=True, text=True, timeout=120, check=True)
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.S)
    assert found, done.stdout[-2000:] + done.stderr[-2000:]
    return json.loads(found[1].replace('&gt;', '>').replace('&lt;', '<').replace('&amp;', '&'))


def test_a_translators_page(fovea, trained, tmp_path):
    assert fovea('report', trained, '-o', 'r.html', expect=0).stdout == 'r.html\n'
    text = (tmp_path / 'r.html').read_text(encoding='utf-8')
    assert not re.search(r'(src|href)="(?!data:)', text) and 'http' not in re.sub(r'http://www.w3.org/2000/svg', '', text)
    page = page_of(text)
    evaluated = json.loads(fovea('evaluate', trained, '--json', expect=0).stdout)
    assert ['BLEU', f'{evaluated["bleu"]:.2f}'] in page['scores']['facts']
    assert ['model.num_heads', '2'] in page['settings'] and ['model', 'transformer'] in page['summary']
    examples = page['examples']['list']
    assert [(e['input'], e['expected']) for e in examples] == [tuple(pair) for pair in trained.test]
    translated = fovea.translate(trained, input='\n'.join(trained.sources) + '\n')
    assert [e['predicted'] for e in examples] == translated
    assert all(0 <= e['score'] <= 1 for e in examples)
    assert [c['validation'] for c in page['curves']['panels'][0]['curves']] == [False, True]


@pytest.mark.parametrize('width', [400, 1400])
def test_the_page_in_a_browser(fovea, trained, tmp_path, width):
    fovea('report', trained, '-o', 'r.html', '--explained', '6', expect=0)
    seen = driven(tmp_path / 'r.html', width, tmp_path)
    assert seen['sections'] == ['Scores', 'Curves', 'Examples', 'What it looks at', 'Settings']
    assert seen['width'] <= max(width, 500)  # nothing sticks out; a browser's window has at least 500 pixels
    assert seen['explained'] == 6
    assert seen['layers'][-1] == 'cross: decoder.blks.block0.attention2'
    assert seen['buttons'] == ['mean of heads', 'head 1', 'head 2']
    assert seen['other_layer'] and seen['other_head'] and seen['pressed'] == 'head 1'
    assert seen['chosen'] > 0


def test_a_classifiers_page(fovea, classifier, tmp_path):
    fovea('report', classifier, '-o', 'r.html', '--examples', '20', '--explained', '3', expect=0)
    page = page_of((tmp_path / 'r.html').read_text(encoding='utf-8'))
    assert len(page['examples']['list']) == 20
    assert sum(sum(row) for row in page['scores']['matrices'][0]['counts']) == 60
    assert sum(len(e['attention']) > 0 for e in page['examples']['list']) == 3
    seen = driven(tmp_path / 'r.html', 1000, tmp_path)
    assert seen['images'] >= 16  # eight of the worst and eight of the best
    assert seen['layers'][-2:] == ['roll-out', 'relevance']


def test_texts_cannot_leave_the_data(fovea, tmp_path, trained):
    """What looks like a tag in a sentence stays text."""
    for name in ('corpus.tsv', 'tiny.yaml'):
        shutil.copy(trained.folder / name, tmp_path)
    (tmp_path / 'test.tsv').write_text('ba </script><script>alert(1)</script> <!-- ki.\tba-ba.\nki.\tki-ki.\n', encoding='utf-8')
    fovea('train', 'tiny.yaml', 'train.max_epochs=1', '--run-dir', 'run', expect=0)
    fovea('report', 'run', '-o', 'r.html', expect=0)
    text = (tmp_path / 'r.html').read_text(encoding='utf-8')
    assert text.count('</script>') == 2 and '<!--' not in text
    assert page_of(text)['examples']['list'][0]['input'].startswith('ba </script>')


def test_what_is_no_page(fovea, trained, tmp_path):
    assert '.html' in fovea('report', trained, '-o', 'r.pdf', expect=2).stderr
    (tmp_path / 'r.html').write_text('mine')
    assert '--overwrite' in fovea('report', trained, '-o', 'r.html', expect=2).stderr
    assert (tmp_path / 'r.html').read_text() == 'mine'
