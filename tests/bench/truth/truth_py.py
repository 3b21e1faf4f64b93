# SPDX-License-Identifier: Apache-2.0
"""truth.h in Python: truth_py.py TRIALS MILLISECONDS FIRST WAY; WAY is plain, generator, task or callback."""
import asyncio
import contextlib
import random
import sys
import time

try:
    import ascribe
    label = ascribe.label
except (ImportError, OSError):
    def label(**_):
        return contextlib.nullcontext()


def rename(name):
    with open('/proc/thread-self/comm', 'w') as f:
        f.write(name)


def three(n):  # <three>
    x = n
    for i in range(n * 50):
        x = (x * 31 + i) % 65521
    return x  # </three>


def one(n):  # <one>
    x = n
    for i in range(n * 50):
        x = (x * 33 + i) % 65521
    return x  # </one>


def timed_three(n):
    begin = time.thread_time()
    three(n)  # calls three
    took[0] += time.thread_time() - begin
    return n


def timed_one(n):
    begin = time.thread_time()
    one(n)  # calls one
    took[1] += time.thread_time() - begin
    return n


def plain(part, n):
    return part(n) + 1


def by_generator(part, n):
    yield part(n)


def generator(part, n):
    return sum(by_generator(part, n))


async def by_task(part, n):
    return part(n) + 1


def task(part, n):
    return loop.run_until_complete(by_task(part, n))


def callback(part, n):
    return sorted([n], key=part)


def run(by, n):
    with label(part='three'):
        by(timed_three, 3 * n)
    with label(part='one'):
        by(timed_one, n)


def trials(n, seconds, first, by):
    chance = random.Random(first)
    for i in range(first, first + n):
        took[:] = 0.0, 0.0
        rename(f'truth.{i}')
        begin = time.thread_time()
        while time.thread_time() - begin < seconds:
            run(by, chance.randrange(20, 100))
        spent = time.thread_time() - begin
        rename('rest')
        print(f'truth.{i} {took[0]:.9f} {took[1]:.9f} {spent:.9f}')


took = [0.0, 0.0]
loop = asyncio.new_event_loop()
trials(int(sys.argv[1]), float(sys.argv[2]) / 1e3, int(sys.argv[3]), globals()[sys.argv[4]])
