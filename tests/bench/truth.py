#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""truth.py BUILD [PATTERN]: are stacks, names, shares, lines and labels right? As root.

Programs of many languages and builds know their own truth (truth/programs.py). They run under
`ascribe record`, `perf record -g` and `perf record --call-graph dwarf`, one after the other. Each
program has some 16 trials, and its thread has another name in each. Of a trial the program knows,
by its thread's CPU clock, which share of it was spent in three().

  named    samples that have three() or one() in their stack, of those that the truth expects there
  rooted   samples whose stack begins with a function that is the program's root
  whole    samples in three() or one() whose callers are those of the source, all of them
  share    three(), of all trials: as the program says, and as it was seen
  inside   trials whose true share is in the 95% interval: of `ascribe report`, or of perf's samples
  lines    frames of three() and one() within these functions, and their caller at the line of the call
  labels   samples in three() and one() whose label `part` says so

PATTERN chooses programs. Exit status 1: what must run did not."""
import concurrent.futures
import glob
import json
import math
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE + '/truth')
import programs
import stacks

build = os.path.realpath(sys.argv[1])
directory = build + '/bench/truth'
ascribe = build + '/ascribe'
env = dict(os.environ, SRC=HERE + '/truth', ROOT=os.path.realpath(HERE + '/../..'), BUILD=build)
WORKERS = os.cpu_count()
EVERY = programs.programs()
# Build ids in mappings: without them Linux mixes up perf's records with those of a recorder that has them.
PERF = ['perf', 'record', '-q', '--buildid-mmap', '-N', '-F', '999', '-e', 'cpu-clock', '-k', 'CLOCK_MONOTONIC']
TOOLS = {'ascribe': [ascribe, 'record', '-q', '-F', '999', '-e', 'cpu-clock', '-o', 'ascribe.data', '--'],
         'perf -g': [*PERF, '-g', '-o', 'fp.data', '--'],
         'perf dwarf': [*PERF, '--call-graph', 'dwarf', '-o', 'dwarf.data', '--']}
FILES = {'perf -g': 'fp.data', 'perf dwarf': 'dwarf.data'}


def in_parallel(work, items):
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(work, items))


def home(number):
    return directory + '/' + re.sub(r'\W+', '-', EVERY[number].name)


def shell(command, cwd, **more):
    return subprocess.run(['sh', '-ec', command], cwd=cwd, env=env, capture_output=True, text=True, timeout=300,
                          errors='replace', **more)


def make(item):
    """Build a program, if that was not done; say why it cannot run."""
    number, program = item
    absent = programs.missing(program)
    if absent:
        return 'needs ' + ', '.join(absent)
    stamp = home(number) + '/built'
    newest = max(os.path.getmtime(p) for p in glob.glob(HERE + '/truth/*.*') if not p.endswith('.py'))
    if os.path.exists(stamp) and os.path.getmtime(stamp) > newest and open(stamp).read() == program.build:
        return None
    shutil.rmtree(home(number), ignore_errors=True)
    os.makedirs(home(number))
    done = shell(program.build, home(number))
    if done.returncode:
        return f'build: {(done.stderr or done.stdout).strip()[-300:]}'
    with open(stamp, 'w') as f:
        f.write(program.build)


def drive(tool):
    """Run all programs; this is what a tool records."""
    def one(item):
        number, program = item
        text = ''
        for run in range(program.runs):
            first = number * 100 + run * program.trials
            command = program.run.replace('FIRST', str(first)).replace('ARGS', f'{program.trials} {program.ms} {first}')
            done = shell(command, home(number))
            text += done.stdout
            if done.returncode:
                text += f'failed {done.returncode} {done.stderr.strip()[-200:]}\n'
        with open(f'{home(number)}/{tool}.truth', 'w') as f:
            f.write(text)
    wanted = json.load(open(directory + '/wanted.json'))
    in_parallel(one, [(n, p) for n, p in enumerate(EVERY) if n in wanted])


def wilson(k, n, z=1.959964):
    if not n:
        return 0, 1
    p, d = k / n, 1 + z * z / n
    middle, half = (p + z * z / 2 / n) / d, z / d * math.sqrt(p * (1 - p) / n + z * z / 4 / n / n)
    return middle - half, middle + half


def reported(thread):
    """The interval that `ascribe report` prints for three() in a trial."""
    done = subprocess.run([ascribe, 'report', 'ascribe.data', '--where', f'{{thread="{thread}"}}', '--json', '-n', '0'], cwd=directory,
                          capture_output=True, text=True)
    rows = [r for r in json.loads(done.stdout or '{"rows": []}')['rows'] if stacks.bare(r.get('function', '')) == 'three']
    row = max(rows, key=lambda r: r['samples'], default=None)
    return (row['low'], row['high']) if row else wilson(0, json.loads(done.stdout or '{"samples": 0}')['samples'])


def truths(number, tool):
    """thread -> (three, one, all), in seconds; and the files that the program left."""
    trials, files, failed = {}, [], None
    for line in open(f'{home(number)}/{tool}.truth'):
        word = line.split()
        if word[:1] == ['failed']:
            failed = line.strip()
        elif word[:1] == ['file']:
            files.append(os.path.join(home(number), word[1]))
        elif re.match(r'truth\.\d+ [0-9.]+ [0-9.]+ [0-9.]+$', line):
            trials[word[0]] = tuple(map(float, word[1:]))
    return trials, files, failed


def span(source, what):
    """First and last line of a function."""
    lines = open(HERE + '/truth/' + source).read().split('\n')
    return [next(i for i, text in enumerate(lines, 1) if mark in text) for mark in (f'<{what}>', f'</{what}>')]


def call_line(source, what):
    return next(i for i, text in enumerate(open(HERE + '/truth/' + source), 1) if f'calls {what}' in text)


def right_lines(program, frames):
    """None where the function is not in the stack."""
    at = next((i for i in reversed(range(len(frames))) if frames[i][0] in ('three', 'one')), None)
    if at is None:
        return None
    name, file, line = frames[at]
    first, last = span(program.source, name)
    good = file == program.source and first <= line <= last
    if good and program.caller:
        caller = next((f for f in frames[:at][::-1] if f[0] in ('run', 'timed_' + name)), None)
        good = caller is None or caller[1:] == (program.caller, call_line(program.caller, name))
    return good


def judge(program, trials, samples, inside):
    """Counts of one program in one recording."""
    n = dict.fromkeys(('samples', 'expected', 'named', 'rooted', 'whole', 'lines', 'labels', 'mislabelled', 'trials',
                       'inside', 'three'), 0)
    n['truth'] = sum(t[0] for t in trials.values()) / max(sum(t[2] for t in trials.values()), 1e-9)
    bad = {}
    for thread, (three, one, every) in trials.items():
        here = samples.get(thread, [])
        total = sum(s[0] for s in here)
        hits = 0
        for count, frames, part in here:
            names = [f[0] for f in frames]
            text = ';'.join(names)
            n['rooted'] += count * any(re.fullmatch(program.root, f) for f in names[:4])
            mark = 'three' if 'three' in names else 'one' if 'one' in names else None
            if not mark:
                bad[text] = bad.get(text, 0) + count
                continue
            hits += count * (mark == 'three')
            n['named'] += count
            good = re.search(program.chain, text)
            n['whole'] += count * bool(good)
            if not good:
                bad[text] = bad.get(text, 0) + count
            n['lines'] += count * bool(program.lines and right_lines(program, frames))
            n['labels'] += count * (part == mark)
            n['mislabelled'] += count * (part not in (mark, None))
        low, high = inside(thread, hits, total)
        n['samples'] += total
        n['three'] += hits
        n['expected'] += total * (three + one) / every
        n['trials'] += 1
        n['inside'] += low <= three / every <= high
    return n, sorted(bad.items(), key=lambda x: -x[1])[:4]


def percent(part, whole):
    return f'{min(100, 100 * part / whole):.1f}' if whole else '-'


def record(run):
    """Run the programs under each tool: the tools that did not end well."""
    for file in (*glob.glob(directory + '/*.data*'), *glob.glob(directory + '/*/*.truth')):
        shutil.rmtree(file) if os.path.isdir(file) else os.remove(file)
    json.dump([n for n, _ in run], open(directory + '/wanted.json', 'w'))
    failed = []
    for tool, command in TOOLS.items():
        if not shutil.which(command[0]):
            print(f'{tool}: not run: needs {command[0]}')
            continue
        done = subprocess.run([*command, sys.executable, os.path.realpath(__file__), build, '--drive', tool], cwd=directory)
        if done.returncode:
            print(f'{tool}: exit status {done.returncode}')
            failed.append(tool)
    return failed


def read():
    """tool -> thread -> samples"""
    subprocess.run(['protoc', '--python_out', directory, '-I', env['ROOT'] + '/user/export', 'profile.proto'], check=True)
    subprocess.run([ascribe, 'export', 'ascribe.data', '--format', 'pprof', '-o', 'all.pb.gz'], cwd=directory, check=True,
                   stderr=subprocess.DEVNULL)
    found = {'ascribe': stacks.of_ascribe(directory + '/all.pb.gz', directory)}
    for tool, file in FILES.items():
        if os.path.exists(f'{directory}/{file}'):
            subprocess.run(['perf', 'inject', '--jit', '-i', file, '-o', file + '.jit'], cwd=directory, stderr=subprocess.DEVNULL)
            found[tool] = stacks.of_perf(f'{directory}/{file}.jit')
            os.remove(f'{directory}/{file}.jit')
    return found


def remove(paths):
    for path in {p for p in paths if os.path.exists(p)}:
        os.remove(path)
        if not os.listdir(os.path.dirname(path)):
            os.rmdir(os.path.dirname(path))


def main():
    pattern = re.compile(sys.argv[2] if len(sys.argv) > 2 else '')
    os.makedirs(directory, exist_ok=True)
    every = [(n, p) for n, p in enumerate(EVERY) if pattern.search(p.name)]
    why = dict(zip([n for n, _ in every], in_parallel(make, every)))
    broken = any(w and w.startswith('build: ') for w in why.values())
    run = [(n, p) for n, p in every if not why[n]]
    broken |= bool(record(run))
    found = read()
    threads = [t for n, _ in run for t in truths(n, 'ascribe')[0]]
    intervals = dict(zip(threads, in_parallel(reported, threads)))
    results, left = {}, []
    for number, program in run:
        for tool in found:
            trials, files, failed = truths(number, tool)
            left += files
            if failed or len(trials) < program.runs * program.trials:
                why[number] = f'{tool}: {failed or "trials are missing"}'
                broken = True
            inside = (lambda t, k, n: intervals[t]) if tool == 'ascribe' else (lambda t, k, n: wilson(k, n))
            results[number, tool] = judge(program, trials, found[tool], inside)
    table(every, why, results)
    sums(every, results)
    remove(left)
    json.dump({p.name: {t: results[n, t] for t in found if (n, t) in results} for n, p in every},
              open(directory + '/results.json', 'w'), indent=1)
    print(f'stacks that differ most: {directory}/results.json')
    return broken


def table(every, why, results):
    print(f'{"program":38} samples  named rooted  whole  share seen [inside]      lines labels | perf -g: named rooted whole'
          ' | dwarf: named rooted whole')
    for number, program in every:
        if (number, 'ascribe') not in results:
            print(f'{program.name:38} not run: {why[number]}')
            continue
        n, _ = results[number, 'ascribe']
        text = (f'{program.name:38} {n["samples"]:7} {percent(n["named"], n["expected"]):>6} {percent(n["rooted"], n["samples"]):>6} '
                f'{percent(n["whole"], n["named"]):>6}  {n["truth"]:.3f} {n["three"] / max(n["samples"], 1):.3f} '
                f'[{n["inside"]:2}/{n["trials"]:2}] {percent(n["lines"], n["named"]) if program.lines else "-":>9} '
                f'{percent(n["labels"], n["named"]) if program.labels else "-":>6} ')
        for tool in FILES:
            m, _ = results.get((number, tool), ({}, 0))
            text += '|' + (f' {percent(m["named"], m["expected"]):>6} {percent(m["rooted"], m["samples"]):>6} '
                           f'{percent(m["whole"], m["named"]):>6} ' if m else '-')
        print(text + (f' {why[number]}' if why[number] else ''))


def sums(every, results):
    whole_run = len(sys.argv) == 2
    for tool in TOOLS:
        rows = [r for (n, t), (r, _) in results.items() if t == tool]
        if not rows:
            continue
        most = {k: sum(r[k] >= 0.97 * r[of] > 0 for r in rows)
                for k, of in (('named', 'expected'), ('rooted', 'samples'), ('whole', 'expected'))}
        named = [r for r in rows if r['named'] >= 0.97 * r['expected'] > 0]
        inside, trials = sum(r['inside'] for r in named), sum(r['trials'] for r in named)
        for what, n in (*most.items(), ('inside', 100 * inside / max(trials, 1))) if whole_run else ():
            print('figure', 'truth/' + what, tool, n, sep='\t')
        print(f'{tool}: of {len(rows)} programs, 97% of the samples are named in {most["named"]}, rooted in {most["rooted"]}, named with '
              f'all callers in {most["whole"]}; of the named ones {inside} of {trials} trials ({100 * inside / max(trials, 1):.1f}%) '
              'are inside the interval')
    ours = [(EVERY[n], r) for (n, t), (r, _) in results.items() if t == 'ascribe']
    for what, word in ('lines', 'right lines'), ('labels', 'right labels'):
        rows = [r for p, r in ours if getattr(p, what)]
        print('figure', 'truth/' + what, 'ascribe', percent(sum(r[what] for r in rows), sum(r['named'] for r in rows)), sep='\t')
        print(f'{word}: {percent(sum(r[what] for r in rows), sum(r["named"] for r in rows))}% of {sum(r["named"] for r in rows)} samples')
    print('figure', 'truth/other', 'ascribe', sum(r['mislabelled'] for _, r in ours), sep='\t')
    print(f'labels of another part: {sum(r["mislabelled"] for _, r in ours)} samples')
    print(f'not run: {sum((n, "ascribe") not in results for n, _ in every)} of {len(every)} programs')


if __name__ == '__main__':
    if sys.argv[2:3] == ['--drive']:
        drive(sys.argv[3])
    else:
        sys.exit(main())
