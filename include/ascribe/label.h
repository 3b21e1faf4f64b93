/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * Label the work that a thread does, so that a profiler can say for whom the CPU was used.
 *
 *	struct ascribe_label_set set;            built once per request ...
 *	ascribe_set_init(&set);
 *	ascribe_set_add_string(&set, "tenant", "acme");
 *	ascribe_set_add_int(&set, "query_id", 42);
 *
 *	struct ascribe_scope scope;              ... attached around each piece of its work
 *	ascribe_attach(&scope, &set);
 *	work();
 *	ascribe_detach(&scope);
 *
 * or, for one label until the end of the block: ASCRIBE_LABEL_SCOPE("tenant", name);
 *
 * Header-only; needs libc headers, gcc or clang, x86-64 or aarch64 (LP64), C11 or C++11. C++ has a
 * nicer face in label.hpp. docs/labels.md is the manual and the specification of what is published.
 *
 * Rules
 *  - A set is built by one thread, then never changed while it is attached anywhere. Many threads
 *    may attach the same set at once. It must outlive every scope that it is attached by.
 *  - A scope is used by one thread, or by one coroutine / fiber that may move between threads, and
 *    scopes end in the reverse order of their begin. It must not be moved or copied while attached.
 *  - Nothing allocates. Attaching is one 8-byte store when nothing is attached; otherwise the union
 *    of the two sets is built in the scope, the inner value winning.
 *  - Attach, detach and swap are async-signal-safe (a handler must restore what it found). Adding
 *    to a set is too, except that a key that is new may be refused with -EDEADLK when the signal
 *    interrupted the registration of another key.
 *  - Each module (executable or shared library) has its own slot and key table (label_module.h). A
 *    set may be attached by another module than the one that built it; its keys are then looked up
 *    by name, which costs more.
 */
#ifndef ASCRIBE_LABEL_H
#define ASCRIBE_LABEL_H

#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "label_abi.h"
#include "label_key.h"

#if !defined(__LP64__) || !(defined(__x86_64__) || defined(__aarch64__)) || !defined(__ELF__)
#error "ascribe/label.h supports x86-64 and aarch64 (LP64, ELF)"
#endif

