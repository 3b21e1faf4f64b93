# SPDX-License-Identifier: Apache-2.0
"""docs/benchmarks.md and its pictures, of tests/bench/figures/*.toml and docs/benchmarks.tsv."""
import re
import statistics
import textwrap
import tomllib
from dataclasses import dataclass

import bench_picture

QUESTIONS = ("cost", "lose", "miss", "answer", "size")
OURS = "ascribe"
NEAR = 0.97  # from here on a ratio is no disadvantage: runs differ by as much


@dataclass
class Row:
    id: str
    who: str
    when: str
    load: str
    values: list


def questions():
    """question -> its title and its sections, as the files have them."""
    found = {}
    for name in QUESTIONS:
        with open(f"tests/bench/figures/{name}.toml", "rb") as f:
            found[name] = tomllib.load(f)
        for section in sections(found[name]).values():
            for figure, why in section.get("why", {}).items():
                section["of"][figure]["why"] = why
    return found


def sections(question):
    return {k: v for k, v in question.items() if isinstance(v, dict)}


def figures():
    """id -> what it means, in the order of the report."""
    return {f"{s}/{name}": f for q in questions().values() for s, section in sections(q).items()
            for name, f in section["of"].items()}


def results(path="docs/benchmarks.tsv"):
    about, rows = {}, []
    for line in open(path):
        if line.startswith("#"):
            head = re.match(r"# (machine|versions): (.*)", line)
            about |= {head[1]: head[2]} if head else {}
            continue
        id, who, when, load, values = line.rstrip("\n").split("\t")
        rows.append(Row(id, who, when, load, [float(v) for v in values.split()]))
    return about, rows


# ---- numbers ----


def number(v):
    if 99 < v < 100:
        return f"{v:.5g}"  # the part of a hundred that is missing is what counts
    return f"{v:,.0f}" if abs(v) >= 1000 else f"{v:.0f}" if abs(v) >= 100 else f"{v:.3g}"


def shown(values):
    """The median and the ends, or a range of which only the ends were kept."""
    low, high = number(min(values)), number(max(values))
    if low == high:
        return low
    ends = f"{low} - {high}"
    return ends if len(values) == 2 else f"{number(statistics.median(values))} ({ends})"


def reached(figure, values):
    middle = statistics.median(values)
    return middle >= figure["goal"] if figure.get("more") else middle <= figure["goal"]


def goal_of(figure, values):
    if "goal" not in figure:
        return ""
    least = "at least " if figure.get("more") else ""
    return f"{least}{number(figure['goal'])}{'' if reached(figure, values) else ': **missed**'}"


def rival(figure, rows):
    """The best of the others, and how many times better than it we are. Who stands in parentheses
    is there for orientation."""
    ours = [r for r in rows if r.who == OURS]
    others = [r for r in rows if r.who != OURS and not r.who.startswith("(")]
    if not ours or not others:
        return None, None
    best = (max if figure.get("more") else min)(others, key=lambda r: statistics.median(r.values))
    a, b = statistics.median(ours[0].values), statistics.median(best.values)
    if figure.get("more"):
        a, b = b, a
    return best, b / a if a > 0 else float("inf")


def times(ratio):
    if ratio is None:
        return ""
    text = "all" if ratio == float("inf") else f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2g}" if ratio >= 1 else f"{ratio:.2f}"
    return text if ratio >= NEAR else f"**{text}**"


# ---- the document ----


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(r) + " |" for r in rows]) + "\n"


def wrapped(text):
    """Paragraphs of at most 100 columns; lists and tables as they are."""
    parts = []
    for part in re.split(r"\n\s*\n", text.strip()):
        if part.startswith(("|", "    ")):
            parts.append(part)
        elif part.startswith("- "):
            items = re.split(r"\n(?=- )", part)
            parts.append("\n".join(textwrap.fill(" ".join(i.split()), 100, subsequent_indent="  ", break_long_words=False,
                                                 break_on_hyphens=False) for i in items))
        else:
            parts.append(textwrap.fill(" ".join(part.split()), 100, break_long_words=False, break_on_hyphens=False))
    return "\n\n".join(parts) + "\n"


