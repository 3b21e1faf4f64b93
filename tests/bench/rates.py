# SPDX-License-Identifier: Apache-2.0
"""rates.py BUILD PART...: what a recorder of the host costs as something grows, as root.

switches  context switches a second, by record --wall
short     short processes a second, by record
cpus      CPUs, by daemon --claim-cpus: tables for so many CPUs, of which all but those of this host
          stay empty

A recorder runs in a cgroup of its own. Counted are its CPU time and its children's, and that of its
BPF programs, from a second after its start on. RUNS=3 SECONDS_EACH=8.
"""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

build = os.path.realpath(sys.argv[1])
runs, seconds = int(os.environ.get('RUNS', 3)), int(os.environ.get('SECONDS_EACH', 8))
directory = tempfile.mkdtemp()
mounts = [line.split()[1] for line in open('/proc/mounts') if line.split()[2] == 'cgroup2']
group = (mounts or sys.exit('rates: no cgroup v2 filesystem is mounted; mount one'))[0] + f'/ascribe-rates-{os.getpid()}'


def figure(id, value):
    print('figure', id, 'ascribe', f'{value:.6g}', sep='\t', flush=True)


def bpf_s(pid):
    """Of the programs whose descriptors the recorder has."""
    ns = {}
    for path in glob.glob(f'/proc/{pid}/fdinfo/*'):
        try:
            text = open(path).read()
        except OSError:
            continue
        found = re.search(r'^prog_id:\s*(\d+)', text, re.M), re.search(r'^run_time_ns:\s*(\d+)', text, re.M)
        if all(found):
            ns[found[0][1]] = int(found[1][1])
    return sum(ns.values()) / 1e9


def used(pid):
    return int(re.search(r'usage_usec (\d+)', open(group + '/cpu.stat').read())[1]) / 1e6 + bpf_s(pid)


def record(options, load=None):
    """Percent of a CPU; the seconds until recording began; what `stat` says; what the load printed."""
    store = directory + '/store'
    beside = subprocess.Popen([*load, str(seconds + 4)], cwd=directory, stdout=subprocess.PIPE, text=True) if load else None
    begun = time.monotonic()
    enter = lambda: open(group + '/cgroup.procs', 'w').write(str(os.getpid()))
    command = ['record', '-a', '-o', store] if '--claim-cpus' not in options else ['daemon', '-s', store, '-l', f'unix:{directory}/socket']
    p = subprocess.Popen([build + '/ascribe', *command, *options], stderr=subprocess.PIPE, text=True, preexec_fn=enter)
    for line in p.stderr:
        if re.match('ascribe: (recording|.* on unix:)', line):
            break
    start = time.monotonic() - begun
    time.sleep(1)
    before, at = used(p.pid), time.monotonic()
    time.sleep(seconds)
    percent = 100 * (used(p.pid) - before) / (time.monotonic() - at)
    p.send_signal(signal.SIGINT)
    p.stderr.read()
    if p.wait():
        sys.exit(f'rates: record {" ".join(options)} ended with {p.returncode}')
    said = beside.communicate()[0] if beside else ''
    stat = json.loads(subprocess.check_output([build + '/ascribe', 'stat', store, '--json']))
    return percent, start, stat, said, store


def lost(stat):
    """Percent of what fired, but for what the host had no time for."""
    return 100 * sum(v for k, v in stat['lost'].items() if not k.endswith('not_run')) / max(stat['fired'], 1)


def switches():
    for rate in os.environ.get('SWITCHES', '1000 10000 100000 300000 1000000').split():
        percent, _, stat, said, store = record(['--wall', '-F', '19'], [build + '/bench/switches', rate])
        figure(f'switches/wall@{rate}', percent)
        print(f'{rate} switches a second: {said.strip()} there were; lost {lost(stat):.3f}%')
        shutil.rmtree(store)


def short():
    shutil.copy(build + '/tests/record/storm', directory + '/storm')
    for rate in os.environ.get('SHORT', '0 100 500 1000 2000 5000').split():
        percent, _, stat, said, store = record(['-F', '99'], ['./storm', 'launch', rate] if rate != '0' else None)
        figure(f'short/cpu@{rate}', percent)
        print(f'{rate} processes a second: {said.strip()} there were; lost {lost(stat):.3f}%')
        rows = json.loads(subprocess.check_output([build + '/ascribe', 'report', store, '--by', 'comm,exe', '-n', '0', '--json'],
                                                  stderr=subprocess.DEVNULL))['rows']
        ours = [r for r in rows if re.match('p_[0-7]$', r['key'].get('comm') or '')]
        if ours:
            n = sum(r['samples'] for r in ours)
            figure(f'short-missing/exe@{rate}', 100 * sum(r['samples'] for r in ours if not r['key'].get('exe')) / n)
        shutil.rmtree(store)


def cpus():
    for n in os.environ.get('CPUS', '2 8 32 128 512').split():
        percent, start, stat, _, store = record(['-F', '997', '--claim-cpus', n])
        own = stat['own']
        drain = own['metrics']['ascribe_drain_seconds']['quantiles']
        figure(f'cpus/start@{n}', start)
        figure(f'cpus/drain@{n}', drain['0.5'] / 1e9)
        figure(f'cpus/longest@{n}', drain['1'] / 1e9)
        figure(f'cpus/cpu@{n}', percent / 100)
        figure(f'cpus-memory/resident@{n}', own['rss_bytes'] / 2**20)
        print(f'{n} CPUs: lost {lost(stat):.3f}%')
        shutil.rmtree(store)


os.mkdir(group)
stats = open('/proc/sys/kernel/bpf_stats_enabled').read()
try:
    open('/proc/sys/kernel/bpf_stats_enabled', 'w').write('1')
    for _ in range(runs):
        for part in sys.argv[2:] or ('switches', 'short', 'cpus'):
            {'switches': switches, 'short': short, 'cpus': cpus}[part]()
finally:
    open('/proc/sys/kernel/bpf_stats_enabled', 'w').write(stats)
    shutil.rmtree(directory)
    os.rmdir(group)
