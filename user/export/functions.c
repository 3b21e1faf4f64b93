/* SPDX-License-Identifier: Apache-2.0 */
#include "export/functions.h"
#include "export/text.h"
#include "util/array.h"

#include <string.h>

int functions_init(struct functions *t, const struct export_source *src)
{
	*t = (struct functions){ .src = src, .n_frames = store_n_frames(src->store) };
	t->by_frame = calloc(t->n_frames + 1, sizeof(*t->by_frame));
	return t->by_frame ? 0 : -ENOMEM;
}

void functions_fini(struct functions *t)
{
	intern_fini(&t->keys);
	free(t->by_frame);
	free(t->frame);
	buf_fini(&t->key);
}

/* A key is these numbers and the name behind them. */
struct key {
	uint32_t module, build_id, file, kind;
};

static int make_key(struct functions *t, uint32_t frame)
{
	char name[TEXT_NAME_MAX] = "(other)";
	const struct store_frame *f = export_frame(t->src->store, frame);
	const struct key key = { f->module, f->build_id, f->file, f->kind };
	if (frame)
		query_name(t->src->query, frame, name, sizeof(name));
	t->key.len = 0;
	int rc = buf_add(&t->key, &key, sizeof(key));
	return rc ? rc : buf_add(&t->key, name, strlen(name));
}

/* Exports that read while they write see frames that were not there at first. */
static int reserve(struct functions *t, uint32_t frame)
{
	const size_t n = store_n_frames(t->src->store);
	if (frame < t->n_frames || frame >= n)
		return 0;
	uint32_t *v = reallocarray(t->by_frame, n + n / 4 + 1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	memset(v + t->n_frames, 0, (n + n / 4 + 1 - t->n_frames) * sizeof(*v));
	t->by_frame = v;
	t->n_frames = n + n / 4;
	return 0;
}

int functions_find(struct functions *t, uint32_t frame, uint32_t *ret)
{
	int rc = reserve(t, frame);
	bool known = frame < t->n_frames, new;
	if (!rc && known && t->by_frame[frame]) {
		*ret = t->by_frame[frame] - 1;
		return 0;
	}
	rc = rc ? rc : make_key(t, frame);
	rc = rc ? rc : ARRAY_RESERVE(t->frame, t->cap, t->keys.n + 1);
	rc = rc ? rc : intern_add(&t->keys, t->key.data, t->key.len, ret, &new);
	if (rc)
		return rc;
	if (new)
		t->frame[*ret] = frame;
	if (known)
		t->by_frame[frame] = *ret + 1;
	return 0;
}

const char *functions_name(struct functions *t, uint32_t function, size_t *ret_len)
{
	size_t len;
	const char *key = intern_get(&t->keys, function, &len);
	*ret_len = len - sizeof(struct key);
	return key + sizeof(struct key);
}
