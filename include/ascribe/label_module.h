/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * What each module (executable or shared library) that labels its work has of its own. That is the
 * thread-local slot that says what is attached, the table of keys, and the descriptor by which a
 * profiler finds both. Included by label.h, which has what applications call; not for applications.
 */
#if defined(ASCRIBE_LABEL_H) && !defined(ASCRIBE_LABEL_MODULE_H)
#define ASCRIBE_LABEL_MODULE_H

#define ASCRIBE_TEXT2_(x) #x
#define ASCRIBE_TEXT_(x) ASCRIBE_TEXT2_(x)

/*
 * What this module keeps. keys is what a profiler reads; the rest finds keys quickly. Zero is the
 * empty state.
 */
struct ascribe_module_state {
	struct ascribe_key_table keys;
	/* owner of the registration: tgid << 32 | a number of the thread; 0: free */
	ascribe_u64 lock;
	ascribe_u64 reserved;
	ascribe_u64 hash[256];	 /* by key: seed of the hash of its values */
	ascribe_u16 offset[256]; /* by key: where its entry stands in keys.text */
	/* By key: 1 + the key of the same name and the other type, 0: none */
	ascribe_u8 sibling[256];
	/* Open addressing by hash: 1 + key, 0: empty; never more than half full */
	ascribe_u8 index[512];
};
#define ASCRIBE_STATE_SIZE_ 7440
ASCRIBE_ABI_ASSERT(sizeof(struct ascribe_module_state) == ASCRIBE_STATE_SIZE_, "module state");

/*
 * Behind the slot stands what OpenTelemetry's readers look for, by this name in programs: otel.h.
 */
#if defined(ASCRIBE_NO_OTEL) || (defined(__PIC__) && !defined(__PIE__) && !defined(ASCRIBE_OTEL))
#define ASCRIBE_OTEL_SYMBOL_
#else
#define ASCRIBE_OTEL_SYMBOL_ \
	".weak otel_thread_ctx_v1\n" \
	".type otel_thread_ctx_v1, @tls_object\n" \
	".size otel_thread_ctx_v1, 8\n" \
	"otel_thread_ctx_v1:\n"
#endif

/*
 * One COMDAT group per module holds the note, the descriptor, the key table and the slot. Any
 * number of translation units may include this header, in C or C++. The linker keeps one group, and
 * keeps it whole under --gc-sections. (.ifndef: link-time optimisation puts the text of all units
 * into one assembly.)
 */
/* clang-format off */
__asm__(".ifndef ascribe_descriptor_v1\n"
	".pushsection .note.ascribe,\"aG\",@note,ascribe_group_v1,comdat\n"
	".balign 4\n"
	".long 8, 16, " ASCRIBE_TEXT_(ASCRIBE_NOTE_TYPE) "\n"
	".asciz \"" ASCRIBE_NOTE_NAME "\"\n"
	".long " ASCRIBE_TEXT_(ASCRIBE_ABI_VERSION) ", 0\n"
	".quad ascribe_descriptor_v1 - .\n"
	".popsection\n"
	".pushsection .data.ascribe,\"awG\",@progbits,ascribe_group_v1,comdat\n"
	".balign 8\n"
	".weak ascribe_descriptor_v1\n"
	".hidden ascribe_descriptor_v1\n"
	".type ascribe_descriptor_v1, @object\n"
	".size ascribe_descriptor_v1, 24\n"
	"ascribe_descriptor_v1:\n"
	".zero 24\n"
	".popsection\n"
	".pushsection .bss.ascribe,\"awG\",@nobits,ascribe_group_v1,comdat\n"
	".balign 64\n"
	".weak ascribe_state_v1\n"
	".hidden ascribe_state_v1\n"
	".type ascribe_state_v1, @object\n"
	".size ascribe_state_v1, " ASCRIBE_TEXT_(ASCRIBE_STATE_SIZE_) "\n"
	"ascribe_state_v1:\n"
	".zero " ASCRIBE_TEXT_(ASCRIBE_STATE_SIZE_) "\n"
	".popsection\n"
	".pushsection .tbss.ascribe,\"awTG\",@nobits,ascribe_group_v1,comdat\n"
	".balign 16\n"
	".weak ascribe_slot_v1\n"
	".hidden ascribe_slot_v1\n"
	".type ascribe_slot_v1, @tls_object\n"
	".size ascribe_slot_v1, 8\n"
	"ascribe_slot_v1:\n"
	".zero 8\n"
	ASCRIBE_OTEL_SYMBOL_
	".zero 8\n"
	".popsection\n"
	".endif\n");
