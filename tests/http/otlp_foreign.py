# SPDX-License-Identifier: Apache-2.0
"""A request of OpenTelemetry profiles as another profiler may send it, what must be found of it, and damaged ones."""
import os
import otlp

T = (int(os.environ['NOW']) // 3600 - 2) * 3600 * 10**9  # NOW: one time for all programs of a test
S = 10**9


class Tables:
    def __init__(self):
        self.d = {'strings': [''], 'attributes': [{}], 'functions': [{}], 'mappings': [{}], 'locations': [{}], 'stacks': [{}],
                  'links': [{'trace_id': bytes(16), 'span_id': bytes(8)}]}

    def add(self, table, element):
        if element not in self.d[table]:
            self.d[table].append(element)
        return self.d[table].index(element)

    def text(self, s):
        return self.add('strings', s)

    def attribute(self, key, **v):
        return self.add('attributes', {'key': self.text(key), 'value': v})

    def function(self, name, file=''):
        return self.add('functions', {'name': self.text(name), 'filename': self.text(file)})

    def location(self, *names, file='', mapping='', kind=None, address=0):
        m = self.add('mappings', {'start': 4096, 'limit': 8192, 'filename': self.text(mapping)}) if mapping else 0
        kinds = [self.attribute('profile.frame.type', string=kind)] if kind else []
        return self.add('locations', {'mapping': m, 'address': address, 'attributes': kinds,
                                      'lines': [{'function': self.function(n, file), 'line': 7, 'column': 3} for n in names]})

    def stack(self, *locations):
        return self.add('stacks', {'locations': list(locations)})

    def type(self, name, unit):
        return {'type': self.text(name), 'unit': self.text(unit)}


def request():
    t = Tables()
    work = t.location('inner', 'outer', file='/src/work.c', mapping='libwork.so')  # inner is inlined
    main = t.location('main', mapping='app')
    read = t.location('vfs_read', kind='kernel')
    bare = t.location(mapping='stripped', address=0x1234)
    busy, deep, lost = t.stack(work, main), t.stack(read, work, main), t.stack(bare, main)
    link = t.add('links', {'trace_id': bytes.fromhex('0123456789abcdef' * 2), 'span_id': bytes.fromhex('fedcba9876543210')})
    tenant = lambda v: t.attribute('process.context.label.tenant', string=v)
    thread = t.attribute('thread.name', string_strindex=t.text('worker'))
    odd = [t.attribute('http.route', string='/a'), t.attribute('retry', bool=True), t.attribute('ratio', double=0.5), t.attribute('size', int=7)]
    shop = [{'key': 'service.name', 'value': {'string': 'shop'}}, {'key': 'k8s.pod.name', 'value': {'string': 'shop-1'}},
            {'key_strindex': t.text('k8s.deployment.name'), 'value': {'string': 'shop'}}, {'key': 'host.name', 'value': {'string': 'far'}},
            {'key': 'list', 'value': {'bytes': b'no label'}}]
    cpu = {'sample_type': t.type('samples', 'count'), 'period_type': t.type('cpu', 'nanoseconds'), 'period': 50000000, 'time': T, 'duration': 10 * S,
           'profile_id': bytes(range(16)), 'attributes': [t.attribute('profiler', string='other')], 'samples': [
               {'stack': busy, 'attributes': [tenant('a'), thread], 'values': [3]},
               {'stack': busy, 'attributes': [tenant('a'), thread], 'timestamps': [T + 1, T + 2]},  # each is one
               {'stack': deep, 'attributes': [tenant('b')], 'values': [1, 4], 'timestamps': [T + 1, T + 2], 'link': link},
               {'stack': lost, 'attributes': odd, 'values': [1]}]}
    off = {'sample_type': t.type('off_cpu', 'nanoseconds'), 'time': T, 'duration': 10 * S,
           'samples': [{'stack': deep, 'attributes': [tenant('a')], 'values': [1500000000, 500000000], 'timestamps': [T + 1, T + 5]}]}
    later = {**cpu, 'time': T + 10 * S, 'samples': [{'stack': busy, 'attributes': [tenant('c')], 'values': [8]}]}
    heap = {'sample_type': t.type('alloc_space', 'bytes'), 'time': T, 'duration': 10 * S, 'samples': [{'stack': busy, 'values': [4096]}]}
    scope = lambda *p: {'scope': {'name': 'other profiler', 'version': '1'}, 'profiles': list(p)}
    return {'resource_profiles': [
        {'resource': {'attributes': shop, 'dropped': 1}, 'scope_profiles': [scope(cpu, off)], 'schema_url': 'https://opentelemetry.io/schemas/1.37.0'},
        {'resource': {'attributes': [{'key': 'service.name', 'value': {'string': 'pay'}}]}, 'scope_profiles': [scope(heap), scope(later)]}],
        'dictionary': t.d}


# Of each event: seconds or value by labels, and functions with their self times.
def check(report, prefix='', among='service_name!=""'):
    """report(event, where, *arguments) gives the JSON of `ascribe report` of what was taken."""
    def by(event, *keys, where=''):
        r = report(prefix + event, f'{{{among},{where}}}', '--by', ','.join(keys))
        return {tuple(x['key'][k] for k in keys): round(x['seconds'], 6) for x in r['rows']}, r
    got, r = by('cpu', 'service_name', 'tenant')
    assert got == {('shop', 'a'): .25, ('shop', 'b'): .25, ('shop', None): .05, ('pay', 'c'): .4}, got
    assert (round(r['from'] - T // S), round(r['to'] - T // S)) == (0, 20), (r['from'] - T // S, r['to'] - T // S)
    got, _ = by('cpu', 'pod', 'workload', 'workload_kind', 'host', 'profiler', where='service_name="shop"')
    assert got == {('shop-1', 'shop', 'Deployment', 'far', 'other'): .55}, got
    got, _ = by('cpu', 'http.route', 'retry', 'ratio', 'size', where='retry="true"')
    assert list(got) == [('/a', 'true', '0.5', '7')], got
    got, _ = by('cpu', 'trace_id', 'span_id', 'tenant', where='tenant="b"')
    assert got == {('0123456789abcdef' * 2, 'fedcba9876543210', 'b'): .25}, got
    assert by('cpu', 'thread', where='tenant="a"')[0] == {('worker',): .25}
    rows = {(x['function'], x['module']): (round(x['seconds'], 3), round(x['self_seconds'], 3)) for x in report(prefix + 'cpu', f'{{{among}}}')['rows']}
    assert rows == {('inner', 'libwork.so'): (.9, .65), ('outer', 'libwork.so'): (.9, 0), ('main', 'app'): (.95, 0), ('vfs_read', '[kernel]'): (.25, .25),
                    ('0x1234', 'stripped'): (.05, .05)}, rows
    assert by('off_cpu', 'tenant')[0] == {('a',): 2}
    r = report(prefix + 'alloc_space', f'{{{among}}}', '--by', 'service_name')
    assert r['value'] == 4096 and [x['key']['service_name'] for x in r['rows']] == ['pay'], r


def damaged():
    """(what the refusal says, how many Profiles of 4 are refused, bytes)."""
    def of(change):
        r = request()
        change(r, r['resource_profiles'][0]['scope_profiles'][0]['profiles'][0])
        return otlp.encode(r)
    sample = lambda **v: lambda r, p: p['samples'][1].update(v)
    far = lambda table, **v: lambda r, p: r['dictionary'][table][2 if table != 'links' else 1].update(v)
    yield 'stack 99 of a table of 4', 1, of(sample(stack=99))
    yield 'stack -1 of', 1, of(sample(stack=-1))
    yield 'attribute 77 of', 1, of(sample(attributes=[77]))
    yield 'link 5 of', 1, of(sample(link=5))
    yield 'neither values nor timestamps', 1, of(lambda r, p: p['samples'].append({'stack': 1}))
    yield 'no sample type', 1, of(lambda r, p: p.pop('sample_type'))
    yield 'string 9999 of', 2, of(lambda r, p: p['sample_type'].update(type=9999))
    yield 'location 3000 of', 2, of(far('stacks', locations=[3000]))
    yield 'function 999 of', 4, of(lambda r, p: r['dictionary']['locations'][1]['lines'][0].update(function=999))
    yield 'mapping 88 of', 4, of(lambda r, p: r['dictionary']['locations'][1].update(mapping=88))
    yield 'string -5 of', 4, of(lambda r, p: r['dictionary']['functions'][1].update(name=-5))
    yield 'mapping 1 cannot be decoded', 4, of(lambda r, p: r['dictionary']['mappings'][1].update(attributes=[1] * 5000))
    r = request()
    del r['dictionary']
    yield 'of a table of 0', 4, otlp.encode(r)
    # Version 1.9: the values are 2, the attributes 3, the link 4.
    yield 'opentelemetry-proto 1.10 or later', 4, otlp.encode(request(), numbers={'Sample': {'values': 2, 'attributes': 3, 'link': 4}})
    many = request()
    times = many['resource_profiles'][0]['scope_profiles'][0]['profiles']
    times.extend({**times[0], 'time': T + i * S} for i in range(1, 81))
    yield 'at most 64 ranges', 19, otlp.encode(many)


def undecodable():
    """(what the refusal says, bytes)."""
    whole = otlp.encode(request())
    yield 'no ExportProfilesServiceRequest', b'\xff' * 100
    yield 'no ExportProfilesServiceRequest', whole[:-3]
    # Version 1.5 had the locations where the time is now.
    yield 'no ExportProfilesServiceRequest', otlp.encode(request(), numbers={'Profile': {'time': 4, 'duration': 5, 'samples': 3}})


def many(n):
    """n samples of one Profile."""
    sample = otlp.encode({'values': [1]}, 'Sample')
    profile = otlp.encode({'sample_type': {'type': 1, 'unit': 2}}, 'Profile') + otlp.field(2, sample) * n
    return otlp.field(1, otlp.field(2, otlp.field(2, profile))) + otlp.field(2, otlp.encode({'strings': ['', 'samples', 'count']}, 'Dictionary'))