#ifdef __cplusplus
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#endif
extern "C" {
#endif

#include "label_module.h"

/* ---- sets ---- */

/*
 * What stands from prefix on is published, see label_abi.h; 688 bytes, of which attrs is used as
 * needed.
 */
struct ascribe_label_set {
	const struct ascribe_key_table *keys; /* of the module that built the set */
	/* attributes that found no room, here or in an outer set */
	ascribe_u32 dropped;
	ascribe_u32 reserved;
	struct ascribe_record_prefix prefix;
	struct ascribe_record_header header;
	ascribe_u8 attrs[ASCRIBE_ATTRS_MAX];
};
ASCRIBE_ABI_ASSERT(offsetof(struct ascribe_label_set, header) ==
			   offsetof(struct ascribe_label_set, prefix) + ASCRIBE_PREFIX_SIZE,
		   "prefix before header");
ASCRIBE_ABI_ASSERT(offsetof(struct ascribe_label_set, attrs) ==
			   offsetof(struct ascribe_label_set, header) + ASCRIBE_HEADER_SIZE,
		   "attributes behind header");

ASCRIBE_HOT unsigned int ascribe_attrs_size(const struct ascribe_record_header *h)
{
	ascribe_u16 v;
	memcpy(&v, h->attrs_size, 2);
	return v;
}

ASCRIBE_HOT void ascribe_set_size(struct ascribe_label_set *set, unsigned int attrs)
{
	ascribe_u16 v = (ascribe_u16)attrs;
	memcpy(set->header.attrs_size, &v, 2);
	set->prefix.total_size = (ascribe_u16)(ASCRIBE_PREFIX_SIZE + ASCRIBE_HEADER_SIZE + attrs);
}

ASCRIBE_HOT ascribe_u64 ascribe_set_xor(const struct ascribe_label_set *set)
{
	return ascribe_xor_of_key(set->prefix.set_id);
}

ASCRIBE_HOT void ascribe_set_identify(struct ascribe_label_set *set, ascribe_u64 x)
{
	set->prefix.set_id = ascribe_key_of_xor(x);
}

/* a points at {key, len, bytes}. */
ASCRIBE_HOT ascribe_u64 ascribe_attr_hash(const ascribe_u8 *a)
{
	return ascribe_hash(ascribe_state_v1.hash[a[0]], a + 2, a[1]);
}

/* 0 when the set has neither trace nor span id. */
ASCRIBE_HOT ascribe_u64 ascribe_trace_hash(const struct ascribe_record_header *h)
{
	ascribe_u64 w[3];
	memcpy(w, h, sizeof(w));
	return w[0] | w[1] | w[2] ? ascribe_hash(ASCRIBE_SEED_TRACE, h, sizeof(w)) : 0;
}

/* The set whose header the slot holds. Only for what this library published. */
ASCRIBE_HOT const struct ascribe_label_set *ascribe_set_of(const struct ascribe_record_header *h)
{
	return (const struct ascribe_label_set *)(const void *)((const char *)h -
								offsetof(struct ascribe_label_set,
									 header));
}

/* The empty set. */
ASCRIBE_FN void ascribe_set_init(struct ascribe_label_set *set)
{
	memset(set, 0, offsetof(struct ascribe_label_set, attrs));
	set->keys = &ascribe_state_v1.keys;
	set->prefix.magic = ASCRIBE_RECORD_MAGIC;
	set->prefix.abi = ASCRIBE_ABI_VERSION;
	set->prefix.set_id = ASCRIBE_SET_EMPTY;
	set->header.valid = 1;
	ascribe_set_size(set, 0);
}

/* dst must not be attached. Copies what is used, not the whole structure. */
ASCRIBE_FN void ascribe_set_copy(struct ascribe_label_set *dst, const struct ascribe_label_set *src)
{
	memcpy(dst, src,
	       offsetof(struct ascribe_label_set, attrs) + ascribe_attrs_size(&src->header));
}

/* Longest prefix of a value that fits and ends between two UTF-8 characters. */
ASCRIBE_HOT size_t ascribe_value_cut(const char *value, size_t len)
{
	if (len <= ASCRIBE_VALUE_MAX)
		return len;
	for (size_t n = ASCRIBE_VALUE_MAX; n > ASCRIBE_VALUE_MAX - 4; n--)
		if (((ascribe_u8)value[n] & 0xc0) != 0x80)
			return n;
	return ASCRIBE_VALUE_MAX; /* not UTF-8 */
}

/* Take the key's attribute out of the set, in either of its types. */
ASCRIBE_FN void ascribe_set_remove(struct ascribe_label_set *set, unsigned int key)
{
	unsigned int size = ascribe_attrs_size(&set->header), at = 0;
	unsigned int other = __atomic_load_n(&ascribe_state_v1.sibling[key], __ATOMIC_ACQUIRE);
	while (at < size) {
		ascribe_u8 *a = set->attrs + at;
		unsigned int n = 2u + a[1];
		if (a[0] != key && a[0] + 1u != other) {
			at += n;
			continue;
		}
		ascribe_set_identify(set, ascribe_set_xor(set) ^ ascribe_attr_hash(a));
		memmove(a, a + n, size - at - n);
		size -= n;
		ascribe_set_size(set, size);
	}
}

/*
 * Add an attribute by the number of its key (ascribe_key()); a negative number is handed back. A
 * value of the same key goes in any case: rather no value than a wrong one. text: len <=
 * ASCRIBE_VALUE_MAX bytes.
 */
ASCRIBE_FN int ascribe_set_put(struct ascribe_label_set *set, int key, const char *text, size_t len)
{
	if (key < 0) {
		set->dropped++;
		return key;
	}
	if (ascribe_attrs_size(&set->header))
		ascribe_set_remove(set, (unsigned int)key);
	unsigned int size = ascribe_attrs_size(&set->header);
	if (len > ASCRIBE_VALUE_MAX || size + 2 + len > ASCRIBE_ATTRS_MAX) {
		set->dropped++;
		return -ENOSPC;
	}
	ascribe_u8 *a = set->attrs + size;
	a[0] = (ascribe_u8)key;
	a[1] = (ascribe_u8)len;
	if (len)
		memcpy(a + 2, text, len);
	ascribe_set_identify(set, ascribe_set_xor(set) ^ ascribe_attr_hash(a));
	ascribe_set_size(set, size + 2 + (unsigned int)len);
	return 0;
}

/*
 * The calls that add a label. The set must not be attached. 0, or the label is left out (and the
 * set's `dropped` counts it). -EINVAL: no key, no value or a key of more than 63 bytes. -ENOSPC:
 * record or key table full. A key that the set has gets the new value. Strings are UTF-8; more than
 * 255 bytes are cut at a character.
 */
ASCRIBE_FN int ascribe_set_add_bytes(struct ascribe_label_set *set, const char *key, size_t key_len,
				     const char *value, size_t len)
{
	if (!value) {
		set->dropped++;
		return -EINVAL;
	}
	return ascribe_set_put(set, ascribe_key(key, key_len, ASCRIBE_KEY_STRING), value,
			       ascribe_value_cut(value, len));
}

ASCRIBE_HOT int ascribe_set_add_string(struct ascribe_label_set *set, const char *key,
				       const char *value)
{
	return ascribe_set_add_bytes(set, key, key ? strlen(key) : 0, value,
				     value ? strlen(value) : 0);
}

/* Decimal text of v, right-aligned in out[20]; returns where it begins. */
ASCRIBE_FN unsigned int ascribe_decimal(char out[20], ascribe_u64 v)
{
	unsigned int at = 20;
	do
		out[--at] = (char)('0' + v % 10);
	while (v /= 10);
	return at;
}

ASCRIBE_FN int ascribe_set_add_int_n(struct ascribe_label_set *set, const char *key, size_t key_len,
				     ascribe_s64 v)
{
	char text[21];
	unsigned int at =
		1 + ascribe_decimal(text + 1, v < 0 ? 0 - (ascribe_u64)v : (ascribe_u64)v);
	if (v < 0)
		text[--at] = '-';
	return ascribe_set_put(set, ascribe_key(key, key_len, ASCRIBE_KEY_INT), text + at,
			       sizeof(text) - at);
}

/* Beyond the range of int64 a number is published as a string of digits. */
ASCRIBE_FN int ascribe_set_add_uint_n(struct ascribe_label_set *set, const char *key,
				      size_t key_len, ascribe_u64 v)
{
	char text[20];
	unsigned int at;
	if (v <= (~0ull >> 1))
		return ascribe_set_add_int_n(set, key, key_len, (ascribe_s64)v);
	at = ascribe_decimal(text, v);
	return ascribe_set_put(set, ascribe_key(key, key_len, ASCRIBE_KEY_STRING), text + at,
			       sizeof(text) - at);
}

ASCRIBE_HOT int ascribe_set_add_int(struct ascribe_label_set *set, const char *key,
				    ascribe_s64 value)
{
	return ascribe_set_add_int_n(set, key, key ? strlen(key) : 0, value);
}

ASCRIBE_HOT int ascribe_set_add_uint(struct ascribe_label_set *set, const char *key,
				     ascribe_u64 value)
{
	return ascribe_set_add_uint_n(set, key, key ? strlen(key) : 0, value);
}

/* W3C trace context in binary; all zero (or NULL) takes it away. */
ASCRIBE_FN void ascribe_set_trace(struct ascribe_label_set *set, const void *trace_id_16,
				  const void *span_id_8, unsigned char flags)
{
	ascribe_u64 x = ascribe_set_xor(set) ^ ascribe_trace_hash(&set->header);
	memset(&set->header, 0, 24);
	if (trace_id_16)
		memcpy(set->header.trace_id, trace_id_16, 16);
	if (span_id_8)
		memcpy(set->header.span_id, span_id_8, 8);
	set->header.trace_flags = flags;
	ascribe_set_identify(set, x ^ ascribe_trace_hash(&set->header));
}

/* Which keys (of either type) a set has. */
ASCRIBE_HOT void ascribe_set_keys(const struct ascribe_label_set *set, ascribe_u64 bits[4])
{
	const ascribe_u8 *a = set->attrs, *end = a + ascribe_attrs_size(&set->header);
	bits[0] = bits[1] = bits[2] = bits[3] = 0;
	for (; a < end; a += 2 + a[1]) {
		unsigned int other =
			__atomic_load_n(&ascribe_state_v1.sibling[a[0]], __ATOMIC_ACQUIRE);
		bits[a[0] / 64] |= 1ull << a[0] % 64;
		if (other)
			bits[(other - 1) / 64] |= 1ull << (other - 1) % 64;
	}
}

/*
 * out = outer and inner, inner wins. The identity needs no hashing but of what is left out. When
 * both do not fit, attributes of the outer set are dropped: the inner one is nearer to the work.
 */
ASCRIBE_COLD void ascribe_set_merge(struct ascribe_label_set *out,
				    const struct ascribe_label_set *outer,
				    const struct ascribe_label_set *inner)
{
	unsigned int inner_size = ascribe_attrs_size(&inner->header), size = 0;
	const ascribe_u8 *a = outer->attrs, *end = a + ascribe_attrs_size(&outer->header);
	ascribe_u64 x = ascribe_set_xor(outer) ^ ascribe_set_xor(inner);
	ascribe_u64 trace = ascribe_trace_hash(&inner->header), bits[4];
	ascribe_set_keys(inner, bits);
	memcpy(out, outer, offsetof(struct ascribe_label_set, attrs));
	out->dropped += inner->dropped;
	for (unsigned int n; a < end; a += n) {
		n = 2u + a[1];
		int overridden = bits[a[0] / 64] >> a[0] % 64 & 1;
		if (overridden || size + n > ASCRIBE_ATTRS_MAX - inner_size) {
			x ^= ascribe_attr_hash(a);
			out->dropped += !overridden;
			continue;
		}
		memcpy(out->attrs + size, a, n);
		size += n;
	}
	memcpy(out->attrs + size, inner->attrs, inner_size);
	if (trace) {
		x ^= ascribe_trace_hash(&outer->header);
		memcpy(&out->header, &inner->header, ASCRIBE_HEADER_SIZE);
	}
	out->prefix.parent_id = outer->prefix.set_id;
	ascribe_set_identify(out, x);
	ascribe_set_size(out, size + inner_size);
}

/* Add the labels of a set that another module built: its key numbers mean nothing here. */
ASCRIBE_COLD void ascribe_set_adopt(struct ascribe_label_set *out,
				    const struct ascribe_label_set *foreign)
{
	const ascribe_u8 *a = foreign->attrs, *end = a + ascribe_attrs_size(&foreign->header);
	ascribe_u32 bytes = __atomic_load_n(&foreign->keys->bytes, __ATOMIC_ACQUIRE);
	const ascribe_u8 *text = foreign->keys->text;
	for (; a < end; a += 2 + a[1]) {
		ascribe_u32 at = 0;
		for (unsigned int k = 0; k < a[0] && at < bytes; k++)
			at += 2u + text[at + 1];
		if (at < bytes)
			ascribe_set_put(
				out,
				ascribe_key((const char *)text + at + 2, text[at + 1], text[at]),
				(const char *)a + 2, a[1]);
	}
	out->dropped += foreign->dropped;
	if (ascribe_trace_hash(&foreign->header))
		ascribe_set_trace(out, foreign->header.trace_id, foreign->header.span_id,
				  foreign->header.trace_flags);
}

/* ---- attaching ---- */

/* What is attached to this thread, NULL: nothing. */
ASCRIBE_HOT const struct ascribe_record_header *ascribe_current(void)
{
	return ascribe_slot_load(ascribe_slot_offset());
}

/*
 * Replace what is attached by next (NULL: nothing) and return what was. No union. This is the
 * switch for coroutines, fibers and event loops: one store. next is &set.header of a set of this
 * module, or a value that ascribe_current() or ascribe_swap() returned in this module, and must
 * live while it is attached.
 */
ASCRIBE_HOT const struct ascribe_record_header *
ascribe_swap(const struct ascribe_record_header *next)
{
	ascribe_s64 off = ascribe_slot_offset();
	const struct ascribe_record_header *prev = ascribe_slot_load(off);
	ascribe_slot_store(off, next);
	return prev;
}

/*
 * Memory of one attachment, usually on the stack. No initialisation needed; `set` is used only for
 * a union.
 */
struct ascribe_scope {
	const struct ascribe_record_header *prev;
	struct ascribe_label_set set;
};

/* Begin a scope's own set with what is attached. */
ASCRIBE_COLD void ascribe_scope_begin(struct ascribe_scope *scope)
{
	scope->prev = ascribe_current();
	if (!scope->prev) {
		ascribe_set_init(&scope->set);
		return;
	}
	ascribe_set_copy(&scope->set, ascribe_set_of(scope->prev));
	scope->set.prefix.parent_id = scope->set.prefix.set_id;
}

ASCRIBE_COLD void ascribe_attach_slow(struct ascribe_scope *scope,
				      const struct ascribe_label_set *set)
{
	const struct ascribe_record_header *next = &scope->set.header;
	if (set->keys != &ascribe_state_v1.keys) {
		ascribe_scope_begin(scope);
		ascribe_set_adopt(&scope->set, set);
	} else if (ascribe_set_of(scope->prev)->prefix.set_id == set->prefix.set_id) {
		next = &set->header; /* recursion: the union is the set itself */
	} else {
		ascribe_set_merge(&scope->set, ascribe_set_of(scope->prev), set);
	}
	ascribe_slot_store(ascribe_slot_offset(), next);
}

/* Attach set on top of what is attached, until ascribe_detach(scope). */
ASCRIBE_HOT void ascribe_attach(struct ascribe_scope *scope, const struct ascribe_label_set *set)
{
	ascribe_s64 off = ascribe_slot_offset();
	scope->prev = ascribe_slot_load(off);
	if (__builtin_expect(!scope->prev && set->keys == &ascribe_state_v1.keys, 1))
		ascribe_slot_store(off, &set->header);
	else
		ascribe_attach_slow(scope, set);
}

ASCRIBE_HOT void ascribe_detach(struct ascribe_scope *scope)
{
	ascribe_slot_store(ascribe_slot_offset(), scope->prev);
}

/* One label, built in the scope and attached. The results are those of ascribe_set_add_*. */
ASCRIBE_FN int ascribe_attach_string(struct ascribe_scope *scope, const char *key,
				     const char *value)
{
	ascribe_scope_begin(scope);
	int err = ascribe_set_add_string(&scope->set, key, value);
	ascribe_slot_store(ascribe_slot_offset(), &scope->set.header);
	return err;
}

ASCRIBE_FN int ascribe_attach_int(struct ascribe_scope *scope, const char *key, ascribe_s64 value)
{
	ascribe_scope_begin(scope);
	int err = ascribe_set_add_int(&scope->set, key, value);
	ascribe_slot_store(ascribe_slot_offset(), &scope->set.header);
	return err;
}

ASCRIBE_FN int ascribe_attach_uint(struct ascribe_scope *scope, const char *key, ascribe_u64 value)
{
	ascribe_scope_begin(scope);
	int err = ascribe_set_add_uint(&scope->set, key, value);
	ascribe_slot_store(ascribe_slot_offset(), &scope->set.header);
	return err;
}

#ifdef __cplusplus
} /* extern "C" */