def measured(rows):
    """When, and beside which load."""
    days, loads = sorted({r.when for r in rows}), sorted({float(v) for r in rows for v in r.load.split("-") if v})
    text = "Measured " + (days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}")
    if loads:
        text += f", beside a load of {number(loads[0])}" + (f" to {number(loads[-1])}" if loads[-1] > loads[0] else "")
    return text + "."


def named(figure):
    return figure["what"] + (f", {figure['unit']}" if figure.get("unit") else "")


def behind(figure, rows):
    """Why we are not ahead, where we are not."""
    _, ratio = rival(figure, rows)
    ours = [r for r in rows if r.who == OURS]
    missed = "goal" in figure and any(not reached(figure, r.values) for r in ours)
    return ratio is not None and ratio < NEAR, missed


def plain(section, by):
    """A row for each figure."""
    lines, why = [], []
    for name, figure in section["of"].items():
        rows = by.get(name, [])
        if not rows:
            continue
        ours = next((r for r in rows if r.who == OURS), None)
        others = [f"{r.who} {shown(r.values)}" for r in rows if r.who != OURS]
        lines.append((named(figure), goal_of(figure, ours.values) if ours else "", shown(ours.values) if ours else "",
                      "; ".join(others), times(rival(figure, rows)[1])))
        if any(behind(figure, rows)) and "why" in figure:
            why.append(f"- **{figure['what']}**: {figure['why']}")
    head = ["", "goal", OURS, "beside it", "times better"]
    used = [n for n in range(5) if n in (0, 2) or any(line[n] for line in lines)]
    return table([head[n] for n in used], [[line[n] for n in used] for line in lines]), why


def points(section, by):
    """(figure, who) -> x -> values"""
    found = {}
    for name, figure in section["of"].items():
        for r in by.get(name, []):
            x = float(r.id.split("@")[1])
            found.setdefault((name, r.who), {})[x] = r.values
    return found


def tick(section, x):
    if section.get("ticks") == "time":
        for unit, name in ((31536000, "year"), (86400, "d"), (3600, "h"), (60, "m")):
            if x >= unit:
                return f"{number(x / unit)} {name}"
        return f"{number(x)} s"
    return number(x)


def curve_name(section, name, who, alone):
    what = section["of"][name]["what"]
    return what if who == OURS else f"{what}: {who}" if not alone else who


def curve(id, section, by):
    """A picture, and a table with a column for each x."""
    found = points(section, by)
    alone = len({name for name, _ in found}) == 1
    xs = sorted({x for p in found.values() for x in p})
    rows = []
    for (name, who), p in found.items():
        goal = section["of"][name].get("goal")
        rows.append([curve_name(section, name, who, alone) + (f" (goal {number(goal)})" if goal and who == OURS else "")]
                    + [number(statistics.median(p[x])) if x in p else "" for x in xs])
    text = f"![{section['title']}](curves/{id}.svg)\n\n"
    return text + table([section["x"]] + [tick(section, x) for x in xs], rows), []


def picture(section, by):
    found = points(section, by)
    alone = len({name for name, _ in found}) == 1
    series = [(curve_name(section, name, who, alone), p) for (name, who), p in found.items()]
    goals = {f["goal"] for f in section["of"].values() if "goal" in f}
    return bench_picture.curves(section["x"], section["y"], series, goals.pop() if len(goals) == 1 else None,
                                section.get("limit"), section.get("limit_at"), lambda x: tick(section, x))


def part(id, section, by):
    rows = [r for v in by.values() for r in v]
    text = f"### {section['title']}\n\n"
    lead = f"`{section['run']}`" if "run" in section else "Measured by hand"
    lead += (f", {section['takes']}" if "takes" in section else "") + ". "
    text += wrapped(lead + section.get("how", "") + " " + measured(rows)) + "\n"
    body, why = (curve(id, section, by) if "x" in section else plain(section, by))
    text += body
    if why:
        text += "\n" + wrapped("Not ahead, or missed:") + "\n" + wrapped("\n".join(why))
    if "limit" in section:
        text += "\n" + wrapped("**First limit**: " + section["limit"])
    if "notes" in section:
        text += "\n" + wrapped(section["notes"])
    return text


