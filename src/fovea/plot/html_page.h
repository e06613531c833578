#pragma once

/// The fixed parts of the page that html_report() writes.
namespace fovea::plot {

inline constexpr const char* kPageStyle = R"css(
:root { color-scheme: light dark; --paper: #fff; --ink: #1b1b1b; --soft: #666; --line: #ddd; --band: #f6f6f6;
  --c0: #0072b2; --c1: #d55e00; --weight: 8, 81, 156; --good: #00694c; --bad: #b03a00; }
@media (prefers-color-scheme: dark) { :root { --paper: #16181b; --ink: #e6e6e6; --soft: #a0a0a0; --line: #3a3d42;
  --band: #1f2226; --c0: #56b4e9; --c1: #f0903a; --weight: 126, 190, 245; --good: #4fd0a5; --bad: #f0903a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: .5rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; border-bottom: 1px solid var(--line); }
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); gap: 0 2rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0; }
th, td { padding: .2rem .7rem .2rem 0; text-align: left; vertical-align: top; }
th { font-weight: 600; color: var(--soft); }
td { overflow-wrap: anywhere; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
tbody tr:nth-child(even) { background: var(--band); }
.matrix td { min-width: 2.6rem; padding: .2rem .4rem; text-align: right; font-variant-numeric: tabular-nums; }
svg { max-width: 100%; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
svg .axis { stroke: var(--line); fill: none; }
.legend { color: var(--soft); font-size: .85rem; }
button, select { font: inherit; color: inherit; background: var(--band); border: 1px solid var(--line);
  border-radius: 4px; padding: .25rem .6rem; max-width: 100%; }
button[aria-pressed=true] { background: var(--c0); color: var(--paper); border-color: var(--c0); }
:focus-visible { outline: 3px solid var(--c1); outline-offset: 1px; }
.controls { display: flex; flex-wrap: wrap; gap: .4rem; margin: .5rem 0; align-items: center; }
.examples { list-style: none; padding: 0; margin: .5rem 0; }
.examples li { border-bottom: 1px solid var(--line); padding: .35rem 0; display: flex; gap: .7rem; }
.examples img, .shown img { image-rendering: pixelated; background: #000; }
.examples img { width: 42px; height: 42px; flex: none; object-fit: contain; }
.right { color: var(--good); } .wrong { color: var(--bad); }
.said { min-height: 1.5em; color: var(--soft); }
)css";

inline constexpr const char* kPageScript = R"js(
'use strict';
const page = JSON.parse(document.getElementById('page').textContent);
const svgSpace = 'http://www.w3.org/2000/svg';

function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === 'onclick' || key === 'onchange') element[key] = value; else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

function draw(name, attributes = {}, text) {
  const element = document.createElementNS(svgSpace, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

function rows(pairs) {
  return make('table', {}, make('tbody', {}, ...pairs.map(([key, value]) =>
    make('tr', {}, make('th', {scope: 'row'}, key), make('td', {}, value)))));
}

function section(title, ...children) {
  const made = make('section', {}, make('h2', {}, title), ...children);
  document.body.append(made);
  return made;
}

// Curves: an axis for each measure.
function ticks(low, high, most) {
  const rough = (high - low) / most, power = Math.pow(10, Math.floor(Math.log10(rough)));
  const step = [1, 2, 5, 10].map(f => f * power).find(s => s >= rough);
  const found = [];
  for (let t = Math.ceil(low / step) * step; t <= high + step * 1e-9; t += step) found.push(+t.toPrecision(12));
  return found;
}

function curvePicture(panel, xLabel) {
  const width = 560, height = 230, left = 62, right = 12, top = 10, bottom = 38;
  const points = panel.curves.flatMap(c => c.x.map((x, i) => [x, c.y[i]])).filter(p => p[1] !== null);
  const xs = points.map(p => p[0]), ys = points.map(p => p[1]);
  let [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  if (x1 === x0) x1 = x0 + 1;
  if (y1 - y0 < 1e-9 * Math.max(1, Math.abs(y0))) { y0 -= 0.5; y1 += 0.5; }
  const px = x => left + (x - x0) / (x1 - x0) * (width - left - right);
  const py = y => height - bottom - (y - y0) / (y1 - y0) * (height - top - bottom);
  const svg = draw('svg', {viewBox: `0 0 ${width} ${height}`, width, role: 'img', 'aria-label': `${panel.measure} over ${xLabel}`});
  for (const t of ticks(y0, y1, 5)) {
    svg.append(draw('line', {x1: left, x2: width - right, y1: py(t), y2: py(t), class: 'axis'}),
               draw('text', {x: left - 6, y: py(t) + 4, 'text-anchor': 'end'}, String(t)));
  }
  for (const t of ticks(x0, x1, 6)) svg.append(draw('text', {x: px(t), y: height - bottom + 16, 'text-anchor': 'middle'}, String(t)));
  svg.append(draw('text', {x: (left + width - right) / 2, y: height - 4, 'text-anchor': 'middle'}, xLabel));
  const names = [];
  panel.curves.forEach((curve, i) => {
    const colour = `var(--c${i % 2})`;
    let path = '', pen = 'M';
    curve.x.forEach((x, k) => {
      if (curve.y[k] === null) { pen = 'M'; return; }
      path += `${pen}${px(x).toFixed(1)},${py(curve.y[k]).toFixed(1)}`; pen = 'L';
    });
    svg.append(draw('path', {d: path, fill: 'none', stroke: colour, 'stroke-width': 2, 'stroke-dasharray': curve.validation ? '6 3' : 'none'}));
    if (curve.validation) curve.x.forEach((x, k) => {
      if (curve.y[k] !== null) svg.append(draw('circle', {cx: px(x), cy: py(curve.y[k]), r: 2.6, fill: colour}));
    });
    names.push(make('span', {style: `color: ${colour}`}, `${curve.validation ? '- -o- -' : '\u2014\u2014'} ${curve.validation ? 'validation' : 'training'}  `));
  });
  return make('div', {}, make('strong', {}, panel.measure), ' ', make('span', {class: 'legend'}, ...names), make('div', {class: 'scroll'}, svg));
}

function gridTable(grid) {
  const isNumber = grid.columns.map((_, c) => grid.rows.every(r => r[c] === '-' || !isNaN(Number(r[c]))));
  const cell = (tag, text, c) => make(tag, isNumber[c] ? {class: 'number'} : {}, text);
  return make('div', {class: 'scroll'}, make('table', {},
    make('thead', {}, make('tr', {}, ...grid.columns.map((name, c) => cell('th', name, c)))),
    make('tbody', {}, ...grid.rows.map(row => make('tr', {}, ...row.map((text, c) => cell('td', text, c)))))));
}

function matrixTable(matrix) {
  const most = Math.max(1, ...matrix.counts.flat());
  const short = name => name.length > 12 ? name.slice(0, 11) + '\u2026' : name;
  return make('div', {class: 'scroll'}, make('table', {class: 'matrix'},
    make('thead', {}, make('tr', {}, make('th', {}, matrix.label), ...matrix.names.map(n => make('th', {class: 'number', title: n}, short(n))))),
    make('tbody', {}, ...matrix.counts.map((row, r) => make('tr', {}, make('th', {scope: 'row'}, matrix.names[r]),
      ...row.map((count, c) => make('td', {style: `background: rgba(var(--weight), ${(0.75 * Math.sqrt(count / most)).toFixed(2)})`,
        title: `${matrix.names[r]} taken for ${matrix.names[c]}: ${count}`}, String(count))))))));
}

document.body.append(make('h1', {}, page.title));
document.body.append(rows(page.summary));
section('Scores', rows(page.scores.facts), ...page.scores.grids.map(gridTable), ...page.scores.matrices.map(matrixTable));
if (page.curves.panels.length) {
  section('Curves', make('div', {class: 'columns'}, ...page.curves.panels.map(p => curvePicture(p, page.curves.x))));
}

// Examples, and what the model looked at for some of them.
const examples = page.examples.list;
const picture = (example, size) => make('img', {src: 'data:image/png;base64,' + example.image, alt: example.input, width: size, height: size});
const isRight = e => e.expected === e.predicted;

function describe(example) {
  const mark = isRight(example) ? make('span', {class: 'right'}, '\u2713 ') : make('span', {class: 'wrong'}, '\u2717 ');
  return make('div', {}, make('div', {}, example.input), make('div', {}, mark, example.predicted),
    ...(isRight(example) ? [] : [make('div', {class: 'legend'}, 'expected: ' + example.expected)]),
    make('div', {class: 'legend'}, `${example.score.toFixed(3)} ${page.examples.score}`));
}

function explore(index) {
  const choice = document.getElementById('example');
  choice.value = String(index);
  choice.dispatchEvent(new Event('change'));
  document.getElementById('explorer').scrollIntoView();
  choice.focus();
}

function exampleList(order) {
  return make('ul', {class: 'examples'}, ...order.map(i => make('li', {}, ...(examples[i].image ? [picture(examples[i], 42)] : []),
    describe(examples[i]), ...(examples[i].attention.length ? [make('div', {}, make('button', {onclick: () => explore(i)}, 'explore'))] : []))));
}

function unpack(text) { return Uint8Array.from(atob(text), c => c.charCodeAt(0)); }

function heatmap(example, attention, head, say) {
  const all = unpack(attention.weights), q = attention.queries.length, k = attention.keys.length;
  const share = (h, r, c) => all[(h * q + r) * k + c] / 255;
  const mean = (r, c) => { let s = 0; for (let h = 0; h < attention.heads; ++h) s += share(h, r, c); return s / attention.heads; };
  const weight = (r, c) => head < 0 ? mean(r, c) : share(head, r, c);
  const cells = [];
  if (attention.grid) {
    const [rows, columns] = attention.grid, own = k - rows * columns, side = 300;
    const svg = draw('svg', {viewBox: `0 0 ${side} ${side}`, width: side, role: 'img', 'aria-label': 'weights over the image'});
    if (example.image) svg.append(draw('image', {href: 'data:image/png;base64,' + example.image, width: side, height: side,
      preserveAspectRatio: 'none', style: 'image-rendering: pixelated; filter: opacity(.45)'}));
    const looks = q > 1 && own > 0 ? [0] : [...Array(q).keys()];  // the class token, or all
    const of = p => looks.reduce((s, r) => s + weight(r, own + p), 0) / looks.length;
    const most = Math.max(1e-9, ...[...Array(rows * columns).keys()].map(of));
    for (let p = 0; p < rows * columns; ++p) {
      const x = p % columns, y = Math.floor(p / columns);
      cells.push([draw('rect', {x: x * side / columns, y: y * side / rows, width: side / columns, height: side / rows,
        fill: `rgba(var(--weight), ${(0.9 * of(p) / most).toFixed(3)})`}), `patch ${y + 1},${x + 1}: ${(of(p) * attention.most).toFixed(3)}`]);
    }
    for (const [cell] of cells) svg.append(cell);
    finish(svg);
    return svg;
  }
  const size = Math.max(14, Math.min(30, 560 / k)), longest = labels => Math.max(...labels.map(t => Math.min(t.length, 16)));
  const left = longest(attention.queries) * 7.5 + 10, below = longest(attention.keys) * 7.5 + 10;
  const svg = draw('svg', {viewBox: `0 0 ${left + k * size + 4} ${q * size + below + 4}`, width: left + k * size + 4, role: 'img', 'aria-label': 'weights of queries over keys'});
  const cut = t => t.length > 16 ? t.slice(0, 15) + '\u2026' : t;
  attention.queries.forEach((t, r) => svg.append(draw('text', {x: left - 6, y: (r + 0.5) * size + 4, 'text-anchor': 'end'}, cut(t))));
  attention.keys.forEach((t, c) => svg.append(draw('text', {transform: `translate(${left + (c + 0.5) * size + 4},${q * size + 8}) rotate(-90)`, 'text-anchor': 'end'}, cut(t))));
  for (let r = 0; r < q; ++r) for (let c = 0; c < k; ++c) {
    cells.push([draw('rect', {x: left + c * size, y: r * size, width: size, height: size, stroke: 'var(--line)', 'stroke-width': 0.5,
      fill: `rgba(var(--weight), ${weight(r, c).toFixed(3)})`}), `${attention.queries[r]} \u2192 ${attention.keys[c]}: ${(weight(r, c) * attention.most).toFixed(3)}`]);
  }
  for (const [cell] of cells) svg.append(cell);
  finish(svg);
  return svg;
  function finish() {
    for (const [cell, text] of cells) {
      cell.append(draw('title', {}, text));
      cell.addEventListener('pointerenter', () => { say.textContent = text; });
    }
  }
}

function explorer(indices) {
  const state = {example: indices[0], layer: 0, head: -1};
  const said = make('p', {class: 'said', 'aria-live': 'polite'}), shown = make('div', {class: 'shown scroll'});
  const about = make('div'), heads = make('div', {class: 'controls', role: 'group', 'aria-label': 'head'});
  const choice = make('select', {id: 'example', onchange: () => { state.example = Number(choice.value); update(); }},
    ...indices.map(i => make('option', {value: i}, `${examples[i].score.toFixed(2)}  ${examples[i].input.slice(0, 60)}`)));
  const layer = make('select', {id: 'layer', onchange: () => { state.layer = Number(layer.value); state.head = -1; update(); }});
  function update() {
    const example = examples[state.example];
    state.layer = Math.min(state.layer, example.attention.length - 1);
    const attention = example.attention[state.layer];
    about.replaceChildren(describe(example));
    layer.replaceChildren(...example.attention.map((a, i) => make('option', {value: i}, a.name === a.group ? a.group : `${a.group}: ${a.name}`)));
    layer.value = String(state.layer);
    const button = (text, head) => make('button', {'aria-pressed': String(state.head === head), onclick: () => { state.head = head; update(); focusHead(); }}, text);
    heads.replaceChildren(...(attention.heads === 1 ? [] : [button('mean of heads', -1),
      ...[...Array(attention.heads).keys()].map(h => button(`head ${h + 1}`, h))]));
    shown.replaceChildren(heatmap(example, attention, attention.heads === 1 ? 0 : state.head, said));
    said.textContent = `no colour: 0, full colour: ${attention.most.toFixed(3)}`;
  }
  function focusHead() { const pressed = heads.querySelector('[aria-pressed=true]'); if (pressed) pressed.focus(); }
  const made = section('What it looks at', make('div', {class: 'controls'}, make('label', {for: 'example'}, 'example'), choice,
    make('label', {for: 'layer'}, 'layer'), layer), about, heads, shown, said);
  made.id = 'explorer';
  update();
}

if (examples.length) {
  const order = [...examples.keys()].sort((a, b) => examples[a].score - examples[b].score);
  const count = Math.min(8, Math.floor(order.length / 2));
  section('Examples', make('div', {class: 'columns'}, make('div', {}, make('h3', {}, 'worst'), exampleList(order.slice(0, count))),
    make('div', {}, make('h3', {}, 'best'), exampleList(order.slice(-count).reverse()))));
  const explained = order.filter(i => examples[i].attention.length);
  if (explained.length) explorer(explained);
}
section('Settings', make('div', {class: 'columns'}, make('div', {}, rows(page.settings)), make('div', {}, rows(page.data))));
)js";

}  // namespace fovea::plot
