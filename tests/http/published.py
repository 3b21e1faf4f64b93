# SPDX-License-Identifier: Apache-2.0
"""Messages read by what protoc makes of the files that their owners publish, where tests/others/published.sh has made that:
a descriptor set for each owner in the directory PUBLISHED. Elsewhere messages stay as they are."""
import functools, os

DIR = os.environ.get('PUBLISHED')


@functools.lru_cache(None)
def made(owner, name):
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    pool = descriptor_pool.DescriptorPool()
    with open(f'{DIR}/{owner}.set', 'rb') as f:
        for file in descriptor_pb2.FileDescriptorSet.FromString(f.read()).file:
            pool.Add(file)
    return message_factory.MessageFactory(pool).GetPrototype(pool.FindMessageTypeByName(name))


def again(owner, name, body):
    """The message, written again from what was read of it. Nothing in it may be unknown, or lost on the way."""
    if not DIR:
        return body
    kind = made(owner, name)
    read = kind.FromString(body)
    known = kind.FromString(body)
    known.DiscardUnknownFields()
    out = known.SerializeToString()
    assert len(out) == read.ByteSize(), f'{name} has unknown fields'
    with open(f'{DIR}/checked', 'a') as f:
        f.write(f'{owner} {name}\n')
    return out


def pprof(raw):
    return again('pprof', 'perftools.profiles.Profile', raw)


def otlp(raw):
    return again('opentelemetry', 'opentelemetry.proto.collector.profiles.v1development.ExportProfilesServiceRequest', raw)


def querier(method, raw):
    """An answer of Pyroscope's QuerierService."""
    owner = {'ProfileTypes': 'querier', 'SelectSeries': 'querier', 'Diff': 'querier', 'SelectMergeStacktraces': 'querier', 'Series': 'querier'}
    name = 'google.v1.Profile' if method == 'SelectMergeProfile' else f'{owner.get(method, "types")}.v1.{method}Response'
    return again('pyroscope', name, raw)
