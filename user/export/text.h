/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and labels, whose bytes other programs chose, as text for the formats of export.h. Errors
 * of the stream stay in it (ferror). One thread at a time may use a struct text.
 */
#ifndef ASCRIBE_EXPORT_TEXT_H
#define ASCRIBE_EXPORT_TEXT_H

#include "export/export.h"
#include "util/buf.h"

#define TEXT_NAME_MAX 4096 /* bytes of a name with its NUL; longer ones are cut */

struct text {
	FILE *f;
	struct buf room;	  /* the caller's */
	struct buf quoted, whole; /* of the text at hand */
};

/* All zero but for f is valid. */
void text_fini(struct text *t);

/* Write a JSON string. Bytes that are no UTF-8 become U+FFFD. 0 or -ENOMEM. */
int text_json(struct text *t, const char *s, size_t len);

/* Write a decimal number: half of an export is numbers, and fprintf takes most of its time. */
void text_number(FILE *f, uint64_t n);

/*
 * Put the values of a label set into t->room, with a NUL: the value alone of one label, "k=v, k=v"
 * of several, '""' for an empty value, "(none)" without a label. 0 or -ENOMEM.
 */
int text_set(struct text *t, const struct query *q, uint32_t set);

#endif
