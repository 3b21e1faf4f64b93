/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Apply the records of the side-band and of the BPF programs: new images, mappings, first samples.
 */
#include "collect/collector_int.h"

#include "util/array.h"

#include <string.h>

#define NEWS_EVERY_NS \
	(NS / \
	 10) /* files are opened and label slots looked for while their process is still there */
#define ATTEND_NS (NS / 100) /* between two, or as long as one took: its caller goes on */
/* Images that the BPF programs ask about, until they are looked at: some ms */
#define ARRIVALS_MAX 16384

static void on_map(void *ctx, uint32_t tgid, uint64_t addr)
{
	struct collector *c = ctx;
	struct proc_image *im = procs_find(c->procs, tgid, UINT64_MAX);
	const struct proc_map *m = im ? proc_image_map(im, addr) : NULL;
	uint64_t at;
	if (!m)
		return;
	struct proc_file *f = m->file;
	if (!im->again) {
		unwinding_mapped(c->unwinding, im);
		ruled_look(c->ruled, im);
	}
	if (f->plain && !im->layer[PROC_LABELS])
		return;
	/*
	 * Opened at the first sight of a file: later its process may be gone, and its container
	 * with it. Where looks at its image must wait, a look or a stack opens it later.
	 */
	bool made = resolver_note_code(c->resolver, im, m);
	if (f->path[0] != '/') {
		f->plain = !made;
		return;
	}
	if (!procs_paused_until(c->procs, im)) {
		struct binary *b = resolver_binary(c->resolver, im, m);
		bool trampolines = b && !binary_trampolines(b, &at);
		f->plain = b && !made && !trampolines;
	}
	labelling_mapped(c->labelling, im, m);
}

void news_read(struct collector *c)
{
	struct sideband_loss loss;
	uint64_t since_ns = c->news_ns; /* without memory, all records from here on are missing */
	c->news_ns = proc_now_ns();
	c->next_news_ns = c->news_ns + NEWS_EVERY_NS;
	int rc = sideband_drain(c->sideband, c->procs, on_map, c, &loss);
	c->sum.sideband_lost += loss.records;
	c->sum.images_trimmed += procs_trim(c->procs);
	if (!loss.any && !rc)
		return;
	if (!rc)
		since_ns = loss.from_ns;
	c->sum.sideband_gaps++;
	if (!c->lost_to_ns)
		c->lost_from_ns = since_ns;
	c->lost_to_ns = proc_now_ns();
	procs_lost(c->procs, since_ns);
	unwinding_lost(c->unwinding);
}

void news_admit(struct collector *c)
{
	if (!c->n_arrived)
		return;
	news_read(c);
	/*
	 * The latest first: where the record of an exec was lost, /proc shows the program after the
	 * exec. An image before it must not take that name.
	 */
	for (size_t i = c->n_arrived; i-- > 0;) {
		const struct arrival *a = &c->arrived[i];
		const struct wire_record *r = &a->record;
		const struct proc_id id = { r->start_ns, r->tgid, r->exec_id };
		struct proc_image *im = procs_identify(c->procs, &id, r->at_ns, PROC_NAME);
		/* A short container's cgroup may be gone by the next drain: keep its path. */
		if (r->cgroup)
			procs_cgroup_path(c->procs, r->cgroup);
		if (c->chooser && r->cgroup)
			chooser_note(c->chooser, r->cgroup);
		if (im)
			proc_image_set_cmdline(im, a->arguments, r->size);
		if (!im || im->to_ns != UINT64_MAX)
			continue; /* it has ended by now, or has called exec */
		labelling_new_process(c->labelling, im, &id);
		unwinding_new_process(c->unwinding, im, &id);
		ruled_look(c->ruled, im);
		if (c->sets.cmdline)
			proc_image_read_cmdline(im); /* it may have ended by the next drain */
	}
	c->n_arrived = 0;
}

void news_attend(struct collector *c)
{
	uint64_t now = proc_now_ns();
	if (c->stopped || now < c->next_attend_ns)
		return;
	sampler_poll_ring(c->sampler);
	if (now >= c->next_news_ns)
		news_read(c);
	news_admit(c);
	labelling_tick(c->labelling);
	unwinding_tick(c->unwinding);
	uint64_t end = proc_now_ns();
	c->next_attend_ns = end + (end - now > ATTEND_NS ? end - now : ATTEND_NS);
}

void news_on_copy(void *ctx, const struct wire_copy *w, const uint8_t *stack)
{
	struct collector *c = ctx;
	const struct proc_id id = { w->row.start_ns, w->row.tgid, w->row.exec_id };
	uint32_t user = proc_image_user(procs_lookup(c->procs, &id));
	if (w->cpu < c->n_cpus && copies_add(c->copies, w, stack, user))
		window_add_unkept(window_cpu(c->window, w->cpu), w->half);
}

void news_on_known(void *ctx, struct proc_image *im)
{
	const struct collector *c = ctx;
	unwinding_known(c->unwinding, im);
	/* Its mappings have been read, and perhaps a file more */
	trampolines_known(c->trampolines, im);
}

static void add_arrival(struct collector *c, const struct wire_record *r, const void *arguments)
{
	if (r->size > WIRE_CMDLINE_MAX || c->n_arrived == ARRIVALS_MAX ||
	    ARRAY_RESERVE(c->arrived, c->cap_arrived, c->n_arrived + 1))
		return;
	struct arrival *a = &c->arrived[c->n_arrived++];
	a->record = *r;
	memcpy(a->arguments, arguments, r->size);
}

void news_on_record(void *ctx, const struct wire_record *r, const void *payload)
{
	struct collector *c = ctx;
	const struct proc_id id = { r->start_ns, r->tgid, r->exec_id };
	switch (r->kind) {
	case WIRE_FILLING:
		c->filling = true;
		break;
	case WIRE_SCRIPT:
		scripts_record(c->scripts, r, payload,
			       proc_image_user(procs_lookup(c->procs, &id)));
		break;
	case WIRE_NEW_MAPPING: /* a mapping that is new is in the side-band */
		c->next_news_ns = 0;
		unwinding_missed(c->unwinding, &id, r->pc);
		break;
	case WIRE_WORD:
		hotspots_told(resolver_hotspots(c->resolver), procs_lookup(c->procs, &id), r->word);
		v8s_told(resolver_v8s(c->resolver), procs_lookup(c->procs, &id), r->word);
		break;
	case WIRE_NEW_PROCESS:
		add_arrival(c, r, payload);
		break;
	default:
		labelling_record(c->labelling, r, payload);
	}
}
