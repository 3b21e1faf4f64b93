/* SPDX-License-Identifier: Apache-2.0 */
#include "import/trie.h"

#include "util/array.h"

#include <errno.h>
#include <inttypes.h>

#define LEVELS_MAX 65536

/* A node whose children are being read. */
struct level {
	uint64_t children; /* that are still to come */
	size_t before;	   /* bytes of the stack without the node's text */
};

#define COUNT_BYTES sizeof(" 4294967295\n")

struct unfolding {
	struct cursor in;
	struct buf stack, *out;
	struct level *levels;
	size_t n, cap, max;
};

static int add_line(struct unfolding *u, uint64_t count)
{
	if (!count || !u->stack.len)
		return 0;
	if (u->out->len + u->stack.len + COUNT_BYTES > u->max)
		return -E2BIG;
	int rc = buf_add(u->out, u->stack.data, u->stack.len);
	return rc ? rc
		  : buf_printf(u->out, " %" PRIu64 "\n",
			       count < UINT32_MAX ? count : (uint64_t)UINT32_MAX);
}

/* A name that has an end of line must not end the line. */
static int add_text(struct unfolding *u, const uint8_t *text, size_t len)
{
	size_t at = u->stack.len;
	int rc = buf_add(&u->stack, text, len);
	for (; !rc && at < u->stack.len; at++)
		if (u->stack.data[at] == '\n' || !u->stack.data[at])
			u->stack.data[at] = '_';
	return rc;
}

static int read_node(struct unfolding *u)
{
	uint64_t len = cursor_long_varint(&u->in);
	size_t before = u->stack.len;
	const uint8_t *text =
		u->in.bad || len > cursor_left(&u->in) ? NULL : cursor_bytes(&u->in, (size_t)len);
	uint64_t count = cursor_long_varint(&u->in), children = cursor_long_varint(&u->in);
	if (!text || u->in.bad)
		return -EINVAL;
	if (u->n == LEVELS_MAX)
		return -E2BIG;
	int rc = ARRAY_RESERVE(u->levels, u->cap, u->n + 1);
	rc = rc ? rc : add_text(u, text, (size_t)len);
	rc = rc ? rc : add_line(u, count);
	if (rc)
		return rc;
	if (u->n)
		u->levels[u->n - 1].children--;
	u->levels[u->n++] = (struct level){ children, before };
	while (u->n && !u->levels[u->n - 1].children)
		u->stack.len = u->levels[--u->n].before;
	return 0;
}

int trie_unfold(const uint8_t *data, size_t len, size_t max, struct buf *out, struct err *err)
{
	struct unfolding u = { .in = { data, len ? data + len : data, 0 }, .out = out, .max = max };
	int rc = 0;
	while (!rc && (cursor_left(&u.in) || u.n))
		rc = read_node(&u);
	buf_fini(&u.stack);
	free(u.levels);
	if (rc == -EINVAL)
		return err_set(err, rc, "it is no whole trie");
	if (rc == -E2BIG)
		return err_set(err, rc, "the trie has too many or too long stacks");
	return rc ? err_set(err, rc, "out of memory") : 0;
}
