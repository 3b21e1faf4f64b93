/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * libascribe-label.so: the calling thread's labels as plain functions. Each labelled thread has two
 * sets. One is attached, or none; a call builds the other one and attaches it with one store. So no
 * set changes while a profiler may read it.
 */
#include <ascribe/label.h>
#include <ascribe/label_thread.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#define SAVED_MIN (ASCRIBE_PREFIX_SIZE + ASCRIBE_HEADER_SIZE)
#define EXPORTED __attribute__((visibility("default")))

_Static_assert(ASCRIBE_THREAD_SAVED_MAX == SAVED_MIN + ASCRIBE_ATTRS_MAX, "a whole set");

struct thread_labels {
	struct ascribe_label_set set[2];
	unsigned int attached; /* index of the set that the slot holds, if any */
};

static pthread_key_t thread_key;
static bool thread_key_exists;

static void thread_end(void *labels)
{
	ascribe_swap(NULL);
	free(labels);
}

/* Behind ascribe_module_init(), which has priority 101. */
static void __attribute__((constructor(102))) thread_init(void)
{
	thread_key_exists = pthread_key_create(&thread_key, thread_end) == 0;
}

/* The labels of the calling thread, NULL: no memory. */
static struct thread_labels *thread_get(void)
{
	struct thread_labels *t;
	if (!thread_key_exists)
		return NULL;
	t = pthread_getspecific(thread_key);
	if (t)
		return t;
	t = calloc(1, sizeof(*t));
	if (t && pthread_setspecific(thread_key, t)) {
		free(t);
		t = NULL;
	}
	return t;
}

/* Begin the other set with what is attached. */
static struct ascribe_label_set *set_begin(struct thread_labels *t)
{
	struct ascribe_label_set *next = &t->set[!t->attached];
	if (!ascribe_current()) {
		ascribe_set_init(next);
		return next;
	}
	const struct ascribe_label_set *set = &t->set[t->attached];
	ascribe_set_copy(next, set);
	next->prefix.parent_id = set->prefix.set_id;
	return next;
}

/* Attach the other set; detach when that is empty. */
static void set_end(struct thread_labels *t)
{
	const struct ascribe_label_set *next = &t->set[!t->attached];
	if (!ascribe_attrs_size(&next->header) && !ascribe_trace_hash(&next->header)) {
		ascribe_swap(NULL);
		return;
	}
	ascribe_swap(&next->header);
	t->attached = !t->attached;
}

EXPORTED int ascribe_thread_set(const char *key, size_t key_len, const char *value,
				size_t value_len)
{
	struct thread_labels *t = thread_get();
	if (!t)
		return -ENOMEM;
	int rc = ascribe_set_add_bytes(set_begin(t), key, key_len, value, value_len);
	set_end(t);
	return rc;
}

EXPORTED int ascribe_thread_set_int(const char *key, size_t key_len, int64_t value)
{
	struct thread_labels *t = thread_get();
	if (!t)
		return -ENOMEM;
	int rc = ascribe_set_add_int_n(set_begin(t), key, key_len, value);
	set_end(t);
	return rc;
}

EXPORTED int ascribe_thread_set_trace(const void *trace_id_16, const void *span_id_8,
				      unsigned int flags)
{
	struct thread_labels *t = thread_get();
	if (!t)
		return -ENOMEM;
	ascribe_set_trace(set_begin(t), trace_id_16, span_id_8, (unsigned char)flags);
	set_end(t);
	return 0;
}

EXPORTED int ascribe_thread_unset(const char *key, size_t key_len)
{
	if (!key || !key_len || key_len > ASCRIBE_KEY_MAX)
		return -EINVAL;
	if (!ascribe_current())
		return 0;
	struct thread_labels *t = thread_get();
	if (!t)
		return -ENOMEM;
	struct ascribe_label_set *next = set_begin(t);
	/* By name, as a key must not be registered to be taken away. */
	for (unsigned int at = 0; at < ascribe_attrs_size(&next->header);) {
		const ascribe_u8 *a = next->attrs + at;
		ascribe_u32 text = ascribe_state_v1.offset[a[0]];
		if (ascribe_key_is(text, key, key_len, ASCRIBE_KEY_STRING) ||
		    ascribe_key_is(text, key, key_len, ASCRIBE_KEY_INT))
			ascribe_set_remove(next, a[0]);
		else
			at += 2u + a[1];
	}
	set_end(t);
	return 0;
}

EXPORTED int ascribe_thread_save(void *out, size_t size)
{
	const struct ascribe_record_header *header = ascribe_current();
	if (!header)
		return 0;
	const struct ascribe_record_prefix *prefix = &ascribe_set_of(header)->prefix;
	if (!out || size < prefix->total_size)
		return -ENOSPC;
	memcpy(out, prefix, prefix->total_size);
	return prefix->total_size;
}

/* Is this what ascribe_thread_save() made? Enough of it that nothing reads or writes beyond. */
static bool is_saved(const struct ascribe_label_set *set, size_t size)
{
	size_t attrs = size - SAVED_MIN, at = 0;
	if (set->prefix.magic != ASCRIBE_RECORD_MAGIC || set->prefix.abi != ASCRIBE_ABI_VERSION ||
	    set->prefix.total_size != size || !set->prefix.set_id || set->header.valid != 1 ||
	    ascribe_attrs_size(&set->header) != attrs)
		return false;
	while (at + 2 <= attrs)
		at += 2u + set->attrs[at + 1];
	return at == attrs;
}

EXPORTED int ascribe_thread_restore(const void *saved, size_t size)
{
	struct thread_labels *t;
	if (!size) {
		ascribe_swap(NULL);
		return 0;
	}
	if (!saved || size < SAVED_MIN || size > ASCRIBE_THREAD_SAVED_MAX)
		return -EINVAL;
	t = thread_get();
	if (!t)
		return -ENOMEM;
	struct ascribe_label_set *next = &t->set[!t->attached];
	ascribe_set_init(next);
	memcpy(&next->prefix, saved, size);
	next->prefix.reserved = 0;
	if (!is_saved(next, size))
		return -EINVAL;
	set_end(t);
	return 0;
}
