// SPDX-License-Identifier: Apache-2.0

const out = {Plots: [], Tables: 0, Wrong: [], First: '', Paper: getComputedStyle(document.body).backgroundColor,
  Sideways: document.documentElement.scrollWidth > innerWidth};
const shown = e => e.getClientRects().length > 0;
const inside = (a, b) => a.left >= b.left - 1 && a.right <= b.right + 1 && a.top >= b.top - 1 && a.bottom <= b.bottom + 1;

// Colours.
const rgba = text => {
  const m = text.match(/[\d.]+/g).map(Number);
  return m.length < 4 ? [m[0], m[1], m[2], 1] : m;
};
const over = (a, b) => [0, 1, 2].map(i => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
const below = e => {
  const layers = [];
  for (; e; e = e.parentElement) {
    const style = getComputedStyle(e);
    layers.push(rgba(style.backgroundColor));
    const image = e.tagName === 'TD' && style.backgroundImage.match(/rgba?\([^)]*\)/);
    if (image) layers.splice(layers.length - 1, 0, rgba(image[0]));
  }
  return layers.reduceRight((base, layer) => over(layer, base), [255, 255, 255, 1]);
};
const light = c => {
  const [r, g, b] = c.map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (a, b) => {
  const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
  return (x + 0.05) / (y + 0.05);
};

const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
  const node = texts.currentNode, e = node.parentElement;
  if (!node.data.trim() || !shown(e) || e.tagName === 'title' || e.tagName === 'STYLE') continue;
  const range = document.createRange();
  range.selectNodeContents(node);
  const at = range.getBoundingClientRect();
  if (at.top >= 0 && at.bottom <= innerHeight && at.left >= 0 && at.right <= innerWidth) out.First += node.data.trim() + '\n';
  const style = getComputedStyle(e);
  const papers = [below(e)]; // shades of one drawing do not cover each other
  const svg = e.closest('svg');
  for (const shade of svg ? svg.querySelectorAll('rect.both') : []) {
    const box = shade.getBoundingClientRect(), how = getComputedStyle(shade), fill = rgba(how.fill);
    const off = box.right < at.left || box.left > at.right || box.bottom < at.top || box.top > at.bottom;
    if (!off) papers.push(over(fill.slice(0, 3).concat(fill[3] * how.opacity), papers[0]));
  }
  const ink = over(rgba(e instanceof SVGElement ? style.fill : style.color), papers[0]);
  const ratio = Math.min(...papers.map(paper => contrast(ink, paper)));
  if (ratio < 4.5) out.Wrong.push('contrast ' + ratio.toFixed(2) + ': ' + node.data.trim().slice(0, 60));
  if (!e.closest('.scroll') && (at.left < -1 || at.right > innerWidth + 1)) out.Wrong.push('beyond the window: ' + node.data.trim().slice(0, 60));
}

for (const table of document.querySelectorAll('table')) {
  if (!shown(table)) continue;
  out.Tables++;
  const box = table.closest('.scroll');
  const first = table.querySelector('tbody tr:last-child > :first-child');
  if (!box) { out.Wrong.push('a table without its box'); continue; }
  if (box.scrollWidth > box.clientWidth + 1) {
    if (getComputedStyle(box).overflowX !== 'auto') out.Wrong.push('a wide table cannot be scrolled: ' + table.textContent.slice(0, 60));
    box.scrollLeft = 1000;
    if (first.getBoundingClientRect().left < box.getBoundingClientRect().left - 1) out.Wrong.push('the first column leaves: ' + first.textContent);
    if (first.getBoundingClientRect().width > box.clientWidth * 0.7) out.Wrong.push('the first column covers the others: ' + first.textContent);
    box.scrollLeft = 0;
  }
}

for (const figure of document.querySelectorAll('figure')) {
  const all = [...figure.querySelectorAll('svg[role=img]')].filter(shown);
  if (all.length !== 1) { out.Wrong.push(all.length + ' drawings of one figure'); continue; }
  const svg = all[0], frame = svg.getBoundingClientRect();
  out.Plots.push({Name: svg.getAttribute('aria-label'), Width: frame.width, Height: frame.height,
    Drawn: svg.querySelectorAll('rect.holds, rect.range').length,
    Table: svg.closest('section').querySelectorAll('tbody tr').length, Tips: svg.querySelectorAll('title').length});
  const labels = [...svg.querySelectorAll('text')].map(text => ({says: text.textContent, at: text.getBoundingClientRect()}));
  labels.forEach((label, n) => {
    if (!inside(label.at, frame)) out.Wrong.push('cut off: ' + label.says);
    if (Math.max(label.at.height, label.at.width) < 9) out.Wrong.push('too small: ' + label.says);
    for (const other of labels.slice(0, n)) {
      const wide = Math.min(label.at.right, other.at.right) - Math.max(label.at.left, other.at.left);
      const high = Math.min(label.at.bottom, other.at.bottom) - Math.max(label.at.top, other.at.top);
      if (wide > 1 && high > 4) out.Wrong.push('covered: ' + label.says + ' and ' + other.says);
    }
  });
}
return out;
