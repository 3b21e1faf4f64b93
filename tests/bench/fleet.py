# SPDX-License-Identifier: Apache-2.0
"""fleet.py SCRATCH STORE: figures of ClickHouse as the engine of a fleet (docs/fleet.md), by `make bench-fleet`.

The engine is npm's chdb on this host's CPUs (tests/tools/clickhouse). STORE has one window of many rows. The fleet is simulated
in SQL: NODES nodes, ROWS rows in a window of each, SERVICES services of which a node runs 8, each with STACKS stacks of
which the n-th is drawn with a probability of 1/n, DEPTH frames deep; a third of the rows has up to 20 samples, the others one.
What is measured: CPU seconds and time of inserts as a server has them (blocks of all nodes' windows), bytes on disk, questions."""
import json, os, resource, subprocess, sys, time, urllib.request
scratch, store = sys.argv[1:3]
root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ascribe = os.environ.get('ASCRIBE', root + '/build/ascribe')
NODES, ROWS, SERVICES, STACKS, DEPTH = 1000, 300, 40, 5000, 30
os.makedirs(scratch + '/engine')
server = subprocess.Popen([sys.executable, root + '/tests/tools/clickhouse/server.py', scratch + '/engine'])
while not os.path.exists(scratch + '/engine/port'):
    time.sleep(0.1)
url = 'http://127.0.0.1:' + open(scratch + '/engine/port').read().strip() + '/'


def ask(sql):
    try:
        return urllib.request.urlopen(url, sql.encode(), 600).read().decode()
    except urllib.error.HTTPError as e:
        sys.exit(f'{e.read().decode()[:1000]}\n{sql}')


def cpu(pid):
    v = open(f'/proc/{pid}/stat').read().rsplit(')', 1)[1].split()
    return (int(v[11]) + int(v[12])) / os.sysconf('SC_CLK_TCK')


def figure(id, value):
    print('figure', id, 'ascribe', value, sep='\t')


def timed(what, f, times=1, unit=''):
    best = None
    for _ in range(times):
        a, t = cpu(server.pid), time.time()
        out = f()
        seen = time.time() - t, cpu(server.pid) - a
        best = min(best or seen, seen)
    print(f'{what}: {best[0]:.3f} s, {best[1]:.2f} CPU s of the engine{unit}', flush=True)
    return best, out


def push(*a):
    p = subprocess.Popen([ascribe, 'push', store, url, '--format', 'clickhouse', *a], stderr=subprocess.PIPE, text=True)
    _, status, used = os.wait4(p.pid, 0)
    said = p.stderr.read().strip().splitlines()[-1]
    assert not status, said
    return used, said


def fleet():
    """Frames and labels of all stacks and services."""
    base = f'SELECT toUInt8(intDiv(number, {STACKS})) AS svc, toUInt64(number % {STACKS} + 1) AS n FROM numbers({SERVICES * STACKS})'
    names = f"arrayMap(d -> concat('service', toString(svc), '::function_', toString(intDiv(n, d + 1) % 700), '_', toString(d)), range({DEPTH}))"
    ask(f"""INSERT INTO ascribe_stacks (hash, kinds, functions, modules, build_ids, files, lines, offsets)
        SELECT reinterpretAsUInt128(sipHash128(svc, n)), arrayMap(d -> toUInt8(d < 3), range({DEPTH})), {names}, arrayMap(d -> concat('/usr/bin/service', toString(svc)), range({DEPTH})),
        arrayMap(d -> hex(svc), range({DEPTH})), arrayMap(d -> '', range({DEPTH})), arrayMap(d -> 0, range({DEPTH})), arrayMap(d -> 0, range({DEPTH})) FROM ({base})""")
    ask(f"""INSERT INTO ascribe_series (series, labels, integers) SELECT cityHash64('svc', number), map('service', concat('service', toString(number)), 'comm', 'server'), [] FROM numbers({SERVICES})""")
    ask(f"""INSERT INTO ascribe_sets (day, hash, series, labels, integers) SELECT toDate(at), reinterpretAsUInt128(sipHash128(svc, node, pod)), cityHash64('svc', svc),
        map('service', concat('service', toString(svc)), 'comm', 'server', 'pod', concat('pod-', toString(svc), '-', toString(node), '-', toString(pod))), [] FROM
        (SELECT intDiv(number, 24) AS node, (node * 7 + number % 8 * 13) % {SERVICES} AS svc, intDiv(number, 8) % 3 AS pod, arrayJoin([{hour}, {hour} + 7200]) AS at FROM numbers({NODES * 24}))""")
    ask(f"""INSERT INTO ascribe_events (name, unit, ns_per_sample, period, place) VALUES ('cpu-clock', 'nanoseconds', 52631578, 52631578, 0)""")


def windows(table, at, rows, seed):
    """The rows of one window of each node."""
    time_of = f'toDateTime({at} + cityHash64(node) % 10)' if table == 'ascribe_samples' else f'toDateTime({at})'
    ask(f"""INSERT INTO {table} (time, host, event, ns_per_sample, series, set, stack, wait, samples, value)
        SELECT {time_of}, concat('node-', toString(node)), 'cpu-clock', 52631578, cityHash64('svc', svc), reinterpretAsUInt128(sipHash128(svc, node, r % 3)), reinterpretAsUInt128(sipHash128(svc, n)), '', sm, sm * 52631578
        FROM (SELECT intDiv(number, {rows}) AS node, number % {rows} AS r, (node * 7 + number % 8 * 13) % {SERVICES} AS svc,
            toUInt64(pow({STACKS}, cityHash64(number, {seed}, 1) % 1000003 / 1000003)) AS n, if(cityHash64(number, {seed}, 2) % 3 = 0, 1 + cityHash64(number, {seed}, 3) % 20, 1) AS sm FROM numbers({NODES * rows}))""")


