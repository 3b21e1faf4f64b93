# SPDX-License-Identifier: Apache-2.0
"""unwind.py callers FOLDED | chains FOLDED STAT CHAIN [copied] | whole FOLDED PATTERN LEAST SHARE [OWN] | roots STAT SHARE [FOLDED] | edges FOLDED PERF STAT REPORT: are the stacks whole?

callers: of goframes.go; all callers of the functions that have no frame, or not yet, or no longer.
chains: CHAIN is what every stack with leaf in it must read from main on (a regular expression).
copied: but for those that were unwound from a copy, which holds one stack and not what a signal
handler on another one interrupted.
roots: the share of stacks that reach their root, of those that had rules. Not counted are those of
FOLDED that were taken inside execve, where the old stack is gone and the new one empty.
edges: FOLDED (accounting in STAT, functions in REPORT) against `perf script` of the same load: who
calls whom, by share of the samples."""
import collections
import json
import re
import sys

ENDS = ('rooted', 'truncated', 'unwind_no_rule', 'unwind_fault', 'unwind_no_mapping', 'unwind_broken', 'frame_pointers',
        'no_user_stack')


EVAL = '_PyEval_EvalFrameDefault'


def folded(path):
    for line in open(path):
        stack, n = line.rstrip('\n').rsplit(' ', 1)
        yield [f for f in stack.split(';')[1:] if not f.endswith('_[i]')], int(n)  # inlined calls are no frames of their own


