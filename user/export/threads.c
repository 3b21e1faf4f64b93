/* SPDX-License-Identifier: Apache-2.0 */
#include "export/threads.h"

#include "export/text.h"
#include "util/array.h"
#include "util/utf8.h"

#include <string.h>

static const char *const thread_keys[] = { "tgid", "tid" };
static const char *const naming[] = { "tgid", "tid", "thread", "comm" };

int threads_init(struct threads *t, const char *const *keys, size_t n_keys)
{
	*t = (struct threads){ .keys = n_keys ? keys : thread_keys, .n_keys = n_keys ? n_keys : 2 };
	int rc = setpool_init(&t->sets);
	return rc ? rc : setpool_init(&t->values);
}

void threads_fini(struct threads *t)
{
	setpool_fini(&t->sets);
	setpool_fini(&t->values);
	free(t->v);
	free(t->of_set);
	buf_fini(&t->text);
}

static bool of_host(const struct threads *t)
{
	return t->keys == thread_keys;
}

static const struct label *find(const struct label *labels, size_t n, const char *key)
{
	for (size_t i = 0; i < n; i++)
		if (labels[i].key_len == strlen(key) && !memcmp(labels[i].key, key, strlen(key)))
			return &labels[i];
	return NULL;
}

/* ---- from label sets to threads ---- */

static int64_t number(const struct label *l, int64_t none)
{
	return l && l->type == LABEL_INT && l->num >= 0 && l->num <= INT32_MAX ? l->num : none;
}

/* Values beyond the limit share the thread of the empty set. */
static int find_thread(struct threads *t, const struct label *labels, size_t n, uint32_t set,
		       uint32_t *ret)
{
	struct label of[STORE_SET_MAX];
	size_t k = 0;
	for (size_t i = 0; i < t->n_keys && k < STORE_SET_MAX; i++) {
		const struct label *l = find(labels, n, t->keys[i]);
		if (l)
			of[k++] = *l;
	}
	*ret = 0;
	if (t->values.n >= THREADS_MAX && !setpool_find(&t->values, of, k, ret))
		return 0;
	int rc = setpool_add(&t->values, of, k, ret);
	rc = rc ? rc : ARRAY_RESERVE(t->v, t->cap, t->values.n);
	if (rc)
		return rc;
	for (; t->n < t->values.n; t->n++)
		t->v[t->n] = (struct thread){ (uint32_t)t->n + 1, (uint32_t)t->n + 1, set };
	if (of_host(t)) {
		struct thread *v = &t->v[*ret];
		v->tid = (uint32_t)number(find(of, k, "tid"), 0);
		v->pid = (uint32_t)number(find(of, k, "tgid"), v->tid);
	}
	return 0;
}

/* Keep of a label set what names its thread: without room for more. */
static size_t cut(const struct threads *t, const struct label *labels, size_t n,
		  struct label out[4])
{
	size_t k = 0;
	for (size_t i = 0; of_host(t) && i < 4; i++)
		if (find(labels, n, naming[i]))
			out[k++] = *find(labels, n, naming[i]);
	return k;
}

int threads_set(struct threads *t, const struct label *labels, size_t n, uint32_t *ret)
{
	struct label few[4];
	if (setpool_bytes(&t->sets) > THREADS_SETS_BYTES &&
	    !setpool_find(&t->sets, labels, n, ret)) {
		n = cut(t, labels, n, few);
		labels = few;
	}
	int rc = setpool_add(&t->sets, labels, n, ret);
	rc = rc ? rc : ARRAY_RESERVE(t->of_set, t->cap_sets, t->sets.n);
	if (rc)
		return rc;
	for (; t->n_sets < t->sets.n; t->n_sets++)
		t->of_set[t->n_sets] = UINT32_MAX;
	return t->of_set[*ret] == UINT32_MAX ? find_thread(t, labels, n, *ret, &t->of_set[*ret])
					     : 0;
}

/* ---- descriptions ---- */

static int add_text(struct threads *t, const struct label *l, bool key)
{
	char value[TEXT_NAME_MAX];
	size_t len = l ? label_text(l, value, sizeof(value)) : 0;
	len = len < sizeof(value) ? len : sizeof(value) - 1;
	int rc = key && l ? utf8_repair(&t->text, l->key, l->key_len) : 0;
	rc = rc || !key || !l ? rc : buf_add(&t->text, "=", 1);
	return rc ? rc : utf8_repair(&t->text, value, len);
}

/* "tenant=acme, endpoint=/pay" */
static int add_values(struct threads *t, uint32_t thread)
{
	const struct label *labels;
	const size_t n = setpool_get(&t->values, thread, &labels);
	int rc = 0;
	for (size_t i = 0; !rc && i < n; i++) {
		rc = i ? buf_add(&t->text, ", ", 2) : 0;
		rc = rc ? rc : add_text(t, &labels[i], true);
	}
	return rc || n ? rc : buf_add(&t->text, "(none)", 6);
}

int threads_names(struct threads *t, uint32_t i, size_t *ret_process)
{
	const struct label *labels;
	const size_t n = setpool_get(&t->sets, t->v[i].set, &labels);
	const struct label *comm = find(labels, n, "comm"), *thread = find(labels, n, "thread");
	t->text.len = 0;
	int rc = of_host(t) ? add_text(t, comm, false) : add_values(t, i);
	*ret_process = t->text.len;
	if (rc)
		return rc;
	return of_host(t) ? add_text(t, thread ? thread : comm, false) : add_values(t, i);
}

bool threads_say(const struct label *l)
{
	for (size_t i = 0; i < 4; i++)
		if (l->key_len == strlen(naming[i]) && !memcmp(l->key, naming[i], l->key_len))
			return true;
	return false;
}
