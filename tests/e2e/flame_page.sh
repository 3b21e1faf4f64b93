#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The flame page in a real browser: drawn, zoomed, flipped, searched; hostile names stay text. 77: no browser here.
set -u
build=$(realpath "${BUILD:-build}")
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
	echo "flame_page.sh: no chromium, skipped"
	exit 77
}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
"$build/tests/mkstore" store >truth.json && "$build/ascribe" flame store -o page.html 2>/dev/null || exit 1

# A copy of the page that works itself and leaves what it saw in the document.
python3 - <<'PY'
driver = '''<script>
const seen = [], say = (k, v) => seen.push([k, v]);
const pixels = () => {
	draw();
	const all = ctx.getImageData(0, 0, canvas.width, canvas.height).data, colors = new Set();
	for (let i = 0; i < all.length; i += 4 * 97)
		colors.add(all[i] << 16 | all[i + 1] << 8 | all[i + 2]);
	return colors.size;
};
const at = (type, x, y) => canvas.dispatchEvent(new MouseEvent(type, { clientX: x, clientY: y, bubbles: true }));
const key = k => dispatchEvent(new KeyboardEvent('keydown', { key: k, bubbles: true }));
const box = canvas.getBoundingClientRect();
say('colors', pixels());
say('root', total[0]);
at('mousemove', box.left + 5, box.top + 5);
say('tip', tip.textContent);
at('click', box.left + 5, box.top + 3.5 * ROW);
say('zoomed', focus > 0 && depth[focus] === 3 && !el('reset').disabled);
say('zoom drawn', pixels());
key('Escape');
say('reset', focus);
key('/');
say('search has focus', document.activeElement === search);
search.value = '^inner$';
search.dispatchEvent(new Event('input'));
say('match', el('match').textContent);
search.value = '(';
search.dispatchEvent(new Event('input'));
say('wrong', el('match').textContent);
key('Escape');
say('cleared', search.value + el('match').textContent);
el('flip').click();
say('flame', !icicle && pixels());
say('title', document.title);
say('scripts', document.scripts.length);
say('images', document.images.length);
say('overflow', document.documentElement.scrollWidth - innerWidth);
document.body.replaceChildren(Object.assign(document.createElement('pre'), { id: 'seen', textContent: JSON.stringify(seen) }));
</script></body>'''
page = open('page.html', encoding='utf-8').read()
open('driven.html', 'w', encoding='utf-8').write(page.replace('</body>', driver))
PY
timeout 120 "$browser" --headless --no-sandbox --disable-gpu --disable-background-networking --no-first-run \
	--user-data-dir="$dir/profile" --window-size=1200,800 --dump-dom "file://$dir/driven.html" >dom.html 2>log || {
	tail -5 log
	exit 1
}
"$build/ascribe" report store --json >report.json 2>/dev/null
python3 - <<'PY'
import html, json, re
dom = open('dom.html', encoding='utf-8').read()
m = re.search(r'<pre id="seen">(.*?)</pre>', dom, re.S)
assert m, 'the page did not run: ' + open('log').read()[-600:]
seen = dict(json.loads(html.unescape(m.group(1))))
truth = json.load(open('truth.json'))
inner = next(r for r in json.load(open('report.json'))['rows'] if r['function'] == 'inner')
assert seen['colors'] >= 8 and seen['zoom drawn'] >= 3 and seen['flame'] >= 8, seen
assert seen['root'] == truth['samples'], seen
assert seen['tip'].startswith('all2\u202f500 samples') and '100.00% of all' in seen['tip'], seen
assert seen['zoomed'] and seen['reset'] == 0 and seen['search has focus'], seen
assert seen['match'].startswith('matched %.2f%%, %d samples' % (100 * inner['share'], inner['samples'])), (seen, inner)
assert seen['wrong'] == 'not a regular expression' and seen['cleared'] == '', seen
# Names of the store try to set the title, to add scripts and images.
assert seen['title'] == 'ascribe: flame graph' and seen['scripts'] == 3 and seen['images'] == 0, seen
assert seen['overflow'] <= 0, seen
print('flame_page.sh: passed')
PY