def size(table):
    ask(f'OPTIMIZE TABLE {table} FINAL')
    n, b = map(int, ask(f"SELECT sum(rows), sum(bytes_on_disk) FROM system.parts WHERE active AND table = '{table}' FORMAT TabSeparated").split())
    a_sample = '' if table == 'ascribe_stacks' else f", {b / int(ask(f'SELECT sum(samples) FROM {table}')):.2f} a sample"
    if table == 'ascribe_samples':
        figure('part/fleet', b / int(ask(f'SELECT sum(samples) FROM {table}')))
    print(f'{table}: {n} rows, {b} bytes: {b / n:.2f} a row{a_sample}', flush=True)


def question(id, what, *a):
    """The best of three: seconds, and CPU seconds of the engine and of ascribe."""
    best = None
    for _ in range(3):
        a0, t = cpu(server.pid), time.time()
        p = subprocess.Popen([ascribe, *a, '--clickhouse', url], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out = p.communicate()
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert not p.returncode, out[1]
        seen = cpu(server.pid) - a0, used.ru_utime + used.ru_stime - question.before, time.time() - t
        question.before = used.ru_utime + used.ru_stime
        best = min(best or seen, seen)
    if id:
        figure('fleet/' + id, best[0] + best[1])
    print(f'{what}: {best[0]:.2f} CPU s of the engine, {best[1]:.2f} of ascribe, {best[2]:.3f} s, {len(out[0])} bytes', flush=True)


question.before = 0


try:
    hour = int(time.time()) // 3600 * 3600 - 7200
    print(os.cpu_count(), 'CPUs, load', open('/proc/loadavg').read().split()[0])
    push('--create-tables', '--from', '2030-01-01', '--cursor', scratch + '/none')
    for t in 'ascribe_samples', 'ascribe_samples_1m', 'ascribe_sets':
        ask(f'ALTER TABLE {t} REMOVE TTL')
    for name, memory in ('first', '64MiB'), ('again', '64MiB'), ('small', '16MiB'):
        used, said = push('--cursor', scratch + '/' + name, '--memory', memory)
        if name != 'again':
            figure('fleet/push' if name == 'first' else 'fleet/push16', used.ru_utime + used.ru_stime)
        print(f'push, a window of 100,000 rows, {memory}: {used.ru_utime + used.ru_stime:.3f} CPU s, {used.ru_maxrss / 1024:.0f} MiB resident: {said}')
    for t in 'samples', 'samples_1m', 'samples_1h', 'samples_1d', 'stacks', 'sets', 'series', 'events', 'windows':
        ask(f'TRUNCATE TABLE ascribe_{t}')
    timed(f'{SERVICES * STACKS} stacks of {DEPTH} frames, with their functions', fleet)
    gen = timed('rows alone, made and dropped', lambda: (ask('CREATE TABLE none AS ascribe_samples ENGINE = Null'), windows('none', hour, ROWS, 0)))[0]
    total = 0
    n = int(os.environ.get('WINDOWS', 6))
    a, t = cpu(server.pid), time.time()
    for i in range(n):
        windows('ascribe_samples', hour + i * 10, ROWS, i)
    used, took = cpu(server.pid) - a - n * gen[1], time.time() - t
    figure('fleet/insert', n * 10 * 2 / used)
    print(f'{n} windows of {NODES} nodes, {ROWS} rows each: {used:.2f} CPU s without making them: on 2 CPUs {n * 10 * 2 / used:.0f} times faster than they arrive ({took:.1f} s here)')
    size('ascribe_samples')
    ask("""INSERT INTO ascribe_windows (time, host, start, end, windows, fired, stored, outside, own_cpu_ns, own_rss, lost, flagged)
        SELECT toDateTime(%d + number * 10), 'node-0', toDateTime64(%d + number * 10, 9), toDateTime64(%d + number * 10 + 10, 9), 1, 1, 1, 0, 0, 0, map(), map() FROM numbers(720)""" % (hour, hour, hour))
    for i in range(1, int(os.environ.get('MINUTES', 60))):
        windows('ascribe_samples_1m', hour + i * 60, ROWS * 3, i)
    size('ascribe_samples_1m')
    size('ascribe_samples_1h')
    size('ascribe_samples_1d')
    size('ascribe_stacks')
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    question.before = used.ru_utime + used.ru_stime
    service = ['--where', '{service="service7"}']
    question('flame', 'flame graph of a service over an hour', 'flame', '--json', *service, '--from', str(hour), '--to', str(hour + 3600))
    question('', 'the same, ends within minutes', 'flame', '--json', *service, '--from', str(hour + 30), '--to', str(hour + 3570))
    question('', 'of one host and a service', 'flame', '--json', '--where', '{service="service7",host="node-1"}', '--from', str(hour), '--to', str(hour + 3600))
    question('top', 'top functions of the fleet over a day', 'report', '--json', '-n', '100', '--from', str(hour // 86400 * 86400), '--to', str(hour // 86400 * 86400 + 86400))
    question('by', 'by service over a day', 'report', '--by', 'service', '--json', '--from', str(hour // 86400 * 86400), '--to', str(hour // 86400 * 86400 + 86400))
finally:
    server.kill()
