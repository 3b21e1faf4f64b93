# SPDX-License-Identifier: Apache-2.0
"""OpenTelemetry profiles decoded strictly: every field must be one that opentelemetry-proto 1.10 publishes, of its type,
and every rule for the dictionary must hold. Shares nothing with what is tested: numbers are written down here again."""
import collections, published, struct, sys
from wire import field, varint as wire_varint

# message: {number: (name, type)}; a type in brackets may come several times, an upper-case one is a message.
SCHEMA = {
    'Request': {1: ('resource_profiles', ['ResourceProfiles']), 2: ('dictionary', 'Dictionary')},
    'ResourceProfiles': {1: ('resource', 'Resource'), 2: ('scope_profiles', ['ScopeProfiles']), 3: ('schema_url', 'text')},
    'Resource': {1: ('attributes', ['KeyValue']), 2: ('dropped', 'uint32')},
    'KeyValue': {1: ('key', 'text'), 2: ('value', 'AnyValue'), 3: ('key_strindex', 'int32')},
    'AnyValue': {1: ('string', 'text'), 2: ('bool', 'bool'), 3: ('int', 'int64'), 4: ('double', 'double'), 7: ('bytes', 'bytes'),
                 8: ('string_strindex', 'int32')},
    'ScopeProfiles': {1: ('scope', 'Scope'), 2: ('profiles', ['Profile']), 3: ('schema_url', 'text')},
    'Scope': {1: ('name', 'text'), 2: ('version', 'text'), 3: ('attributes', ['KeyValue']), 4: ('dropped', 'uint32')},
    'Profile': {1: ('sample_type', 'ValueType'), 2: ('samples', ['Sample']), 3: ('time', 'fixed64'), 4: ('duration', 'uint64'),
                5: ('period_type', 'ValueType'), 6: ('period', 'int64'), 7: ('profile_id', 'bytes'), 8: ('dropped', 'uint32'),
                9: ('original_format', 'text'), 10: ('original', 'bytes'), 11: ('attributes', ['int32'])},
    'ValueType': {1: ('type', 'int32'), 2: ('unit', 'int32')},
    'Sample': {1: ('stack', 'int32'), 2: ('attributes', ['int32']), 3: ('link', 'int32'), 4: ('values', ['int64']),
               5: ('timestamps', ['fixed64'])},
    'Dictionary': {1: ('mappings', ['Mapping']), 2: ('locations', ['Location']), 3: ('functions', ['Function']),
                   4: ('links', ['Link']), 5: ('strings', ['text']), 6: ('attributes', ['Attribute']), 7: ('stacks', ['Stack'])},
    'Mapping': {1: ('start', 'uint64'), 2: ('limit', 'uint64'), 3: ('offset', 'uint64'), 4: ('filename', 'int32'),
                5: ('attributes', ['int32'])},
    'Location': {1: ('mapping', 'int32'), 2: ('address', 'uint64'), 3: ('lines', ['Line']), 4: ('attributes', ['int32'])},
    'Line': {1: ('function', 'int32'), 2: ('line', 'int64'), 3: ('column', 'int64')},
    'Function': {1: ('name', 'int32'), 2: ('system_name', 'int32'), 3: ('filename', 'int32'), 4: ('start_line', 'int64')},
    'Link': {1: ('trace_id', 'bytes'), 2: ('span_id', 'bytes')},
    'Attribute': {1: ('key', 'int32'), 2: ('value', 'AnyValue'), 3: ('unit', 'int32')},
    'Stack': {1: ('locations', ['int32'])},
}
ZERO = {'text': '', 'bytes': b'', 'bool': False, 'double': 0.0}


def varint(b, i):
    v = shift = 0
    while True:
        c = b[i]
        v |= (c & 127) << shift
        i += 1
        if c < 128:
            assert v < 1 << 64
            return v, i
        shift += 7
        assert shift < 70


def scalar(kind, v):
    if kind.startswith('int'):
        v -= v >> 63 << 64
        assert kind == 'int64' or -1 << 31 <= v < 1 << 31, (kind, v)
    return bool(v) if kind == 'bool' else v


def decode(b, message='Request'):
    """A dict with all fields of the message."""
    schema = SCHEMA[message]
    out = {name: [] if isinstance(kind, list) else None if kind[0].isupper() else ZERO.get(kind, 0)
           for name, kind in schema.values()}
    if message == 'AnyValue':  # one of them is there
        out = dict.fromkeys(out)
    i = 0
    while i < len(b):
        tag, i = varint(b, i)
        assert tag >> 3 in schema, f'{message} has no field {tag >> 3}'
        name, kind = schema[tag >> 3]
        several = isinstance(kind, list)
        kind = kind[0] if several else kind
        wire = tag & 7
        if kind[0].isupper() or kind in ('text', 'bytes'):
            assert wire == 2, (message, name, wire)
            n, i = varint(b, i)
            v, i = b[i:i + n], i + n
            assert len(v) == n, 'cut short'
            v = decode(v, kind) if kind[0].isupper() else v.decode() if kind == 'text' else v
        elif kind in ('fixed64', 'double') and wire == 1:
            v, i = struct.unpack('<d' if kind == 'double' else '<Q', b[i:i + 8])[0], i + 8
        elif wire == 2 and several:
            n, i = varint(b, i)
            end = i + n
            while i < end:
                v, i = (struct.unpack('<Q', b[i:i + 8])[0], i + 8) if kind == 'fixed64' else varint(b, i)
                out[name].append(scalar(kind, v))
            assert i == end
            continue
        else:
            assert wire == 0, (message, name, wire)
            v, i = varint(b, i)
            v = scalar(kind, v)
        if several:
            out[name].append(v)
        else:
            assert out[name] in (None, ZERO.get(kind, 0)), f'{message}.{name} comes twice'
            out[name] = v
    return out


