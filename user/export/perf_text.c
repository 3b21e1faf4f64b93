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
#include "util/buf.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define KERNEL_BASE UINT64_C(0xffffffff00000000) /* what makes an address one of the kernel's */
#define BLOCK_BYTES (128u << 10)		 /* stays in the cache of a core */
#define TIMES_MAX 64				 /* a time of 21 bytes, and a period of 20 digits */

struct script {
	const struct export_source *src;
	const struct query_info *info;
	const struct store_event *event;
	bool one_each; /* write an entry for each sample */
	uint64_t n, all;
	/* Of the row at hand: what its entries begin with, [0, head), and what they end with */
	char *row_text;
	size_t text_len, head;
	FILE *text; /* the stream that makes it */
	struct buf block;
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
	fprintf(o->text, "\t%16" PRIx64 " ", kernel ? KERNEL_BASE | frame->offset : frame->offset);
	if (id)
		export_put_name(name, strlen(name), "", o->text);
	else
		fputs("(other)", o->text);
	fputs(" (", o->text);
	if (frame->flags & FRAME_INLINED)
		fputs("inlined", o->text);
	else if (kernel && !strcmp(module, "[kernel]"))
		fputs("[kernel.kallsyms]", o->text);
	else if (len)
		export_put_name(module, len, "", o->text);
	else
		fputs("[unknown]", o->text);
	fputs(")\n", o->text);
}

/* What the entries of a row have in common: the text before the time, and behind the period. */
static int make_row(struct script *o, const struct store_row *row)
{
	uint32_t frames[EXPORT_DEPTH_MAX + 1];
	const size_t depth = export_row_stack(o->src, row, frames);
	rewind(o->text);
	put_comm(export_label(o->src->query, row->set, "comm"), o->text);
	fprintf(o->text, " %6" PRId64 "/%-6" PRId64 " ", id_of(o, row->set, "tgid"),
		id_of(o, row->set, "tid"));
	o->head = (size_t)ftello(o->text);
	put_event(o->event->name, o->text);
	fputs(":\n", o->text);
	for (size_t i = 0; i < depth; i++)
		put_frame(o, frames[i]);
	putc('\n', o->text);
	return fflush(o->text) ? -ENOMEM : 0;
}

/* Write the digits of n in front of `end`, with zeros at least `width`; return where they begin. */
static char *put_digits(char *end, uint64_t n, unsigned width)
{
	char *at = end;
	do
		*--at = (char)('0' + n % 10);
	while (n /= 10);
	while (end - at < width)
		*--at = '0';
	return at;
}

/* Make the time and the period of the next sample; return their length. */
static size_t make_times(struct script *o, uint64_t period, char out[TIMES_MAX])
{
	const double part = (double)o->n++ / (double)(o->all ? o->all : 1);
	const uint64_t at = (uint64_t)o->info->from_ns +
			    (uint64_t)(part * (double)(o->info->to_ns - o->info->from_ns));
	char text[TIMES_MAX], *end = text + sizeof(text), *p = end;
	*--p = ' ';
	p = put_digits(p, period, 1);
	while (end - p < 11)
		*--p = ' ';
	*--p = ' ';
	*--p = ':';
	p = put_digits(p, at % 1000000000, 9);
	*--p = '.';
	p = put_digits(p, at / 1000000000, 1);
	memcpy(out, p, (size_t)(end - p));
	return (size_t)(end - p);
}

static int add_entry(struct script *o, const char *times, size_t len)
{
	const size_t tail = o->text_len - o->head;
	int rc = buf_reserve(&o->block, o->text_len + len);
	rc = rc ? rc : buf_add(&o->block, o->row_text, o->head);
	rc = rc ? rc : buf_add(&o->block, times, len);
	return rc ? rc : buf_add(&o->block, o->row_text + o->head, tail);
}

static void put_block(const struct script *o, size_t len)
{
	if (len)
		fwrite(o->block.data, 1, len, o->f);
}

/*
 * Entries of a row differ in times alone. Write a block of them again and again with other times
 * put in, as long as these have the same length.
 */
static int put_row(struct script *o, const struct store_row *row)
{
	uint64_t value = export_value(o->event, row), n = o->one_each ? row->samples : 1;
	size_t at = 0, len = 0; /* in the block; of its times */
	int rc = make_row(o, row);
	o->block.len = 0;
	for (uint64_t i = 0; !rc && i < n && !ferror(o->f); i++) {
		const uint64_t period = value / (n - i); /* what is left, in equal parts */
		char times[TIMES_MAX];
		const size_t now = make_times(o, period, times);
		value -= period;
		if (now != len || at + o->text_len + len > BLOCK_BYTES) {
			put_block(o, at);
			o->block.len = now == len ? o->block.len : 0;
			len = now;
			at = 0;
		}
		if (at == o->block.len)
			rc = add_entry(o, times, len);
		else
			memcpy(o->block.data + at + o->head, times, len);
		at += o->text_len + len;
	}
	if (!rc)
		put_block(o, at);
	return rc;
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
	o.text = open_memstream(&o.row_text, &o.text_len);
	int rc = o.text ? 0 : -ENOMEM;
	for (size_t i = 0; !rc && i < n && !ferror(f); i++)
		rc = put_row(&o, &rows[i]);
	if (!rc && (ferror(f) || fflush(f)))
		rc = errno ? -errno : -EIO;
	if (o.text)
		fclose(o.text);
	free(o.row_text);
	buf_fini(&o.block);
	return rc ? err_sys(err, rc, "perf script") : 0;
}
