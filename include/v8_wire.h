/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * Where V8 keeps what names the frames of JavaScript, as bpf/v8.bpf.h and user/proc/v8_names.c read
 * it. All numbers are those that the program publishes for debuggers (v8dbg_*): user/symbols/v8.c
 * has the list. A process can only falsify its own frames.
 *
 * All code of V8 keeps a chain of frame pointers. What stands below the saved one says which kind
 * of frame it is: a small integer, or a heap object, the context of a JavaScript function:
 *
 *   fp -> | caller's fp | context | JSFunction |        JSFunction -> SharedFunctionInfo
 *                                                         -> ScopeInfo: name, position
 *                                                         -> Script: file, source
 *
 * Only code of functions of a program has a ScopeInfo there. Builtins have a string, and symbols.
 */
#ifndef ASCRIBE_V8_WIRE_H
#define ASCRIBE_V8_WIRE_H

/* Offsets in bytes, of fields from the start of their object unless said otherwise. */
struct v8_layout {
	__s16 fp_function;   /* from the frame pointer; the context is in the next word */
	__u16 instance_type; /* Map */
	__u16 shared;	     /* JSFunction */
	__u16 name_or_scope, script, parameters, token; /* SharedFunctionInfo; two of 16 bits */
	__u16 script_name, script_source, line_ends;	/* Script */
	__u16 n_locals, first_variable;			/* ScopeInfo: words */
	__u16 string_length, one_byte, two_byte;	/* String, its characters */
	__u16 cons_first, cons_second, thin_actual, sliced_parent, sliced_offset;
	__u16 array_length, array_data; /* FixedArray */
	/* Instance types */
	__u16 type_shared, type_scope, type_script, type_array;
	__u16 first_nonstring; /* below it are the strings: */
	__u16 encoding_mask, one_byte_tag, representation_mask;
	__u16 seq_tag, cons_tag, sliced_tag, thin_tag;
	__u16 function_register; /* DWARF number: what holds the function when it is entered */
	__u16 pad;
};

/* All of them that processes in hand use. What proc_entry.ranges refers to is 1 + the index. */
#define V8_LAYOUTS 64

#define V8_TAG 1 /* of a pointer into V8's heap, in its lowest bits V8_TAG_MASK */
#define V8_TAG_MASK 3

/*
 * A frame of JavaScript is a word that is no address:
 *
 *   63     61 60                                   17 16            0
 *   V8_FRAME | address of the SharedFunctionInfo / 8 | hash of what it leads to
 *
 * The garbage collector frees and moves these objects. The hash tells what stood there.
 */
#define V8_FRAME 4ull
#define V8_IS_FRAME(word) ((word) >> 61 == V8_FRAME)
#define V8_SHARED_OF(word) ((word) << 3 >> 20 << 3)

static inline __u64 v8_word(__u64 shared, __u64 scope, __u64 script, __u64 parameters, __u64 token)
{
	__u64 h = (scope ^ (script << 32 | script >> 32)) * 0x9e3779b97f4a7c15ull;
	h = (h ^ h >> 29 ^ (parameters << 16 | token)) * 0x9e3779b97f4a7c15ull;
	return V8_FRAME << 61 | (shared >> 3 & 0xfffffffffffull) << 17 | h >> 47;
}

#endif
