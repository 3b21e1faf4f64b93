/* SPDX-License-Identifier: Apache-2.0 */
/* The names that are shown for frames. */
#include "query/query_int.h"

#include "symbols/names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NAME_MAX_BYTES 8192

void query_name(const struct query *q, uint32_t frame, char *out, size_t cap)
{
	char full[NAME_MAX_BYTES];
	if (q->names == QUERY_NAMES_FULL) {
		query_frame_name(q->store, frame, out, cap);
		return;
	}
	query_frame_name(q->store, frame, full, sizeof(full));
	if (q->names == QUERY_NAMES_FOLDED)
		name_fold_clones(full, out, cap);
	else
		name_simplify(full, out, cap);
}

void query_frame_name(const struct store *s, uint32_t frame, char *out, size_t cap)
{
	const struct store_frame *f = store_frame(s, frame);
	if (!f) { /* frame 0: what the budget of the query cut */
		snprintf(out, cap, "(other)");
		return;
	}
	if (f->function) {
		snprintf(out, cap, "%s", store_string(s, f->function, NULL));
		return;
	}
	const char *module = store_string(s, f->module, NULL), *slash = strrchr(module, '/');
	if (slash && slash[1])
		module = slash + 1;
	snprintf(out, cap, "%s+0x%" PRIx64, *module ? module : "[unknown]", f->offset);
}
