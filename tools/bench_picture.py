# SPDX-License-Identifier: Apache-2.0
"""Small SVG pictures: curves and bars. They are readable on light and on dark pages."""
import math
import statistics
from html import escape

WIDTH, HEIGHT = 780, 340
LEFT, RIGHT, TOP, BOTTOM = 64, 250, 34, 44
COLOURS = (("#1f6fb4", "#6cb2f0"), ("#c8501e", "#ff9a63"), ("#2f8540", "#74cf86"), ("#8a4fb0", "#c99cec"),
           ("#9a7400", "#e3c14b"), ("#b03060", "#f08cb4"), ("#00828a", "#5fd0d8"), ("#666666", "#b5b5b5"))


def style():
    light = "".join(f".c{n}{{stroke:{a};fill:{a}}}" for n, (a, _) in enumerate(COLOURS))
    dark = "".join(f".c{n}{{stroke:{b};fill:{b}}}" for n, (_, b) in enumerate(COLOURS))
    return ("<style>text{font:12px sans-serif;fill:#222;stroke:none}.grid{stroke:#8884}.axis{stroke:#888}"
            ".mark{stroke:#b00;stroke-dasharray:4 3}text.mark{fill:#b00;stroke:none}path{fill:none!important;stroke-width:2}" + light +
            "@media(prefers-color-scheme:dark){text{fill:#ddd}.mark{stroke:#f77}text.mark{fill:#f77}" + dark + "}</style>")


def svg(width, height, body, title):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">'
            f"<title>{escape(title)}</title>{style()}\n" + "\n".join(body) + "\n</svg>\n")


def text(x, y, what, anchor="start", kind="", turn=False):
    turned = f' transform="rotate(-90 {x:.0f} {y:.0f})"' if turn else ""
    marked = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}"{marked}{turned}>{escape(what)}</text>'


def line(x1, y1, x2, y2, kind):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


class Axis:
    """Values to places; by powers of ten where they span more than two of them."""

    def __init__(self, values, begin, end, whole):
        """whole: the axis begins at 0 or a power of ten, and ends at a round number."""
        self.begin, self.end = begin, end
        low, high = min(values), max(values)
        self.log = low > 0 and high / low > 30
        if not whole:
            self.low, self.high = (math.log10(low), math.log10(high)) if self.log else (low, high)
        elif self.log:
            self.low, self.high = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
            self.ticks = [10.0 ** n for n in range(self.low, self.high + 1)]
        else:
            low = min(low, 0)
            step = 10.0 ** math.floor(math.log10((high - low) or 1))
            step = next(s for s in (step / 5, step / 2, step, 2 * step) if (high - low) / s <= 6)
            self.low, self.high = math.floor(low / step) * step, math.ceil(high / step + 1e-9) * step
            count = round((self.high - self.low) / step)
            self.ticks = [self.low + n * step for n in range(count + 1)]

    def at(self, v):
        v = max(math.log10(v), self.low) if self.log and v > 0 else self.low if self.log else v
        return self.begin + (v - self.low) / ((self.high - self.low) or 1) * (self.end - self.begin)


def number(v):
    for size, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if v >= size:
            return f"{v / size:.3g}{name}"
    return f"{v:.3g}"


def names(series, y_axis):
    """The name of each line beside its end, none upon another."""
    wanted = sorted((y_axis.at(statistics.median(p[max(p)])), n) for n, (_, p) in enumerate(series))
    placed, last = {}, -math.inf
    for y, n in wanted:
        last = max(y, last + 14)
        placed[n] = last
    over = max(0, last - (HEIGHT - BOTTOM + 6))
    return {n: y - over for n, y in placed.items()}


def cut(words, most):
    return words if len(words) <= most else words[:most - 1] + "…"


