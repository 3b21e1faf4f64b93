/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file format of speedscope (https://www.speedscope.app/file-format-schema.json): one sampled
 * profile, whose samples are lists of frame numbers, root first. The root is the program's name.
 * Written in two passes over the lines, so memory grows with the distinct frames alone. The frames
 * come last: their number is known then.
 */
#include "export/lines.h"
#include "export/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct scope_file {
	const struct export_source *src;
	struct export_lines lines;
	struct intern frames; /* "name\0file\0" */
	uint32_t *by_frame;   /* [n_frames + 1]: number + 1 of a store's frame; 0: not known yet */
	uint32_t *by_comm;    /* [lines.comms.n]: likewise */
	struct text text;
	FILE *f;
};

/* The number of a frame of this name in this file. */
static int add_frame(struct scope_file *o, const char *name, size_t name_len, const char *file,
		     size_t file_len, uint32_t *ret)
{
	char key[8192];
	size_t n = name_len < 4095 ? name_len : 4095, m = file_len < 4095 ? file_len : 4095;
	memcpy(key, name, n);
	key[n] = 0;
	memcpy(key + n + 1, file, m);
	key[n + 1 + m] = 0;
	return intern_add(&o->frames, key, n + m + 2, ret, NULL);
}

static int find_frame(struct scope_file *o, uint32_t id, uint32_t *ret)
{
	char name[4096];
	size_t len;
	uint32_t *known = &o->by_frame[id];
	if (*known) {
		*ret = *known - 1;
		return 0;
	}
	const struct store_frame *frame = export_frame(o->src->store, id);
	const char *file =
		store_string(o->src->store, frame->file ? frame->file : frame->module, &len);
	query_name(o->src->query, id, name, sizeof(name));
	int rc =
		add_frame(o, id ? name : "(other)", id ? strlen(name) : 7, file, id ? len : 0, ret);
	*known = rc ? 0 : *ret + 1;
	return rc;
}

static int find_comm(struct scope_file *o, uint32_t comm, uint32_t *ret)
{
	size_t len;
	if (!o->by_comm[comm]) {
		const char *name = intern_get(&o->lines.comms, comm, &len);
		int rc = add_frame(o, name, len, "", 0, ret);
		if (rc)
			return rc;
		o->by_comm[comm] = *ret + 1;
	}
	*ret = o->by_comm[comm] - 1;
	return 0;
}

static int put_sample(struct scope_file *o, const struct export_line *l)
{
	uint32_t frames[EXPORT_DEPTH_MAX], id;
	size_t n = export_stack(o->src->store, l->stack, frames);
	int rc = find_comm(o, l->comm, &id);
	fprintf(o->f, "[%u", id);
	while (!rc && n--) {
		rc = find_frame(o, frames[n], &id);
		fprintf(o->f, ",%u", id);
	}
	if (!rc && l->other) {
		rc = find_frame(o, 0, &id);
		fprintf(o->f, ",%u", id);
	}
	fputs("]", o->f);
	return rc;
}

/* speedscope knows nanoseconds and bytes; all else has no unit. */
static const char *unit_name(const struct export_lines *l, const struct query_info *info)
{
	const struct store_event *e = info->event;
	const char *unit = !e				   ? "none"
			   : l->values && e->ns_per_sample ? "nanoseconds"
			   : l->values			   ? e->unit
							   : query_counts(info);
	return !strcmp(unit, "nanoseconds") || !strcmp(unit, "bytes") ? unit : "none";
}

static int put_profile(struct scope_file *o)
{
	const struct query_info *info = query_info(o->src->query);
	const char *name = info->event ? info->event->name : "samples";
	uint64_t total = 0;
	int rc = 0;
	for (size_t i = 0; i < o->lines.n; i++)
		total += o->lines.v[i].n;
	fputs("{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":"
	      "\"ascribe\",\"activeProfileIndex\":0,\"profiles\":[{\"type\":\"sampled\",\"name\":",
	      o->f);
	rc = text_json(&o->text, name, strlen(name));
	fprintf(o->f, ",\"unit\":\"%s\",\"startValue\":0,\"endValue\":%llu,\"samples\":[\n",
		unit_name(&o->lines, info), (unsigned long long)total);
	for (size_t i = 0; !rc && i < o->lines.n && !ferror(o->f); i++) {
		rc = put_sample(o, &o->lines.v[i]);
		fputs(i + 1 < o->lines.n ? ",\n" : "\n", o->f);
	}
	fputs("],\"weights\":[\n", o->f);
	for (size_t i = 0; !rc && i < o->lines.n && !ferror(o->f); i++)
		fprintf(o->f, "%s%llu", i ? "," : "", (unsigned long long)o->lines.v[i].n);
	fputs("\n]}],\"shared\":{\"frames\":[\n", o->f);
	return rc;
}

static int put_frames(struct scope_file *o)
{
	int rc = 0;
	for (uint32_t i = 0; !rc && i < o->frames.n && !ferror(o->f); i++) {
		size_t len;
		const char *name = intern_get(&o->frames, i, &len), *file = name + strlen(name) + 1;
		fputs(i ? ",\n{\"name\":" : "{\"name\":", o->f);
		rc = text_json(&o->text, name, strlen(name));
		if (!rc && *file) {
			fputs(",\"file\":", o->f);
			rc = text_json(&o->text, file, strlen(file));
		}
		fputs("}", o->f);
	}
	fputs("\n]}}\n", o->f);
	return rc;
}

int export_speedscope(const struct export_source *src, enum export_unit unit, FILE *f,
		      struct err *err)
{
	struct scope_file o = { .src = src, .text = { .f = f }, .f = f };
	const struct query_info *info = query_info(src->query);
	/* Its reader draws time, where the samples stand for it. */
	if (unit == EXPORT_BY_EVENT && info->event && info->event->ns_per_sample && !info->amounts)
		unit = EXPORT_VALUE;
	int rc = export_lines_init(&o.lines, src, unit);
	errno = 0;
	o.by_frame = calloc(store_n_frames(src->store) + 1, sizeof(*o.by_frame));
	o.by_comm = calloc(o.lines.comms.n + 1, sizeof(*o.by_comm));
	rc = rc ? rc : o.by_frame && o.by_comm ? 0 : -ENOMEM;
	rc = rc ? rc : put_profile(&o);
	rc = rc ? rc : put_frames(&o);
	if (!rc && (ferror(f) || fflush(f)))
		rc = -EIO;
	if (rc)
		rc = err_sys(err, rc == -EIO && errno ? -errno : rc, "speedscope");
	export_lines_fini(&o.lines);
	intern_fini(&o.frames);
	text_fini(&o.text);
	free(o.by_frame);
	free(o.by_comm);
	return rc;
}
