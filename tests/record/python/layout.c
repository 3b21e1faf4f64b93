/* SPDX-License-Identifier: Apache-2.0 */
/*
 * include/python_wire.h against the headers of a CPython: -I of its include folder and of internal/
 * in it. 77: of an unknown version.
 */
#define Py_BUILD_CORE
#include <Python.h>
#include "pycore_frame.h"
#include "pycore_interp.h"
#include "pycore_runtime.h"
#if PY_VERSION_HEX >= 0x030e0000
#include "pycore_interpframe_structs.h"
#include "pycore_stackref.h"
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#define __u16 uint16_t
#define __u32 uint32_t
#define __u64 uint64_t
#include "python_wire.h"

#ifdef Py_GIL_DISABLED
#define IS_FREE 1
#else
#define IS_FREE 0
#endif

#define SAME(ours, theirs) \
	((ours) == (theirs) \
		 ? 0 \
		 : printf("%s is %zu, not %zu\n", #theirs, (size_t)(theirs), (size_t)(ours)))
#define OFFSET(ours, t, member) SAME(l->ours, offsetof(t, member))

static int frames(const struct python_layout *l)
{
	int bad = OFFSET(frame_previous, struct _PyInterpreterFrame, previous);
#if PY_VERSION_HEX >= 0x030d0000
	bad |= OFFSET(frame_code, struct _PyInterpreterFrame, f_executable);
#else
	bad |= OFFSET(frame_code, struct _PyInterpreterFrame, f_code);
#endif
#if PY_VERSION_HEX >= 0x030d0000
	bad |= OFFSET(thread_frame, PyThreadState, current_frame);
	bad |= SAME(l->cframe_frame, PYTHON_NOWHERE);
#else
	bad |= OFFSET(thread_frame, PyThreadState, cframe);
	bad |= OFFSET(cframe_frame, _PyCFrame, current_frame);
#endif
#if PY_VERSION_HEX >= 0x030c0000
	bad |= OFFSET(frame_owner, struct _PyInterpreterFrame, owner);
	bad |= SAME(l->frame_entry, PYTHON_NOWHERE);
#else
	bad |= OFFSET(frame_entry, struct _PyInterpreterFrame, is_entry);
	bad |= SAME(l->frame_owner, PYTHON_NOWHERE);
#endif
#if PY_VERSION_HEX >= 0x030e0000
	bad |= SAME(PYTHON_OWNER_C, FRAME_OWNED_BY_INTERPRETER);
	bad |= SAME(Py_TAG_BITS & ~PYTHON_TAG, 0);
#elif PY_VERSION_HEX >= 0x030c0000
	bad |= SAME(PYTHON_OWNER_C, FRAME_OWNED_BY_CSTACK);
#endif
	bad |= SAME(offsetof(struct _PyInterpreterFrame, localsplus) <= PYTHON_FRAME_BYTES, 1);
	return bad;
}

static int threads(const struct python_layout *l)
{
	int bad = OFFSET(thread_next, PyThreadState, next);
	bad |= OFFSET(thread_id, PyThreadState, thread_id);
	bad |= SAME(PYTHON_THREAD_BEFORE, offsetof(PyThreadState, prev));
	bad |= SAME(l->thread_id + 8 <= PYTHON_THREAD_BYTES, 1);
#if PY_VERSION_HEX >= 0x030d0000
	/* As published: the head, next to which the main one stands */
	bad |= SAME(l->main, 0) | SAME(l->threads, 0);
	bad |= SAME(offsetof(_PyRuntimeState, interpreters.main),
		    offsetof(_PyRuntimeState, interpreters.head) + 8);
	bad |= SAME(offsetof(PyInterpreterState, threads.head) <= PYTHON_THREADS_AT_MAX, 1);
#else
	bad |= OFFSET(main, _PyRuntimeState, interpreters.main);
	bad |= OFFSET(threads, PyInterpreterState, threads.head);
#endif
#if PY_VERSION_HEX >= 0x030c0000
	bad |= SAME(l->holder, PYTHON_NOWHERE);
#else
	bad |= OFFSET(holder, _PyRuntimeState, gilstate.tstate_current);
#endif
	return bad;
}

/* The bits of a string's state. */
static uint32_t state_of(unsigned kind, unsigned compact, unsigned ascii)
{
	PyASCIIObject s = { 0 };
	uint32_t state = 0;
	s.state.kind = kind;
	s.state.compact = compact;
	s.state.ascii = ascii;
	memcpy(&state, &s.state, sizeof(state));
	return state;
}

static int objects(const struct python_layout *l)
{
	int bad = OFFSET(code_file, PyCodeObject, co_filename);
	bad |= OFFSET(code_line, PyCodeObject, co_firstlineno);
	bad |= OFFSET(code_name, PyCodeObject, co_qualname);
	bad |= SAME(l->code_name + 8 <= PYTHON_CODE_FROM + PYTHON_CODE_BYTES, 1);
	bad |= SAME(l->code_line >= PYTHON_CODE_FROM, 1);
	bad |= OFFSET(string_length, PyASCIIObject, length);
	bad |= OFFSET(string_state, PyASCIIObject, state);
	bad |= SAME(1u << l->width_bit, state_of(1, 0, 0));
	bad |= SAME(1u << l->width_bit << 3, state_of(0, 1, 0));
	bad |= SAME(1u << l->width_bit << 4, state_of(0, 0, 1));
	bad |= SAME(l->ascii, sizeof(PyASCIIObject));
	bad |= SAME(l->wide, sizeof(PyCompactUnicodeObject));
	return bad;
}

int main(void)
{
	const struct python_layout *l = python_layouts;
	while (l < python_layouts + PYTHON_LAYOUTS &&
	       (l->number != PY_VERSION_HEX >> 16 || l->is_free != IS_FREE))
		l++;
	if (l == python_layouts + PYTHON_LAYOUTS)
		return 77;
	printf("%s%s\n", PY_VERSION, IS_FREE ? "t" : "");
	return frames(l) | threads(l) | objects(l);
}
