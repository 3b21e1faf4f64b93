/* SPDX-License-Identifier: Apache-2.0 */
#include "push/row_binary.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

int row_binary_text(struct buf *b, const char *s, size_t len)
{
	int rc = buf_add_varint(b, len);
	return rc ? rc : buf_add(b, s, len);
}

int row_binary_name(struct buf *b, const char *s)
{
	return row_binary_text(b, s, strlen(s));
}

int row_binary_value(struct buf *b, const struct label *l)
{
	char digits[32];
	if (l->type == LABEL_STRING)
		return row_binary_text(b, l->str, l->str_len);
	return row_binary_text(b, digits, label_text(l, digits, sizeof(digits)));
}

static const struct store_frame other_frame; /* of all that was cut, whose id is 0 */

size_t row_binary_frames(const struct export_source *src, const struct store_row *row,
			 const struct store_frame *ret[EXPORT_DEPTH_MAX + 1])
{
	uint32_t ids[EXPORT_DEPTH_MAX + 1];
	size_t n = export_row_stack(src, row, ids);
	for (size_t i = 0; i < n; i++) {
		const struct store_frame *f = ids[i] ? store_frame(src->store, ids[i]) : NULL;
		ret[i] = f ? f : &other_frame;
	}
	return n;
}

int row_binary_strings(struct buf *b, const struct store *s,
		       const struct store_frame *const *frames, size_t n, size_t member)
{
	int rc = buf_add_varint(b, n);
	for (size_t i = 0; !rc && i < n; i++) {
		size_t len;
		const uint32_t *id = (const void *)((const char *)frames[i] + member);
		const char *text = store_string(s, *id, &len);
		bool other = frames[i] == &other_frame &&
			     member == offsetof(struct store_frame, function);
		rc = other ? row_binary_name(b, "(other)") : row_binary_text(b, text, len);
	}
	return rc;
}

/* Constants alone: nothing foreign is in it. */
void row_binary_post(const struct push_message *m, struct push_post *p, const char *target,
		     const char *token)
{
	size_t n = (size_t)snprintf(p->path, sizeof(p->path), "%s%cquery=INSERT+INTO+", m->to->path,
				    strchr(m->to->path, '?') ? '&' : '?');
	for (; *target && n < sizeof(p->path) - 1; target++)
		p->path[n++] = (char)(*target == ' ' ? '+' : *target);
	snprintf(p->path + n, sizeof(p->path) - n,
		 "+FORMAT+RowBinary&wait_for_async_insert=1&distributed_foreground_insert=1"
		 "&deduplicate_blocks_in_dependent_materialized_views=1%s%s",
		 *token ? "&insert_deduplication_token=" : "", token);
}

void row_binary_token(const struct push_message *m, char token[ROW_BINARY_TOKEN])
{
	const char *event = query_info(m->src.query)->event->name,
		   *where = m->src.where ? m->src.where : "";
	int n = snprintf(token, ROW_BINARY_TOKEN, "%016llx-%u-%016llx-%zu-%zu",
			 (unsigned long long)store_id(m->src.store), m->block->window_lo,
			 (unsigned long long)XXH3_64bits_withSeed(
				 event, strlen(event), XXH3_64bits(where, strlen(where))),
			 m->part.from, m->part.end);
	if (m->part.shares)
		snprintf(token + n, ROW_BINARY_TOKEN - (size_t)n, "-%u.%u", m->part.share,
			 m->part.shares);
}
