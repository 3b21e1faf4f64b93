# SPDX-License-Identifier: Apache-2.0
"""Stacks of a recording by ascribe (pprof) and by perf (text): for each thread name the samples, as (count, frames, part).
Frames stand from the root to the leaf, each as (bare name, file, line); `part` is the label of that key."""
import collections
import gzip
import re
import subprocess
import sys

SUFFIXES = re.compile(r'(\.(constprop|isra|part|cold|llvm|lto_priv|abi0|localalias)(\.\d+)*|@.*|::h[0-9a-f]{16}|'
                      r'\+0x[0-9a-f]+|_\[[ijk]\]| \(inlined\)|\(inlined\))+$')
WORDS = ('three', 'one', 'by', 'run', 'trials', 'main')
known = {}


def bare(name):
    """The function's own name: without arguments, scopes, and what compilers add."""
    if name not in known:
        known[name] = find_bare(name)
    return known[name]


def find_bare(name):
    if '+0x' in name or name.startswith('['):
        return name  # it has none
    text = SUFFIXES.sub('', name.replace('(anonymous namespace)::', ''))
    if re.match(r'_[DRZ]', text):  # mangled: an identifier comes with its length
        return next((w for w in WORDS if f'{len(w)}{w}' in text), text)
    if re.match(r'(P\$TRUTH_\$\$_|p\$truth_\$\$_)', text):  # Pascal
        return text.split('_$$_')[1].split('$')[0].lower()
    text = re.sub(r'^caml\w+?(__|\.)(\w+?)_\d+$', r'\2', text)  # OCaml
    text = re.sub(r'^__parts_MOD_|^parts_ada__', '', text)  # Fortran, Ada
    if text.startswith('<') and text.endswith('>') or text.startswith('{'):
        return text  # <module>, {main}, {closure}
    text = text.split('(')[0].split(' ')[-1]
    return re.split(r'::|\.|#', text)[-1] or text


def of_ascribe(path, schema):
    """A file in pprof's format; `schema` is the directory of the module that protoc made of it."""
    sys.path.insert(0, schema)
    import profile_pb2
    p = profile_pb2.Profile()
    p.ParseFromString(gzip.open(path).read())
    text = [t.decode(errors='replace') for t in p.string_table]
    function = {f.id: (bare(text[f.name]), text[f.filename].rsplit('/', 1)[-1]) for f in p.function}
    location = {loc.id: [(*function[line.function_id], line.line) for line in reversed(loc.line)] for loc in p.location}
    found = collections.defaultdict(list)
    at = [text[t.type] for t in p.sample_type].index('samples')
    for s in p.sample:
        label = {text[v.key]: text[v.str] for v in s.label}
        if label.get('thread', '').startswith('truth.'):
            frames = [f for i in reversed(s.location_id) for f in location[i]]
            found[label['thread']].append((s.value[at], frames, label.get('part')))
    return found


def of_perf(path):
    """A perf.data file."""
    found, frames, thread = collections.defaultdict(list), [], None
    script = subprocess.Popen(['perf', 'script', '-i', path, '--no-inline', '-F', 'comm,tid,ip,sym,dso'], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, errors='replace')
    for line in script.stdout:
        if not line.strip():
            if thread and thread.startswith('truth.'):
                found[thread].append((1, frames[::-1], None))
            thread, frames = None, []
        elif thread is None:
            thread = line.split()[0]
        elif thread.startswith('truth.'):
            m = re.match(r'\s*[0-9a-f]+ (.*) \((.*)\)$', line.rstrip('\n'))
            frames.append((bare(m[1]) if m else '', '', 0))
    script.wait()
    return found
