# SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause
"""Labels of the calling thread, for the ascribe profiler.

    with ascribe.label(tenant="acme", query_id=42):
        handle(request)

Another thread gets them by value: saved = ascribe.current(), and there `with ascribe.attach(saved):`.
asyncio: once `loop.set_task_factory(ascribe.task_factory)`, then `with ascribe.label(...)` may be
left open across an await. ASCRIBE_LABEL_LIB names another libascribe-label.so.
"""
import asyncio
import contextlib
import ctypes
import os
import types

_lib = ctypes.PyDLL(os.environ.get('ASCRIBE_LABEL_LIB', 'libascribe-label.so'))
_lib.ascribe_thread_set.argtypes = [ctypes.c_char_p, ctypes.c_size_t] * 2
_lib.ascribe_thread_set_int.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int64]
_lib.ascribe_thread_unset.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
_lib.ascribe_thread_save.argtypes = _lib.ascribe_thread_restore.argtypes = [
    ctypes.c_char_p, ctypes.c_size_t]
_SAVED_MAX = 672


def set(key, value):
    """Set a label of this thread until it is set anew or cleared. True: it is attached."""
    k = key.encode(errors='surrogatepass')
    if isinstance(value, int) and -1 << 63 <= value < 1 << 63:
        return _lib.ascribe_thread_set_int(k, len(k), value) == 0
    v = str(value).encode(errors='surrogatepass')
    return _lib.ascribe_thread_set(k, len(k), v, len(v)) == 0


def unset(key):
    k = key.encode(errors='surrogatepass')
    _lib.ascribe_thread_unset(k, len(k))


def clear():
    _lib.ascribe_thread_restore(None, 0)


def current():
    """The labels of this thread as bytes, to be attached on any thread of this process."""
    room = ctypes.create_string_buffer(_SAVED_MAX)
    size = _lib.ascribe_thread_save(room, _SAVED_MAX)
    return room.raw[:size]


def _replace(saved):
    before = current()
    _lib.ascribe_thread_restore(saved, len(saved))
    return before


@contextlib.contextmanager
def attach(saved):
    before = _replace(saved)
    try:
        yield
    finally:
        _replace(before)


@contextlib.contextmanager
def label(**labels):
    before = current()
    try:
        for key, value in labels.items():
            set(key, value)
        yield
    finally:
        _replace(before)


@types.coroutine
def carry(coroutine):
    """Await a coroutine whose labels leave the thread while it waits."""
    mine, resume, value = current(), coroutine.send, None
    while True:
        outer = _replace(mine)
        try:
            wanted = resume(value)
        except StopIteration as end:
            return end.value
        finally:
            mine = _replace(outer)
        try:
            value = yield wanted
            resume = coroutine.send
        except BaseException as e:
            resume, value = coroutine.throw, e


async def _carried(coroutine):
    return await carry(coroutine)


def task_factory(loop, coroutine, **options):
    return asyncio.Task(_carried(coroutine), loop=loop, **options)
