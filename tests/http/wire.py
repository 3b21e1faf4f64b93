# SPDX-License-Identifier: Apache-2.0
"""Protocol buffers as the tests of the server write and read them: their own few lines, so that nothing of ours judges itself."""
import struct


def varint(n):
    n &= (1 << 64) - 1
    out = b''
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, v):
    if isinstance(v, str):
        v = v.encode()
    if isinstance(v, bytes):
        return varint(number << 3 | 2) + varint(len(v)) + v
    if isinstance(v, float):
        return varint(number << 3 | 1) + struct.pack('<d', v)
    return varint(number << 3) + varint(v)


def numbers(b):
    """Of a packed field."""
    out, v, shift = [], 0, 0
    for c in b:
        v |= (c & 127) << shift
        shift += 7
        if c < 128:
            out.append(v - (1 << 64) if v >> 63 else v)
            v = shift = 0
    return out


def parse(b):
    """{number: [value, ...]} of a message; messages within it and texts stay bytes."""
    out, i = {}, 0

    def number():
        nonlocal i
        v = shift = 0
        while True:
            c = b[i]
            i += 1
            v |= (c & 127) << shift
            shift += 7
            if c < 128:
                return v
    while i < len(b):
        tag = number()
        if tag & 7 == 0:
            v = number()
        elif tag & 7 == 1:
            v = struct.unpack('<d', b[i:i + 8])[0]
            i += 8
        else:
            n = number()
            v = b[i:i + n]
            i += n
            assert len(v) == n
        out.setdefault(tag >> 3, []).append(v)
    return out
