/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * The labels of the calling thread as plain functions of libascribe-label.so, for languages that
 * call C but cannot include C. C and C++ programs include label.h instead, and link nothing.
 *
 * Rules
 *  - Each call works on the calling thread alone. A new thread has no labels.
 *  - Labels are a value: ascribe_thread_save() copies them out, ascribe_thread_restore() replaces
 *    them. That serves scopes, thread pools and tasks alike. Nobody has to free anything.
 *  - No argument can damage the process: a call on the wrong thread or in the wrong order attaches
 *    wrong labels, no more.
 *  - A thread's first call allocates 1.5 KiB; the end of the thread frees them.
 *  - A child of fork keeps the labels of the thread that called fork.
 *  - Do not call these from signal handlers.
 *  - Text is UTF-8 by pointer and length. It may hold zeros, and needs no zero behind it. Bytes
 *    that are no UTF-8 are published as they are.
 */
#ifndef ASCRIBE_LABEL_THREAD_H
#define ASCRIBE_LABEL_THREAD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes that hold the labels of any thread. */
#define ASCRIBE_THREAD_SAVED_MAX 672

/*
 * Set a label, or give it a new value. The thread keeps it until it is set, unset or restored away.
 * 0, or the label is left out, with an older value of its key:
 *   -EINVAL: no value, no key, or a key of more than 63 bytes
 *   -ENOSPC: the thread's labels exceed 612 bytes, or the process has 255 other keys
 *   -ENOMEM: no memory for the labels of this thread
 * A value of more than 255 bytes is cut between two UTF-8 characters.
 */
int ascribe_thread_set(const char *key, size_t key_len, const char *value, size_t value_len);
int ascribe_thread_set_int(const char *key, size_t key_len, int64_t value);

/*
 * Set the W3C trace context: 16 and 8 bytes, and the trace flags. NULL stands for zeros; all zero
 * takes the trace context away. 0 or -ENOMEM.
 */
int ascribe_thread_set_trace(const void *trace_id_16, const void *span_id_8, unsigned int flags);

/* Take a label away. 0, also where there was none. -EINVAL: no key, or more than 63 bytes. */
int ascribe_thread_unset(const char *key, size_t key_len);

/*
 * Copy the labels of this thread to out[size]. The number of bytes, 0 when there are none. -ENOSPC:
 * they need more than size; ASCRIBE_THREAD_SAVED_MAX is always enough. The bytes have a meaning in
 * this process alone.
 */
int ascribe_thread_save(void *out, size_t size);

/*
 * Replace the labels of this thread by saved ones, of any thread of this process. Size 0: by none.
 * 0, or nothing is changed. -EINVAL: these are no saved labels. -ENOMEM: as above.
 */
int ascribe_thread_restore(const void *saved, size_t size);

#ifdef __cplusplus
}
#endif
#endif