def encode(m, message='Request', numbers={}):
    """The bytes of a dict with some fields of the message. numbers: other ones, {message: {name: number}}."""
    out = b''
    for number, (name, kind) in SCHEMA[message].items():
        number = numbers.get(message, {}).get(name, number)
        several = isinstance(kind, list)
        kind = kind[0] if several else kind
        if name not in m:
            continue
        values = m[name] if several else [m[name]]
        if kind[0].isupper():
            out += b''.join(field(number, encode(v, kind, numbers)) for v in values)
        elif several and kind != 'text':
            out += field(number, b''.join(struct.pack('<Q', v) if kind == 'fixed64' else wire_varint(v) for v in values)) if values else b''
        elif kind == 'fixed64':
            out += wire_varint(number << 3 | 1) + struct.pack('<Q', values[0])
        else:
            out += b''.join(field(number, v) for v in values)
    return out


def value(v):
    there = [v[k] for k in ('string', 'int') if v[k] is not None]
    assert len(there) == sum(v[k] is not None for k in v) == 1, v
    return there[0]


def check(request):
    """The rules of the dictionary: element 0 is the zero value, none comes twice, each other one is referred to."""
    d = request['dictionary']
    for table, message in (('mappings', 'Mapping'), ('locations', 'Location'), ('functions', 'Function'), ('attributes', 'Attribute'),
                           ('stacks', 'Stack')):
        assert d[table][0] == decode(b'', message), (table, d[table][0])
    assert d['strings'][0] == '' and d['links'][0] == {'trace_id': bytes(16), 'span_id': bytes(8)}
    for table in d:
        same = collections.Counter(repr(e) for e in d[table])
        assert len(same) == len(d[table]), (table, same.most_common(1))
    used = {t: {0} for t in d}

    def use(table, i):
        assert 0 <= i < len(d[table]), (table, i)
        used[table].add(i)
    for rp in request['resource_profiles']:
        assert not any(kv['key_strindex'] for kv in rp['resource']['attributes'])
        for sp in rp['scope_profiles']:
            for p in sp['profiles']:
                assert len(p['profile_id']) == 16 and p['profile_id'] != bytes(16)
                for t in (p['sample_type'], p['period_type']):
                    for i in (t['type'], t['unit']) if t else ():
                        use('strings', i)
                identity = set()
                for s in p['samples']:
                    assert len(s['values']) == 1 and s['values'][0] > 0 and not s['timestamps'], s
                    identity.add((s['stack'], frozenset(s['attributes']), s['link']))
                    use('stacks', s['stack'])
                    use('links', s['link'])
                    keys = [d['attributes'][i]['key'] for i in s['attributes']]
                    assert len(set(keys)) == len(keys), 'an attribute comes twice'
                    for i in s['attributes']:
                        use('attributes', i)
                assert len(identity) == len(p['samples']) > 0, 'a sample comes twice'
    for i in used['stacks']:
        for k in d['stacks'][i]['locations']:
            use('locations', k)
            assert k
    for i in used['locations']:
        at = d['locations'][i]
        use('mappings', at['mapping'])
        for line in at['lines']:
            use('functions', line['function'])
            assert line['function']
        for k in at['attributes']:
            use('attributes', k)
    for i in used['mappings']:
        use('strings', d['mappings'][i]['filename'])
        for k in d['mappings'][i]['attributes']:
            use('attributes', k)
    for i in used['functions']:
        for key in ('name', 'system_name', 'filename'):
            use('strings', d['functions'][i][key])
    for i in used['attributes']:
        use('strings', d['attributes'][i]['key'])
        use('strings', d['attributes'][i]['unit'])
    for link in d['links'][1:]:
        assert len(link['trace_id']) == 16 and len(link['span_id']) == 8
    for table in d:
        assert used[table] == set(range(len(d[table]))), (table, 'nobody refers to', set(range(len(d[table]))) - used[table])


def samples(request):
    """(sample type, period type, period, resource, attributes, link, frames from the leaf on, value) of each sample."""
    d = request['dictionary']
    text = d['strings']
    for rp in request['resource_profiles']:
        resource = {kv['key']: value(kv['value']) for kv in rp['resource']['attributes']}
        assert len(resource) == len(rp['resource']['attributes'])
        for sp in rp['scope_profiles']:
            for p in sp['profiles']:
                kind = [(text[t['type']], text[t['unit']]) if t else None for t in (p['sample_type'], p['period_type'])]
                for s in p['samples']:
                    attributes = {text[d['attributes'][i]['key']]: value(d['attributes'][i]['value']) for i in s['attributes']}
                    frames = [text[d['functions'][line['function']]['name']]
                              for i in d['stacks'][s['stack']]['locations'] for line in d['locations'][i]['lines']]
                    link = d['links'][s['link']]
                    yield (*kind, p['period'], resource, attributes, link if s['link'] else None, frames, s['values'][0])


def read(path):
    request = decode(published.otlp(open(path, 'rb').read()))
    check(request)
    return request


if __name__ == '__main__':
    for name in sys.argv[1:]:
        total = collections.Counter()
        r = read(name)
        for kind, period_type, period, *_, n in samples(r):
            total[kind, period_type, period] += n
        print(name, len(r['resource_profiles']), 'resources', dict(total), {k: len(v) for k, v in r['dictionary'].items()})
