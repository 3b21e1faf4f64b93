/* SPDX-License-Identifier: Apache-2.0 */
#include "export/lines.h"

#include <errno.h>
#include <string.h>

#define PARTS ";" /* separates frames */

static void put_line(const struct export_source *src, const struct export_lines *lines,
		     const struct export_line *l, FILE *f)
{
	uint32_t frames[EXPORT_DEPTH_MAX];
	char name[4096];
	const struct store *s = src->store;
	size_t len, n = export_stack(s, l->stack, frames);
	const char *comm = intern_get(&lines->comms, l->comm, &len);
	export_put_name(comm, len, PARTS, f);
	while (n--) {
		const struct store_frame *frame = store_frame(s, frames[n]);
		query_name(src->query, frames[n], name, sizeof(name));
		putc(';', f);
		export_put_name(name, strlen(name), PARTS, f);
		if (frame && frame->kind == FRAME_KERNEL)
			fputs("_[k]", f);
		else if (frame && frame->flags & FRAME_INLINED)
			fputs("_[i]", f);
	}
	if (l->other)
		fputs(";(other)", f);
	fprintf(f, " %llu\n", (unsigned long long)l->n);
}

int export_folded(const struct export_source *src, enum export_unit unit, FILE *f, struct err *err)
{
	struct export_lines lines;
	int rc = export_lines_init(&lines, src, unit);
	errno = 0;
	for (size_t i = 0; !rc && i < lines.n && !ferror(f); i++)
		put_line(src, &lines, &lines.v[i], f);
	if (!rc && (ferror(f) || fflush(f)))
		rc = errno ? -errno : -EIO;
	export_lines_fini(&lines);
	return rc ? err_sys(err, rc, "folded stacks") : 0;
}