def by_figure(rows):
    """section -> figure -> rows"""
    found = {}
    for r in rows:
        section, name = r.id.split("/")
        found.setdefault(section, {}).setdefault(name.split("@")[0], []).append(r)
    return found


def middle(rows):
    return number(statistics.median(rows.values))


def measured_figures(asked, by):
    """Title of the question, section, figure, our row and all rows; of figures that are no curves."""
    for question in asked.values():
        for id, section in sections(question).items():
            for name, figure in section["of"].items() if "x" not in section else ():
                rows = by.get(id, {}).get(name, [])
                for ours in (r for r in rows if r.who == OURS):
                    yield question["question"], section, figure, ours, rows


def leading(found):
    """The table of the first screen."""
    lines, last = [], None
    for title, section, figure, ours, rows in found:
        if "lead" not in figure:
            continue
        best, ratio = rival(figure, rows)
        goal = f"goal: {goal_of(figure, ours.values)}" if "goal" in figure else ""
        lines.append((f"**{title}**" if title != last else "", f"[{figure['lead']}](#{anchor(section['title'])})",
                      f"{middle(ours)} {figure.get('unit', '')}".strip(), f"{best.who} {middle(best)}" if best else goal, times(ratio)))
        last = title
    return table(["", "", OURS, "the best of the others", "times better"], lines)


def bars(found):
    return [(figure["lead"], *rival(figure, rows)) for _, _, figure, _, rows in found if "lead" in figure and rival(figure, rows)[0]]


def losing(found):
    """Where another is better, and why."""
    for _, section, figure, ours, rows in found:
        if behind(figure, rows)[0]:
            best, _ = rival(figure, rows)
            text = f"- **{section['title']}: {named(figure)}**: {middle(ours)}, {best.who} {middle(best)}."
            yield f"{text} {figure.get('why', '')}".rstrip()


def counts(found):
    goals = [not behind(figure, rows)[1] for _, _, figure, _, rows in found if "goal" in figure]
    beside = [not behind(figure, rows)[0] for _, _, figure, _, rows in found if rival(figure, rows)[0]]
    return (f"Of {len(goals)} figures with a goal {sum(goals)} reach it. Of {len(beside)} that others can be asked for, "
            f"ascribe is as good or better in {sum(beside)}.")


def anchor(title):
    return re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")


def documents():
    """path -> text"""
    asked = questions()
    about, rows = results()
    by = by_figure(rows)
    made = {}
    found = list(measured_figures(asked, by))
    made["docs/curves/ahead.svg"] = bench_picture.bars([(w, best.who, r) for w, best, r in bars(found) if r != float("inf")])
    with open("tests/bench/figures/head.toml", "rb") as f:
        head = tomllib.load(f)
    text = "# Benchmarks\n\n" + wrapped(head["before"]) + "\n" + leading(found) + "\n" + wrapped(counts(found))
    text += "\n![Times better than the best of the others](curves/ahead.svg)\n"
    text += "\n**Not ahead:**\n\n" + wrapped("\n".join(losing(found)))
    text += "\n" + wrapped(f"Machine: {about.get('machine')}. Versions: {about.get('versions')}. " + head["after"])
    for question in asked.values():
        text += f"\n## {question['question']}\n"
        if "notes" in question:
            text += "\n" + wrapped(question["notes"])
        for id, section in sections(question).items():
            if id not in by:
                continue
            text += "\n" + part(id, section, by[id])
            if "x" in section:
                made[f"docs/curves/{id}.svg"] = picture(section, by[id])
    made["docs/benchmarks.md"] = "<!-- Made by tools/benchmarks write. -->\n" + text
    return made