/* clang-format on */

extern struct ascribe_descriptor ascribe_descriptor_v1 __attribute__((visibility("hidden")));
extern struct ascribe_module_state ascribe_state_v1 __attribute__((visibility("hidden")));

/*
 * The slot. The compiler never sees it as a thread-local variable: it would keep its address in a
 * register across a fiber switch, and the fiber may wake up on another thread. The offset from the
 * thread pointer is the same for all threads and may be kept; the thread pointer is used afresh by
 * each access. (A plain initial-exec variable has one more flaw: gcc folds its GOT load into cmp
 * and sub, which ld cannot relax.)
 */
#ifdef __x86_64__
ASCRIBE_HOT ascribe_s64 ascribe_slot_offset(void)
{
	ascribe_s64 off;
	__asm__("movq ascribe_slot_v1@gottpoff(%%rip), %0" : "=r"(off));
	return off;
}

ASCRIBE_HOT const struct ascribe_record_header *ascribe_slot_load(ascribe_s64 off)
{
	const struct ascribe_record_header *p;
	__asm__ __volatile__("movq %%fs:(%1), %0" : "=r"(p) : "r"(off) : "memory");
	return p;
}

ASCRIBE_HOT void ascribe_slot_put(ascribe_s64 off, const struct ascribe_record_header *p)
{
	__asm__ __volatile__("movq %0, %%fs:(%1)" : : "r"(p), "r"(off) : "memory");
}

ASCRIBE_HOT ascribe_u64 ascribe_thread_number(void)
{
	ascribe_u64 tp;
	__asm__ __volatile__("movq %%fs:0, %0" : "=r"(tp));
	return tp;
}
#else
ASCRIBE_HOT ascribe_s64 ascribe_slot_offset(void)
{
	ascribe_s64 off;
	__asm__("adrp %0, :gottprel:ascribe_slot_v1\n\t"
		"ldr %0, [%0, #:gottprel_lo12:ascribe_slot_v1]"
		: "=r"(off));
	return off;
}

ASCRIBE_HOT const struct ascribe_record_header *ascribe_slot_load(ascribe_s64 off)
{
	const struct ascribe_record_header *p;
	__asm__ __volatile__("mrs %0, tpidr_el0\n\tldr %0, [%0, %1]"
			     : "=&r"(p)
			     : "r"(off)
			     : "memory");
	return p;
}

ASCRIBE_HOT void ascribe_slot_put(ascribe_s64 off, const struct ascribe_record_header *p)
{
	ascribe_u64 tp;
	__asm__ __volatile__("mrs %0, tpidr_el0\n\tstr %1, [%0, %2]"
			     : "=&r"(tp)
			     : "r"(p), "r"(off)
			     : "memory");
}

ASCRIBE_HOT ascribe_u64 ascribe_thread_number(void)
{
	ascribe_u64 tp;
	__asm__ __volatile__("mrs %0, tpidr_el0" : "=r"(tp));
	return tp;
}
#endif

#ifdef ASCRIBE_NO_OTEL
#define ascribe_otel_init() ((void)0)
#define ascribe_otel_publish(keys) ((void)(keys))
#define ascribe_slot_store(off, p) ascribe_slot_put(off, p)
#else
#include "otel.h"
#endif

/*
 * Make the module readable; runs before main or inside dlopen, once per translation unit (to no
 * harm: each writes the same). tp_offset goes last, it says that the rest is there.
 */
static void __attribute__((constructor(101), used)) ascribe_module_init(void)
{
	struct ascribe_descriptor *d = &ascribe_descriptor_v1;
	ascribe_state_v1.keys.magic = ASCRIBE_KEYS_MAGIC;
	d->magic = ASCRIBE_DESCRIPTOR_MAGIC;
	d->abi = ASCRIBE_ABI_VERSION;
	d->size = (ascribe_u16)sizeof(*d);
	d->key_table = (ascribe_u64)(size_t)&ascribe_state_v1.keys;
	ascribe_otel_init();
	__atomic_store_n(&d->tp_offset, ascribe_slot_offset(), __ATOMIC_RELEASE);
}

/* ---- keys ---- */

/*
 * A number for this thread in this process; lower words of two threads are alike only 64 GiB apart.
 */
ASCRIBE_COLD ascribe_u64 ascribe_lock_owner(void)
{
	return (ascribe_u64)(ascribe_u32)getpid() << 32 |
	       (ascribe_u32)(ascribe_thread_number() >> 4);
}