ASCRIBE_FN int ascribe_attach_value(struct ascribe_scope *s, const char *k, const char *v)
{
	return ascribe_attach_string(s, k, v);
}
#define ASCRIBE_OVERLOAD_(type, what, as) \
	ASCRIBE_FN int ascribe_attach_value(struct ascribe_scope *s, const char *k, type v) \
	{ \
		return ascribe_attach_##what(s, k, static_cast<as>(v)); \
	}
ASCRIBE_OVERLOAD_(int, int, ascribe_s64)
ASCRIBE_OVERLOAD_(long, int, ascribe_s64)
ASCRIBE_OVERLOAD_(long long, int, ascribe_s64)
ASCRIBE_OVERLOAD_(unsigned int, uint, ascribe_u64)
ASCRIBE_OVERLOAD_(unsigned long, uint, ascribe_u64)
ASCRIBE_OVERLOAD_(unsigned long long, uint, ascribe_u64)
#undef ASCRIBE_OVERLOAD_
#pragma GCC diagnostic pop
#else
#define ascribe_attach_value(scope, key, value) \
	_Generic((value), \
		char *: ascribe_attach_string, \
		const char *: ascribe_attach_string, \
		unsigned int: ascribe_attach_uint, \
		unsigned long: ascribe_attach_uint, \
		unsigned long long: ascribe_attach_uint, \
		default: ascribe_attach_int)(scope, key, value)
#endif

/*
 * ASCRIBE_LABEL_SCOPE("tenant", name): a label from here to the end of the enclosing block. The
 * value is a string or an integer and is copied. Two statements: not the body of an if without
 * braces.
 */
#define ASCRIBE_LABEL_SCOPE(key, value) ASCRIBE_LABEL_SCOPE2_(key, value, __COUNTER__)
#define ASCRIBE_LABEL_SCOPE2_(key, value, n) ASCRIBE_LABEL_SCOPE3_(key, value, n)
#define ASCRIBE_LABEL_SCOPE3_(key, value, n) \
	struct ascribe_scope ascribe_scope_##n##_ __attribute__((cleanup(ascribe_detach))); \
	(void)ascribe_attach_value(&ascribe_scope_##n##_, key, value)

#endif
