/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/jit.h"

#include "symbols/jit_int.h"
#include "symbols/symbolizer.h"
#include "util/array.h"
#include "util/bisect.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- saying ---- */

int jit_say_again(struct jit_said *s, uint64_t addr, uint64_t size, uint32_t name)
{
	if (!size || size > INT32_MAX || addr > UINT64_MAX - size) {
		s->failures++;
		return 0;
	}
	if (s->n == JIT_ENTRIES_MAX)
		return -E2BIG;
	int rc = ARRAY_RESERVE(s->v, s->cap, s->n + 1);
	if (!rc)
		s->v[s->n++] =
			(struct jit_entry){ .addr = addr, .size = (uint32_t)size, .name = name };
	return rc;
}

int jit_say(struct jit_said *s, uint64_t addr, uint64_t size, const char *name, size_t len)
{
	if (len > JIT_NAME_MAX)
		len = JIT_NAME_MAX;
	if (s->names.len + len + 1 > JIT_NAMES_MAX)
		return -E2BIG;
	uint32_t at = (uint32_t)s->names.len;
	int rc = buf_add(&s->names, name, len);
	rc = rc ? rc : buf_add_u8(&s->names, 0);
	return rc ? rc : jit_say_again(s, addr, size, at);
}

/* ---- later wins ---- */

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

/*
 * Paint the line of addresses, the last entry first, each where nobody painted before it. points:
 * all starts and ends, sorted; owner[i]: who has [points[i], points[i + 1]), 1-based; next[i]: the
 * first piece from i on that is still free.
 */
struct canvas {
	uint64_t *points;
	uint32_t *owner;
	uint32_t *next;
	size_t n;
};

static size_t point_of(const struct canvas *c, uint64_t addr)
{
	return bisect(i, 0, c->n, c->points[i] < addr);
}

static uint32_t next_free(struct canvas *c, uint32_t i)
{
	while (c->next[i] != i) {
		c->next[i] = c->next[c->next[i]];
		i = c->next[i];
	}
	return i;
}

static int canvas_init(struct canvas *c, const struct jit_said *s)
{
	size_t n = 0;
	c->points = malloc((2 * s->n + 1) * sizeof(*c->points));
	c->owner = calloc(2 * s->n + 1, sizeof(*c->owner));
	c->next = malloc((2 * s->n + 1) * sizeof(*c->next));
	if (!c->points || !c->owner || !c->next)
		return -ENOMEM;
	for (size_t i = 0; i < s->n; i++) {
		c->points[2 * i] = s->v[i].addr;
		c->points[2 * i + 1] = s->v[i].addr + s->v[i].size;
	}
	qsort(c->points, 2 * s->n, sizeof(*c->points), compare_u64);
	for (size_t i = 0; i < 2 * s->n; i++)
		if (!n || c->points[i] != c->points[n - 1])
			c->points[n++] = c->points[i];
	for (size_t i = 0; i <= n; i++)
		c->next[i] = (uint32_t)i;
	c->n = n;
	return 0;
}

static void paint(struct canvas *c, const struct jit_said *s)
{
	for (size_t e = s->n; e-- > 0;) {
		uint32_t from = (uint32_t)point_of(c, s->v[e].addr);
		uint32_t to = (uint32_t)point_of(c, s->v[e].addr + s->v[e].size);
		for (uint32_t i = next_free(c, from); i < to; i = next_free(c, i)) {
			c->owner[i] = (uint32_t)e + 1;
			c->next[i] = i + 1;
		}
	}
}

static int encode(const struct canvas *c, const struct jit_said *s, struct buf *out)
{
	uint32_t n = 0;
	int rc = buf_add_u32(out, 0); /* the number, below */
	rc = rc ? rc : buf_add_u32(out, (uint32_t)s->names.len);
	rc = rc ? rc : buf_add_u32(out, s->failures);
	for (size_t i = 0, end; !rc && i + 1 < c->n; i = end) {
		end = i + 1;
		while (end + 1 < c->n && c->owner[end] == c->owner[i])
			end++;
		if (!c->owner[i])
			continue;
		rc = buf_add_u64(out, c->points[i]);
		rc = rc ? rc : buf_add_u32(out, (uint32_t)(c->points[end] - c->points[i]));
		rc = rc ? rc : buf_add_u32(out, s->v[c->owner[i] - 1].name);
		n++;
	}
	for (size_t i = 0; !rc && i < 4; i++)
		out->data[i] = (uint8_t)(n >> (8 * i));
	return rc ? rc : buf_add(out, s->names.data, s->names.len);
}

