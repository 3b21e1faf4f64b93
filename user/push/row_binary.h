/* SPDX-License-Identifier: Apache-2.0 */
/* What inserts into ClickHouse share: values in RowBinary, the address, tokens. */
#ifndef ASCRIBE_PUSH_ROW_BINARY_H
#define ASCRIBE_PUSH_ROW_BINARY_H

#include "push/message.h"

int row_binary_text(struct buf *b, const char *s, size_t len);
int row_binary_name(struct buf *b, const char *s);
/* Of a label, as text. */
int row_binary_value(struct buf *b, const struct label *l);

/* The frames of a row's stack, leaf first; return how many. */
size_t row_binary_frames(const struct export_source *src, const struct store_row *row,
			 const struct store_frame *ret[EXPORT_DEPTH_MAX + 1]);
/* A text of each of them: the string whose id is at `member` of struct store_frame. */
int row_binary_strings(struct buf *b, const struct store *s,
		       const struct store_frame *const *frames, size_t n, size_t member);

/* Where an INSERT goes. target: "TABLE (COLUMNS)"; token: "": none. */
void row_binary_post(const struct push_message *m, struct push_post *p, const char *target,
		     const char *token);

/* The same for the same rows of the same window and event, [m->part.from, m->part.end). */
#define ROW_BINARY_TOKEN 120
void row_binary_token(const struct push_message *m, char token[ROW_BINARY_TOKEN]);

#endif
