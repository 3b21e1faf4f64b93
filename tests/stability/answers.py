#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""answers.py record ASCRIBE DIR: ask a program about the stores in DIR. Print for each question the
members of the answer, each with its types, and sums with their values.
answers.py compare ASCRIBE DIR FILE: ask again what FILE has. Print what each answer had and today's
has not. Of the store `fresh`, which is another one each time, no sum is printed.
docs/stability.md has the rules."""
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.parse

COMMANDS = [
    'report S --where {comm="labelled"} -n 5',
    'report S --by tenant', 'report S --by tenant --exact', 'report S --by comm -n 2',
    'report S --step 10s --by tenant', 'report S --metric off --by tenant',
    'report S --metric runq --by comm -n 3', 'report S --metric off -n 3',
    'report S --metric wall -n 3', 'report S --metric waker -n 3',
    'labels S', 'labels S tenant', 'stat S',
    'diff S --where {tenant="a"} --against {tenant="b"} -n 3',
    'diff S --where {tenant="a"} --against {tenant="b"} --by comm -n 3',
    'why S --where {tenant!=""}', 'findings S',
    'blame S --by comm -n 3', 'blame S --by comm --wakers -n 3', 'blame S --by comm --locks',
    'top --store S --once --by tenant -n 3',
]
PATHS = [
    'labels', 'values?key=tenant', 'series?by=tenant&step=10s', 'flame?where={comm="labelled"}',
    'table?by=tenant', 'table?by=function&limit=3', 'diff?where={tenant="a"}&against={tenant="b"}',
    'why?where={tenant!=""}', 'findings', 'blame?by=comm&limit=3', 'stat',
    'histogram?metric=off&by=comm&limit=2', 'heatmap',
]
# Members that are the same of the same store, whichever version answers.
SUMS = ('.fired', '.stored', '.samples', '.seconds', '.event', '.unit')
# Members by names that the recording has: only what each is.
MAPS = ('lost', 'flagged', 'flagged_of', 'metrics')
TYPES = {bool: 'boolean', int: 'integer', float: 'number', str: 'string', type(None): 'null',
         dict: 'object', list: 'array'}


class Server:
    """`ascribe serve` on a Unix socket."""

    def __init__(self, ascribe, store):
        self.path = tempfile.mktemp()
        self.process = subprocess.Popen([ascribe, 'serve', store, '-l', 'unix:' + self.path],
                                        stderr=subprocess.DEVNULL)
        for _ in range(400):
            if os.path.exists(self.path):
                return
            time.sleep(0.05)
        sys.exit('answers.py: the server does not begin')

    def get(self, question):
        path, _, query = question.partition('?')
        query = urllib.parse.quote(query, safe='=&')
        return run(['curl', '-gsS', '--max-time', '20', '--unix-socket', self.path,
                    f'http://x/api/v1/{path}?{query}'])

    def end(self):
        self.process.kill()
        self.process.wait()


def run(command):
    """The JSON that a command prints; None where it has none."""
    done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        return None
    return None if 'code' in answer and 'message' in answer else answer


def ask(ascribe, directory, store, question, server):
    path = os.path.join(directory, store)
    if question.startswith('/'):
        return server.get(question[1:])
    words = [path if word == 'S' else word for word in question.split(' ')]
    return run([ascribe, *words, '--json'])


def members(value, path=''):
    """The paths of what is in a value, each with its type."""
    yield path, TYPES[type(value)]
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from members(inner, path + '.' + ('*' if path.endswith(MAPS) else key))
    elif isinstance(value, list):
        for inner in value:
            yield from members(inner, path + '[]')


def describe(answer, sums):
    """Lines of a path, its types and, of a sum, the value."""
    types = {}
    for path, kind in members(answer):
        types.setdefault(path, set()).add(kind)
    for path, kinds in types.items():
        value = [json.dumps(answer[path[1:]])] if sums and path in SUMS else []
        yield '\t'.join([path or '.', '|'.join(sorted(kinds)), *value])


def record(ascribe, directory):
    for store in sorted(os.listdir(directory)):
        server = Server(ascribe, os.path.join(directory, store))
        for question in COMMANDS + ['/' + path for path in PATHS]:
            answer = ask(ascribe, directory, store, question, server)
            if answer is not None:
                print(f'{store}\t{question}', *describe(answer, store != 'fresh'), '', sep='\n')
        server.end()
    return 0


def lacks(old, new):
    """What a line of a recorded answer has that no line of the new one has."""
    path, kinds, *value = old.split('\t')
    if path not in new:
        return f'{path} is gone'
    # A null said nothing of the type, and whole numbers may be printed without a point.
    have = set(new[path][0].split('|'))
    have |= {'number'} if 'integer' in have else set()
    if set(kinds.split('|')) - {'null'} - have:
        return f'{path} was {kinds}, is {new[path][0]}'
    if value and new[path][1:] != value and (
            kinds != 'number' or abs(float(value[0]) - float(new[path][1])) > 1e-6):
        return f'{path} was {value[0]}, is {new[path][1]}'
    return None


def compare(ascribe, directory, recorded):
    servers, failed, asked = {}, 0, 0
    with open(recorded, encoding='utf-8') as file:
        blocks = file.read().strip().split('\n\n')
    for block in blocks:
        head, *lines = block.split('\n')
        store, question = head.split('\t')
        if store not in servers:
            servers[store] = Server(ascribe, os.path.join(directory, store))
        answer = ask(ascribe, directory, store, question, servers[store])
        new = {}
        if answer is not None:
            new = {line.split('\t')[0]: line.split('\t')[1:]
                   for line in describe(answer, store != 'fresh')}
        wrong = [text for text in (lacks(line, new) for line in lines) if text]
        for text in wrong if new else ['no answer']:
            print(f'{store}: {question}: {text}')
        asked += 1
        failed += bool(wrong)
    for server in servers.values():
        server.end()
    print(f'{asked} answers, {failed} lack something')
    return 1 if failed or not asked else 0


sys.exit({'record': record, 'compare': compare}[sys.argv[1]](*sys.argv[2:]))