static int finish(int rc, struct jit_said *s, struct buf *out)
{
	struct canvas c = { 0 };
	if (rc == -E2BIG && s->n)
		rc = 0; /* what fitted counts */
	rc = rc ? rc : canvas_init(&c, s);
	if (!rc) {
		paint(&c, s);
		rc = encode(&c, s, out);
	}
	if (rc)
		out->len = 0;
	free(c.points);
	free(c.owner);
	free(c.next);
	free(s->v);
	buf_fini(&s->names);
	return rc;
}

int jit_op_perf_map(const struct sandbox_request *q, struct buf *out)
{
	struct jit_said s = { .names = BUF_INIT };
	return finish(q->n_fds ? jit_read_perf_map(&s, q->fds[0]) : -EINVAL, &s, out);
}

int jit_op_dump(const struct sandbox_request *q, struct buf *out)
{
	struct jit_said s = { .names = BUF_INIT };
	return finish(q->n_fds ? jit_read_dump(&s, q->fds[0]) : -EINVAL, &s, out);
}

/* ---- the recorder's side ---- */

static int decode_entries(struct jit_table *t, struct cursor *c)
{
	uint64_t last = 0;
	t->entries = calloc(t->n ? t->n : 1, sizeof(*t->entries));
	if (!t->entries)
		return -ENOMEM;
	for (size_t i = 0; i < t->n; i++) {
		struct jit_entry *e = &t->entries[i];
		e->addr = cursor_u64(c);
		e->size = cursor_u32(c);
		e->name = cursor_u32(c);
		if (e->addr < last || e->addr > UINT64_MAX - e->size || e->name >= t->names_len)
			return -EBADMSG;
		last = e->addr + e->size;
	}
	return 0;
}

static int decode_all(struct jit_table *t, const struct buf *in)
{
	struct cursor c = cursor_of(in);
	t->n = cursor_u32(&c);
	t->names_len = cursor_u32(&c);
	t->failures = cursor_u32(&c);
	if (c.bad || t->n > 2 * (size_t)JIT_ENTRIES_MAX ||
	    cursor_left(&c) != 16 * t->n + t->names_len)
		return -EBADMSG;
	int rc = decode_entries(t, &c);
	if (rc)
		return rc;
	const uint8_t *names = cursor_bytes(&c, t->names_len);
	if (!names || (t->names_len && names[t->names_len - 1]))
		return -EBADMSG;
	t->names = malloc(t->names_len ? t->names_len : 1);
	if (!t->names)
		return -ENOMEM;
	memcpy(t->names, names, t->names_len);
	for (size_t i = 0; i < t->names_len; i++) /* they end on terminals */
		if ((unsigned char)t->names[i] - 1u < 0x1f || t->names[i] == 0x7f)
			t->names[i] = '?';
	return 0;
}

int jit_decode(struct jit_table *ret, const struct buf *answer)
{
	struct jit_table t = { 0 };
	int rc = decode_all(&t, answer);
	if (rc)
		jit_fini(&t);
	else
		*ret = t;
	return rc;
}

int jit_read(struct jit_table *ret, struct symbolizer *s, struct symbols_job *io_job, int fd,
	     enum jit_format format)
{
	struct symbols_request q = {
		format == JIT_DUMP ? OP_JITDUMP : OP_PERF_MAP, NULL, 0, &fd, 1, JIT_TABLE_MAX
	};
	struct buf reply = BUF_INIT;
	int rc = symbolizer_ask(s, io_job, &q, &reply);
	rc = rc ? rc : jit_decode(ret, &reply);
	buf_fini(&reply);
	return rc;
}

void jit_fini(struct jit_table *t)
{
	free(t->entries);
	free(t->names);
	*t = (struct jit_table){ 0 };
}

struct jit_entry *jit_find(struct jit_table *t, uint64_t addr)
{
	size_t low = bisect(i, 0, t->n, t->entries[i].addr <= addr);
	return low && addr - t->entries[low - 1].addr < t->entries[low - 1].size
		       ? &t->entries[low - 1]
		       : NULL;
}

size_t jit_memory(const struct jit_table *t)
{
	return t->n * sizeof(*t->entries) + t->names_len;
}
