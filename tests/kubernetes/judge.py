# SPDX-License-Identifier: Apache-2.0
"""judge.py QUESTION [SHARE...]: compare what was recorded of pods with what others say of them.

usage.json: the kernel's account (usage.py); watch*.json: all that the API server said of pods. Labels
of these pods say what their workload is: `load` and `kind`; their programs have the comm of `load`.
names.json, pods.json, workloads.json: ascribe's answers. Prints what was seen; status 1: it is wrong.
"""
import collections
import glob
import json
import sys


def stream(path):
    text, decoder, at = open(path).read(), json.JSONDecoder(), 0
    while text[at:].strip():
        try:
            value, at = decoder.raw_decode(text, at + len(text[at:]) - len(text[at:].lstrip()))
        except ValueError:
            break  # what was written last is not whole
        yield value.get('object', value)


pods, containers, static = {}, {}, {}
for pod in (p for path in glob.glob('watch*.json') for p in stream(path)):
    meta, status = pod['metadata'], pod.get('status', {})
    labels = meta.get('labels', {})
    pods[meta['uid']] = {'namespace': meta['namespace'], 'pod': meta['name'],
                         'workload': labels.get('load'), 'kind': labels.get('kind')}
    for kind in 'initContainerStatuses', 'containerStatuses', 'ephemeralContainerStatuses':
        for c in status.get(kind, []):
            for state in c, c['state'].get('terminated', {}), c['lastState'].get('terminated', {}):
                if state.get('containerID'):
                    containers[state['containerID'].split('://')[1]] = (meta['uid'], c['name'])


def load_usage():
    return json.load(open('usage.json'))


def rows(name):
    return json.load(open(name + '.json'))['rows']


def names(share='0.02', of_pods='0'):
    """No sample has a name of another pod or container; at most a share has no container, or pod."""
    wrong, without, total = [], collections.Counter(), 0
    for row in rows('names'):
        key, n = row['key'], row['samples']
        uid = key['pod_uid']
        if not uid:
            wrong += [key] if key['pod'] or key['namespace'] or key['container'] else []
            without['cgroup'] += n if key['comm'].startswith('l-') else 0
            continue
        total += n
        pod = pods.get(uid)
        if not pod:
            wrong.append(key)
            continue
        of, container = containers.get(key['container_id'], (uid, None))
        expected = {'namespace': pod['namespace'], 'pod': pod['pod'], 'container': container}
        if pod['workload']:
            expected |= {'workload': pod['workload'], 'workload_kind': pod['kind']}
            if key['comm'].startswith('l-') and key['comm'] != 'l-' + pod['workload']:
                wrong.append(key)
        wrong += [(key, k, v) for k, v in expected.items() if key[k] not in (v, None)]
        wrong += [key] if of != uid else []
        without['pod'] += n if not key['pod'] else 0
        without['container'] += n if container and not key['container'] else 0
        without['workload'] += n if pod['kind'] and not key['workload'] else 0
    print(f'{total} samples of pods; without {dict(without)}; wrong: {wrong[:3]}')
    return not wrong and total > 100 and not without['workload'] \
        and without['pod'] <= float(of_pods) * total and without['cgroup'] <= 0.01 * total \
        and without['container'] <= float(share) * total


def compare(truth, answer, key):
    """Within the intervals, which are of 95%: a few are not, and none is far off."""
    whole = json.load(open(answer + '.json'))['seconds']
    got = {}
    for row in rows(answer):
        got[key(row['key'])] = (row['seconds'], row['low'] * whole, row['high'] * whole)
    misses, far = [], []
    for k, used in sorted(truth.items(), key=lambda kv: -kv[1]):
        if used < 0.2:
            continue
        seconds, low, high = got.get(k, (0, 0, 0.2))
        line = f'{k}: {used:.2f} s, answered {seconds:.2f} [{low:.2f}, {high:.2f}]'
        if not low <= used <= high:
            misses.append(line)
        if not low - (high - low) / 2 <= used <= high + (high - low) / 2:
            far.append(line)
    n = sum(used >= 0.2 for used in truth.values())
    print(f'{n} compared, {sum(truth.values()):.1f} s; outside: {misses}; far: {far}')
    return n >= 5 and not far and len(misses) <= 1 + n // 8


def by_pod():
    usage = load_usage()
    truth = {uid: s for uid, s in usage['pods'].items() if pods.get(uid, {}).get('workload')}
    return compare({(pods[u]['namespace'], pods[u]['pod']): s for u, s in truth.items()}, 'pods',
                   lambda k: (k['namespace'], k['pod']))


def by_workload():
    usage = load_usage()
    truth = collections.Counter()
    for uid, seconds in usage['pods'].items():
        pod = pods.get(uid, {})
        if pod.get('kind'):
            truth[pod['namespace'], pod['kind'], pod['workload']] += seconds
    return compare(truth, 'workloads', lambda k: (k['namespace'], k['workload_kind'], k['workload']))


def by_container():
    """Of containers that did not end early: a cgroup that goes takes its account along."""
    usage = load_usage()
    truth = collections.Counter()
    for cid, seconds in usage['containers'].items():
        uid, name = containers.get(cid, (None, None))
        if uid and pods[uid].get('workload') in ('pair', 'twin', 'hosted', 'burst'):
            truth[pods[uid]['pod'], name] += seconds
    return compare(truth, 'containers', lambda k: (k['pod'], k['container']))


sys.exit(not globals()[sys.argv[1]](*sys.argv[2:]))
