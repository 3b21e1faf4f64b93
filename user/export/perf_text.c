/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `perf script` prints, for the many scripts that read it:
 *
 *   comm  tgid/tid seconds: period event:
 *   	address function (file)           leaf first; an empty line ends the sample
 *
 * Write an entry for each sample; of waits, one for each row, whose period is its time. The period
 * times the samples is the row's value. A store keeps no instant of each sample for long, so they
 * are spread over the range. Ids that no label says are 0.
 */
#include "export/lines.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define KERNEL_BASE UINT64_C(0xffffffff00000000) /* what makes an address one of the kernel's */

struct script {
	const struct export_source *src;
	const struct query_info *info;
	const struct store_event *event;
	bool one_each; /* write an entry for each sample */
	uint64_t n, all;
	FILE *f;
};

static int64_t id_of(const struct script *o, uint32_t set, const char *key)
{
	const struct label *id = export_label(o->src->query, set, key);
	return id && id->type == LABEL_INT && id->num > 0 && id->num <= INT32_MAX ? id->num : 0;
}

/* A comm that is empty, or begins with a space, would shift the fields. */
static void put_comm(const struct label *comm, FILE *f)
{
	const bool text = comm && comm->type == LABEL_STRING && comm->str_len;
	if (!text || comm->str[0] == ' ')
		putc('_', f);
	if (text)
		export_put_name(comm->str, comm->str_len, "", f);
}

/* Events have no spaces: that would end their field. */
static void put_event(const char *name, FILE *f)
{
	for (; *name; name++)
		putc(*name > ' ' && *name != 0x7f ? *name : '_', f);
}

static void put_frame(const struct script *o, uint32_t id)
{
	const struct store_frame *frame = export_frame(o->src->store, id);
	const bool kernel = frame->kind == FRAME_KERNEL;
	char name[4096];
	size_t len;
	const char *module = store_string(o->src->store, frame->module, &len);
	query_name(o->src->query, id, name, sizeof(name));
	fprintf(o->f, "\t%16" PRIx64 " ", kernel ? KERNEL_BASE | frame->offset : frame->offset);
	if (id)
		export_put_name(name, strlen(name), "", o->f);
	else
		fputs("(other)", o->f);
	fputs(" (", o->f);
	if (frame->flags & FRAME_INLINED)
		fputs("inlined", o->f);
	else if (kernel && !strcmp(module, "[kernel]"))
		fputs("[kernel.kallsyms]", o->f);
	else if (len)
		export_put_name(module, len, "", o->f);
	else
		fputs("[unknown]", o->f);
	fputs(")\n", o->f);
}

static void put_sample(struct script *o, const struct store_row *row, const uint32_t *frames,
		       size_t depth, uint64_t period)
{
	const double part = (double)o->n++ / (double)(o->all ? o->all : 1);
	const uint64_t at = (uint64_t)o->info->from_ns +
			    (uint64_t)(part * (double)(o->info->to_ns - o->info->from_ns));
	put_comm(export_label(o->src->query, row->set, "comm"), o->f);
	fprintf(o->f, " %6" PRId64 "/%-6" PRId64 " %" PRIu64 ".%09" PRIu64 ": %10" PRIu64 " ",
		id_of(o, row->set, "tgid"), id_of(o, row->set, "tid"), at / 1000000000,
		at % 1000000000, period);
	put_event(o->event->name, o->f);
	fputs(":\n", o->f);
	for (size_t i = 0; i < depth; i++)
		put_frame(o, frames[i]);
	putc('\n', o->f);
}

static void put_row(struct script *o, const struct store_row *row)
{
	uint32_t frames[EXPORT_DEPTH_MAX + 1];
	const size_t depth = export_row_stack(o->src, row, frames);
	uint64_t value = export_value(o->event, row), n = o->one_each ? row->samples : 1;
	for (uint64_t i = 0; i < n && !ferror(o->f); i++) {
		const uint64_t period = value / (n - i); /* what is left, in equal parts */
		put_sample(o, row, frames, depth, period);
		value -= period;
	}
}

int export_perf_script(const struct export_source *src, enum export_unit unit, FILE *f,
		       struct err *err)
{
	static const struct store_event no_event = { "samples", "count", 0, 0 };
	const struct query_info *info = query_info(src->query);
	struct script o = {
		.src = src, .info = info, .event = info->event ? info->event : &no_event, .f = f
	};
	size_t n;
	const struct store_row *rows = query_rows(src->query, &n);
	o.one_each =
		!info->amounts && (o.event->ns_per_sample || strcmp(o.event->unit, "nanoseconds"));
	(void)unit; /* a period is a value, an entry a sample */
	for (size_t i = 0; i < n; i++)
		o.all += o.one_each ? rows[i].samples : 1;
	errno = 0;
	for (size_t i = 0; i < n && !ferror(f); i++)
		put_row(&o, &rows[i]);
	if (ferror(f) || fflush(f))
		return err_sys(err, errno ? -errno : -EIO, "perf script");
	return 0;
}
