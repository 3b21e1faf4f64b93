/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/request.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Both ends are this program on this machine: arrays travel as they stand in memory. */
int unwind_encode(const struct unwind_table *t, struct buf *out)
{
	int rc = buf_reserve(out, 64 + 4 * ((size_t)t->n_pages + 1 + t->n_rows) +
					  t->n_rules * sizeof(*t->rules));
	rc = rc ? rc : buf_add_u64(out, t->first_page);
	rc = rc ? rc : buf_add_u32(out, t->n_pages);
	rc = rc ? rc : buf_add_u32(out, (uint32_t)t->n_rows);
	rc = rc ? rc : buf_add_u32(out, (uint32_t)t->n_rules);
	rc = rc ? rc : buf_add_u64(out, t->fdes);
	rc = rc ? rc : buf_add_u64(out, t->refused);
	rc = rc ? rc : buf_add(out, t->page_at, ((size_t)t->n_pages + 1) * sizeof(*t->page_at));
	rc = rc ? rc : buf_add(out, t->rows, t->n_rows * sizeof(*t->rows));
	return rc ? rc : buf_add(out, t->rules, t->n_rules * sizeof(*t->rules));
}

int unwind_op(const struct sandbox_request *q, struct buf *out)
{
	struct elf_image img;
	struct unwind_table *t = NULL;
	char name[256];
	size_t len = q->len < sizeof(name) ? q->len : sizeof(name) - 1;
	if (!q->n_fds)
		return -EINVAL;
	memcpy(name, q->bytes, len);
	name[len] = 0;
	int rc = elf_image_open(&img, q->fds[0], name, NULL);
	if (rc)
		return rc;
	rc = unwind_compile(&t, &img, name, NULL);
	elf_image_fini(&img);
	rc = rc ? rc : unwind_encode(t, out);
	unwind_table_free(t);
	return rc;
}

static void *take(struct cursor *c, size_t n, size_t size)
{
	const uint8_t *bytes = cursor_bytes(c, n * size);
	void *p = bytes ? malloc(n ? n * size : 1) : NULL;
	if (p)
		memcpy(p, bytes, n * size);
	return p;
}

/* Pages lie in the rows one behind the other, and rows name rules that are there. */
static bool is_sound(const struct unwind_table *t)
{
	static const struct unwind_rule none;
	if (!t->n_rules || t->n_rules > UNWIND_FILE_RULES_MAX ||
	    memcmp(&t->rules[0], &none, sizeof(none)))
		return false;
	for (uint32_t i = 0; i < t->n_pages; i++)
		if (t->page_at[i] > t->page_at[i + 1])
			return false;
	if (t->page_at[0] || t->page_at[t->n_pages] != t->n_rows)
		return false;
	for (size_t i = 0; i < t->n_rows; i++)
		if ((t->rows[i] & UNWIND_RULE_MASK) >= t->n_rules)
			return false;
	return true;
}

int unwind_decode(struct unwind_table **ret, const struct buf *in)
{
	struct cursor c = cursor_of(in);
	struct unwind_table *t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->first_page = cursor_u64(&c);
	t->n_pages = cursor_u32(&c);
	t->n_rows = t->cap_rows = cursor_u32(&c);
	t->n_rules = t->cap_rules = cursor_u32(&c);
	t->fdes = cursor_u64(&c);
	t->refused = cursor_u64(&c);
	bool fits = !c.bad && t->n_pages && t->n_pages <= UNWIND_FILE_PAGES_MAX &&
		    t->n_rows <= UNWIND_ROWS_MAX && t->n_rules <= UNWIND_FILE_RULES_MAX;
	if (fits) {
		t->page_at = take(&c, (size_t)t->n_pages + 1, sizeof(*t->page_at));
		t->rows = take(&c, t->n_rows, sizeof(*t->rows));
		t->rules = take(&c, t->n_rules, sizeof(*t->rules));
	}
	bool whole = fits && !c.bad && !cursor_left(&c);
	int rc = !whole					? -EBADMSG
		 : !t->page_at || !t->rows || !t->rules ? -ENOMEM
		 : is_sound(t)				? 0
							: -EBADMSG;
	if (rc) {
		unwind_table_free(t);
		return rc;
	}
	*ret = t;
	return 0;
}