/*
 * Registration only. After a fork the owner may be a thread that the child does not have: its tgid
 * tells, and the lock is taken over. Nothing is half done then that matters, see
 * ascribe_key_register().
 */
ASCRIBE_COLD int ascribe_lock(ascribe_u64 me)
{
	for (unsigned int spins = 0;; spins++) {
		ascribe_u64 owner = 0;
		if (__atomic_compare_exchange_n(&ascribe_state_v1.lock, &owner, me, 0,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return 0;
		if (owner == me)
			return -EDEADLK;
		if (owner >> 32 != me >> 32 &&
		    __atomic_compare_exchange_n(&ascribe_state_v1.lock, &owner, me, 0,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return 0;
		if (spins > 100)
			sched_yield();
	}
}

ASCRIBE_HOT int ascribe_key_is(ascribe_u32 at, const char *name, size_t len, int type)
{
	const ascribe_u8 *e = ascribe_state_v1.keys.text + at;
	return e[0] == type && e[1] == len && memcmp(e + 2, name, len) == 0;
}

/* Make the key findable without the lock, unless it is already. */
ASCRIBE_COLD void ascribe_key_index(ascribe_u64 hash, unsigned int key)
{
	ascribe_u8 *index = ascribe_state_v1.index;
	ascribe_u64 at = hash % 512;
	while (index[at] && index[at] != key + 1)
		at = (at + 1) % 512;
	__atomic_store_n(&index[at], (ascribe_u8)(key + 1), __ATOMIC_RELEASE);
}

/*
 * The store to keys.bytes is what makes the key exist; what stands behind it before is free to be
 * rewritten.
 */
ASCRIBE_COLD int ascribe_key_register(ascribe_u64 hash, const char *name, size_t len, int type)
{
	struct ascribe_module_state *m = &ascribe_state_v1;
	unsigned int n = 0, same_name = 0;
	ascribe_u32 at = 0, end;
	int err = ascribe_lock(ascribe_lock_owner());
	if (err)
		return err;
	for (end = m->keys.bytes; at < end; at += 2u + m->keys.text[at + 1], n++) {
		if (ascribe_key_is(at, name, len, type))
			goto out;
		if (ascribe_key_is(at, name, len, !type))
			same_name = n + 1;
	}
	if (n >= ASCRIBE_KEYS_MAX || len + 2 > ASCRIBE_KEYS_TEXT_MAX - at) {
		err = -ENOSPC;
		goto unlock;
	}
	m->keys.text[at] = (ascribe_u8)type;
	m->keys.text[at + 1] = (ascribe_u8)len;
	memcpy(m->keys.text + at + 2, name, len);
	m->hash[n] = hash;
	m->offset[n] = (ascribe_u16)at;
	m->sibling[n] = (ascribe_u8)same_name;
	__atomic_store_n(&m->keys.bytes, at + 2 + (ascribe_u32)len, __ATOMIC_RELEASE);
	if (same_name)
		__atomic_store_n(&m->sibling[same_name - 1], (ascribe_u8)(n + 1), __ATOMIC_RELEASE);
	ascribe_otel_publish(&m->keys);
out:
	ascribe_key_index(hash, n);
unlock:
	__atomic_store_n(&m->lock, 0, __ATOMIC_RELEASE);
	return err ? err : (int)n;
}

/*
 * The number of a key, new or known, 0 .. ASCRIBE_KEYS_MAX - 1. Thread-safe, lock-free for a known
 * key. -EINVAL: no name or more than ASCRIBE_KEY_MAX bytes. -ENOSPC: the table is full (255 keys or
 * 4080 bytes of names, each with 2 bytes on top). -EDEADLK: see the rules.
 */
ASCRIBE_FN int ascribe_key(const char *name, size_t len, int type)
{
	const struct ascribe_module_state *m = &ascribe_state_v1;
	if (!name || len == 0 || len > ASCRIBE_KEY_MAX)
		return -EINVAL;
	ascribe_u64 hash = ascribe_key_hash(0, type, name, len);
	for (ascribe_u64 at = hash % 512;; at = (at + 1) % 512) {
		unsigned int e = __atomic_load_n(&m->index[at], __ATOMIC_ACQUIRE);
		if (!e)
			return ascribe_key_register(hash, name, len, type);
		if (m->hash[e - 1] == hash && ascribe_key_is(m->offset[e - 1], name, len, type))
			return (int)e - 1;
	}
}

#endif