def chains(path, stat, chain, copied=None):
    flagged = json.load(open(stat))['flagged']
    total = good = 0
    bad = collections.Counter()
    for stack, n in folded(path):
        stack = [f for f in stack if not f.endswith('_[k]')]
        if 'leaf' not in stack:
            continue
        text = ';'.join(stack)
        total += n
        if re.search('(^|;)' + chain + ';leaf$', text):
            good += n
        else:
            bad[text] += n
    print(good, 'of', total, 'as written;', flagged['frame_pointers'], 'before the rules were there', dict(bad.most_common(2)))
    # A page of a stack that is not in memory ends it, and so does a library whose rules come after the program's. Both are
    # flagged.
    allowed = flagged['frame_pointers'] + (flagged['copied'] if copied else 0) + total // 500
    ends = flagged['unwind_fault'] + flagged['unwind_no_rule']
    allowed += min(ends, 1 + total // 200)
    assert total > 40 and total - good <= allowed, (
        f'{total} samples, {total - good} of them not as written; more than 40 and at most {allowed} are expected', bad.most_common(5),
        {k: n for k, n in flagged.items() if n})


CALLERS = {'main.framed': 'main.calls', 'main.frameless': 'main.calls;main.framed', 'runtime.duffzero': 'main.calls;main.framed',
           'main.moves': 'main.copies', 'runtime.memmove': 'main.copies;main.moves', 'time.now': 'main.stamps;time.Now',
           '__vdso_clock_gettime': 'main.stamps;time.Now;time.now'}


def callers(path):
    seen, bad = collections.Counter(), collections.Counter()
    for stack, n in folded(path):
        # Since Go 1.23 time.runtimeNow is in between.
        stack = [f.removesuffix('.abi0') for f in stack if not f.endswith('_[k]') and f != 'time.runtimeNow']
        if not stack or stack[-1] not in CALLERS:
            continue
        seen[stack[-1]] += n
        if ';'.join(stack[:-1]) != 'runtime.goexit;runtime.main;main.main;' + CALLERS[stack[-1]]:
            bad[';'.join(stack)] += n
    print(dict(seen), 'wrong:', dict(bad.most_common(5)))
    total = sum(seen.values())
    seen['time.now'] += seen['__vdso_clock_gettime']  # where its time is depends on the clock
    assert all(seen[f] for f in CALLERS if f != '__vdso_clock_gettime') and total > 300, seen
    assert sum(bad.values()) <= total // 100, bad.most_common(5)


def whole(path, pattern, least, share, own='main|leaf|burn|late_.|before|after'):
    """Of the stacks of a program's own code, that is with one of these functions in them, so many read so from the root on."""
    total = good = 0
    bad = collections.Counter()
    for stack, n in folded(path):
        text = ';'.join(f for f in stack if not f.endswith('_[k]'))
        if not re.search('(^|;)(' + own + ')(;|$)', text):
            continue
        if re.search('(^|;)(by_dlopen|main);(?!burn|by_|before_exec|leaf)[^;]*(dl|exec|so)', text) or re.search('(mmap|mprotect)', text):
            continue  # the loader at work
        total += n
        if re.match('(' + pattern + ')(;|$)', text):
            good += n
        else:
            bad[text] += n
    print(good, 'of', total, 'as written', dict(bad.most_common(3)))
    assert total >= int(least) and good >= float(share) * total, bad.most_common(5)


def roots(stat, share, path=None):
    s = json.load(open(stat))
    f = s['flagged']
    known = s['stored'] - f['frame_pointers'] - f['no_user_stack']
    if path:
        known -= sum(n for stack, n in folded(path) if 'bprm_execve_[k]' in stack)
    whole = f['rooted'] + f['truncated']
    print(f"{whole} of {known} whole, {f['frame_pointers']} before the rules were there",
          {k: f[k] for k in ENDS if f[k]})
    assert sum(f[k] for k in ENDS) == s['stored'], 'every stack has one end'
    # The share is that of many samples: of few, three standard deviations more may be without their root.
    least = float(share) * known - 3 * (known * float(share) * (1 - float(share))) ** 0.5
    assert known > 50 and whole >= least, f'{whole} of {known} stacks reach their root, {least:.0f} are expected'


def name(frame):
    """The function; for one without a name, its file."""
    frame = re.sub(r'\+0x[0-9a-f]+$', '', frame)
    return frame.split('@')[0]


def perf_stacks(path, names):
    """perf may find more names than we do (separate debug files): a name that we do not have stands for its file."""
    stack = []
    for line in open(path):
        m = re.match(r'\s+[0-9a-f]+ (.*) \((.*)\)$', line)
        if m:
            sym, dso = m.groups()
            if dso == '[kernel.kallsyms]' or sym.endswith('(inlined)'):
                continue
            stack.append(name(sym) if name(sym) in names else dso.rsplit('/', 1)[-1])
        elif stack:
            yield stack[::-1], 1
            stack = []
    if stack:
        yield stack[::-1], 1


def edge_shares(stacks):
    edges, total, rooted = collections.Counter(), 0, 0
    for stack, n in stacks:
        if not stack:
            continue
        total += n
        rooted += n * ('_start' in stack[:1] or 'main' in stack[:5] or '__libc_start_main' in stack[:3])
        for e in set(zip(stack, stack[1:])):
            edges[e] += n
    return {e: n / total for e, n in edges.items()}, total, rooted / total


def native(stack, python):
    """As perf sees it: the interpreter's loop where we have the Python frames that it runs."""
    loop = [EVAL if f in python else f for f in stack]
    return [f for i, f in enumerate(loop) if f != EVAL or loop[i - 1:i] != [EVAL]]


def edges(path, perf, stat, report):
    python = {r['function'] for r in json.load(open(report))['rows'] if r['module'] == '[python]'}
    stacks = [([name(f) for f in native(s, python) if not f.endswith('_[k]')], c) for s, c in folded(path)]
    ours, n, rooted = edge_shares(stacks)
    theirs, m, perf_rooted = edge_shares(perf_stacks(perf, {f for s, _ in stacks for f in s}))
    early = json.load(open(stat))['flagged']['frame_pointers']
    rooted *= n / (n - early)
    # Two samplings of one load differ by chance: 4 standard deviations of a difference of shares, and a percent for the load itself.
    far = [(e, round(ours.get(e, 0), 3), round(theirs.get(e, 0), 3)) for e in set(ours) | set(theirs)
           if abs(ours.get(e, 0) - theirs.get(e, 0)) >
           0.01 + 4 * (max(ours.get(e, 0), theirs.get(e, 0)) * (1 / n + 1 / m)) ** 0.5]
    shared = sum(min(v, theirs.get(e, 0)) for e, v in ours.items()) / sum(theirs.values())
    print(f'{n} samples, {100 * rooted:.1f}% rooted; perf: {m}, {100 * perf_rooted:.1f}%; {len(ours)} and {len(theirs)} edges, '
          f'{100 * shared:.1f}% of the weight shared, {len(far)} apart')
    assert n > 200 and m > 100 and rooted >= perf_rooted - 0.02 and not far, (rooted, perf_rooted, far[:10])


{'callers': callers, 'chains': chains, 'whole': whole, 'roots': roots, 'edges': edges}[sys.argv[1]](*sys.argv[2:])