def curves(x_name, y_name, series, goal, limit, limit_at, x_tick):
    """series: (name, x -> values). The goal is a line; the first limit is marked where it is."""
    xs = sorted({x for _, p in series for x in p})
    ys = [v for _, p in series for values in p.values() for v in values] + ([goal] if goal else [])
    x_axis = Axis(xs + ([limit_at] if limit_at else []), LEFT, WIDTH - RIGHT, False)
    y_axis = Axis([y for y in ys if y > 0] or [1], HEIGHT - BOTTOM, TOP, True)
    body = []
    for t in y_axis.ticks:
        body += [line(LEFT, y_axis.at(t), WIDTH - RIGHT, y_axis.at(t), "grid"),
                 text(LEFT - 6, y_axis.at(t) + 4, number(t), "end")]
    last = -math.inf
    for x in xs:
        body.append(line(x_axis.at(x), HEIGHT - BOTTOM, x_axis.at(x), HEIGHT - BOTTOM + 4, "axis"))
        if x_axis.at(x) - last > 44:
            body.append(text(x_axis.at(x), HEIGHT - BOTTOM + 17, x_tick(x), "middle"))
            last = x_axis.at(x)
    body += [line(LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM, "axis"),
             text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, x_name, "middle"), text(LEFT - 50, TOP - 18, y_name)]
    if goal:
        body += [line(LEFT, y_axis.at(goal), WIDTH - RIGHT, y_axis.at(goal), "mark"),
                 text(LEFT + 4, y_axis.at(goal) - 4, f"goal {number(goal)}", "start", "mark")]
    if limit_at:
        x = x_axis.at(limit_at)
        body += [line(x, TOP, x, HEIGHT - BOTTOM, "mark"),
                 text(x - 4, TOP + 10, "first limit", "end", "mark")]
    placed = names(series, y_axis)
    for n, (name, p) in enumerate(series):
        kind = f"c{n % len(COLOURS)}"
        at = [(x_axis.at(x), y_axis.at(statistics.median(p[x]))) for x in sorted(p)]
        body.append(f'<path class="{kind}" d="M' + "L".join(f"{x:.1f} {y:.1f}" for x, y in at) + '"/>')
        for (x, y), value in zip(at, sorted(p)):
            body.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>')
            body.append(line(x, y_axis.at(min(p[value])), x, y_axis.at(max(p[value])), kind))
        x, y = at[-1]
        if x < WIDTH - RIGHT - 2:
            body.append(line(x, y, WIDTH - RIGHT + 6, placed[n] - 4, "grid"))
        body.append(f'<circle class="{kind}" cx="{WIDTH - RIGHT + 12}" cy="{placed[n] - 4:.1f}" r="4"/>')
        body.append(text(WIDTH - RIGHT + 20, placed[n], cut(name.replace("`", ""), 36)))
    return svg(WIDTH, HEIGHT, body, f"{y_name} by {x_name}")


def bars(rows):
    """rows: (what, beside whom, times better); 1 is as good."""
    left, row, width = 400, 20, 800
    height = TOP + row * len(rows) + 26
    axis = Axis([r for _, _, r in rows] + [1, 100], left, width - 60, True)
    body = [text(left, 14, "times better than the best of the others; 1 is as good", "start")]
    for t in axis.ticks:
        body += [line(axis.at(t), TOP - 10, axis.at(t), height - 22, "grid"), text(axis.at(t), height - 8, number(t), "middle")]
    for n, (what, who, ratio) in enumerate(rows):
        y = TOP + n * row
        begin, end = sorted((axis.at(1), axis.at(ratio)))
        what = what.replace("`", "")
        body += [text(left - 8, y + 10, cut(f"{what} ({who})", 62), "end"),
                 f'<rect class="c{0 if ratio >= 0.97 else 1}" x="{begin:.1f}" y="{y}" width="{max(end - begin, 1):.1f}" height="12"/>',
                 text(max(end, axis.at(1)) + 6, y + 10, number(float(f"{ratio:.3g}" if ratio >= 100 else f"{ratio:.2g}")))]
    body.append(line(axis.at(1), TOP - 10, axis.at(1), height - 22, "axis"))
    return svg(width, height, body, "times better than the best of the others")
