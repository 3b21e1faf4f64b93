/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/resolve.h"

#include "hist/metrics.h"
#include "stacks/evals.h"
#include "stacks/inlined.h"
#include "stacks/interleave.h"
#include "stacks/kernel_frames.h"
#include "stacks/module.h"

#include "go_wire.h"
#include "store/writer.h"
#include "wire.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

struct resolver {
	struct store_writer *store;
	struct symbolizer *symbolizer;
	struct procs *procs;
	struct modules *modules;
	struct frames frames;
	struct kernel_frames *kernel;
	struct inlined *inlined;
	struct jits *jits;
	struct hotspots *hotspots;
	struct v8s *v8s;
	struct resolver_detail detail;
	struct user_frame user[USER_FRAMES_MAX]; /* of the stack in hand */
	uint8_t eval[USER_FRAMES_MAX];		 /* enum eval_kind */
};

/* ---- life ---- */

/*
 * The ids that are kept for good; those of symbols and places are asked for again as they are
 * needed.
 */
int resolver_renewed(struct resolver *r)
{
	struct store_frame unknown = { .kind = FRAME_USER };
	r->frames.life++;
	if (r->frames.reasons)
		frame_reasons_clear(r->frames.reasons);
	inlined_clear(r->inlined);
	int rc = kernel_frames_renewed(r->kernel);
	rc = rc ? rc : store_add_string(r->store, "[unknown]", 9, &unknown.module);
	unknown.function = unknown.module;
	rc = rc ? rc : store_add_frame(r->store, &unknown, &r->frames.unknown);
	rc = rc ? rc : jits_renewed(r->jits);
	rc = rc ? rc : hotspots_renewed(r->hotspots);
	rc = rc ? rc : v8s_renewed(r->v8s);
	return rc ? rc : modules_renewed(r->modules);
}

int resolver_new(struct resolver **ret, struct store_writer *w, struct symbolizer *symbolizer,
		 struct procs *procs, struct err *ret_warning)
{
	struct resolver *r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->store = w;
	r->symbolizer = symbolizer;
	r->procs = procs;
	int rc = modules_new(&r->modules, w, symbolizer, procs);
	r->frames = (struct frames){ .store = w, .modules = r->modules };
	rc = rc ? rc : kernel_frames_new(&r->kernel, &r->frames, ret_warning);
	rc = rc ? rc : jits_new(&r->jits, w, symbolizer, procs);
	rc = rc ? rc : hotspots_new(&r->hotspots, w, procs);
	rc = rc ? rc : v8s_new(&r->v8s, w, procs);
	rc = rc ? rc : inlined_new(&r->inlined, &r->frames);
	rc = rc ? rc : resolver_renewed(r);
	if (rc) {
		resolver_free(r);
		return rc;
	}
	*ret = r;
	return 0;
}

void resolver_note_reasons(struct resolver *r, struct frame_reasons *reasons)
{
	r->frames.reasons = reasons;
	jits_note_reasons(r->jits, reasons);
	hotspots_note_reasons(r->hotspots, reasons);
	v8s_note_reasons(r->v8s, reasons);
}

void resolver_free(struct resolver *r)
{
	if (!r)
		return;
	jits_free(r->jits);
	hotspots_free(r->hotspots);
	v8s_free(r->v8s);
	inlined_free(r->inlined);
	kernel_frames_free(r->kernel);
	modules_free(r->modules);
	free(r);
}

void resolver_set_detail(struct resolver *r, const struct resolver_detail *d)
{
	r->detail = *d;
	inlined_pause(r->inlined, d->no_lines);
}

void resolver_begin(struct resolver *r, unsigned drain_ms)
{
	jits_begin(r->jits);
	inlined_begin(r->inlined, drain_ms);
	modules_settle(r->modules);
}

void resolver_forget(struct resolver *r)
{
	jits_forget(r->jits);
	hotspots_forget(r->hotspots);
	v8s_forget(r->v8s);
}

struct hotspots *resolver_hotspots(const struct resolver *r)
{
	return r->hotspots;
}

struct v8s *resolver_v8s(const struct resolver *r)
{
	return r->v8s;
}

void resolver_jit_stats(const struct resolver *r, struct jits_stats *ret)
{
	jits_stats(r->jits, ret);
}

/* ---- files ---- */

void resolver_file_gone(void *module)
{
	module_put(module);
}

struct binary *resolver_binary(struct resolver *r, const struct proc_image *im,
			       const struct proc_map *map)
{
	const struct module *m = modules_of(r->modules, im, map);
	return m ? m->binary : NULL;
}

bool resolver_is_late(const struct proc_map *map)
{
	const struct module *m = map->file->binary;
	return m && module_is_late(m);
}

const uint8_t *resolver_content(struct resolver *r, const struct proc_image *im,
				const struct proc_map *map)
{
	const struct module *m = modules_of(r->modules, im, map);
	return m && m->binary ? m->id : NULL;
}

int resolver_parse(struct resolver *r, const struct proc_image *im, const struct proc_map *map,
		   struct symbols_job *io_job, const struct sandbox_call *call, struct buf *reply)
{
	struct sandbox_call c = *call;
	if (io_job->job) /* of which only the answer is missing */
		return symbolizer_run(r->symbolizer, io_job, &c, reply);
	struct module *m = modules_of(r->modules, im, map);
	int fd, rc = m && m->binary ? modules_reopen(r->modules, m, im, map) : -ENODATA;
	if (rc)
		return symbols_is_late(rc) ? rc : -ENODATA;
	fd = binary_fd(m->binary);
	c.fds = &fd;
	c.n_fds = 1;
	symbolizer_for(r->symbolizer, im->tgid);
	return fd < 0 ? -ENODATA : symbolizer_run(r->symbolizer, io_job, &c, reply);
}

const uint8_t *resolver_vdso(const struct resolver *r, size_t *ret_size)
{
	return modules_vdso(r->modules, ret_size);
}

void resolver_set_downloads(struct resolver *r, struct downloads *d)
{
	modules_set_downloads(r->modules, d);
}

bool resolver_expects_downloads(const struct resolver *r)
{
	return modules_expect_downloads(r->modules);
}

void resolver_go_on(struct resolver *r)
{
	if (modules_take_downloads(r->modules))
		inlined_clear(r->inlined);
	inlined_ask(r->inlined);
	jits_go_on(r->jits);
}

void resolver_want_program(struct resolver *r, const struct proc_image *im)
{
	for (uint32_t i = 0; i < im->n_maps; i++) {
		if (im->maps[i].file != im->exe)
			continue;
		struct module *m = modules_of(r->modules, im, &im->maps[i]);
		if (m)
			module_ask_debug(m);
		return; /* all of its mappings have this module */
	}
}

/* ---- user frames ---- */

/*
 * Locate the user frames of a stack. How many, from the leaf on, can be believed. A return address
 * outside of every executable mapping means that the chain of frame pointers broke, and what lies
 * beyond is not a stack. That one address stays as "[unknown]".
 */
static uint32_t locate(struct resolver *r, const struct proc_image *im, const uint64_t *user,
		       uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (HOTSPOT_IS_FRAME(user[i]) || V8_IS_FRAME(user[i])) {
			r->user[i] = (struct user_frame){ .im = im, .at = user[i] };
			continue;
		}
		/* Behind the root: it ends nothing */
		if (GO_IS_CREATOR(user[i])) {
			r->user[i] = frame_locate(&r->frames, im, GO_CREATOR_PC(user[i]), false);
			r->user[i].creator = true;
			continue;
		}
		r->user[i] = frame_locate(&r->frames, im, user[i], i == 0);
		if (im && !r->user[i].map)
			return i + 1;
	}
	return n;
}

/* Is the file of a frame, or are its symbols, not read yet? */
static bool is_late(const struct user_frame *u)
{
	const struct binary *b = u->module->binary;
	return b && !binary_is_closed(b) ? binary_is_late(b) : module_is_late(u->module);
}

/* True for a frame of a file that is not worth reading for its names yet. */
static bool is_cold(struct resolver *r, const struct user_frame *u)
{
	struct module *m = u->module;
	return r->detail.no_cold_names && m->binary && binary_is_unread(m->binary) &&
	       m->n_cold++ < RESOLVER_COLD;
}

/*
 * What the name of a frame may lack. A file whose table is being read again still has the names
 * that were looked up before.
 */
static void note_flags(const struct user_frame *u, bool named, struct resolver_flags *flags)
{
	const struct binary *b = u->module->binary;
	bool late = is_late(u);
	flags->names_late |= late && !named;
	flags->names_refused |= u->module->refused || (b && !late && binary_refused(b));
}

/*
 * Find the frames at an address, innermost first: one, or those of inlined calls before it.
 * -EINPROGRESS, only with put_off: ask again.
 */
static int frames_of(struct resolver *r, const struct user_frame *u, bool put_off,
		     uint32_t out[PLACE_FRAMES_MAX], size_t *ret_n, struct resolver_flags *flags)
{
	struct symbol sym;
	*ret_n = 1;
	if (V8_IS_FRAME(u->at)) {
		int rc = u->im ? v8s_frame(r->v8s, u->im, u->at, out) : -ENOENT;
		if (!rc || (rc == -EINPROGRESS && put_off))
			return rc;
		flags->jit_unnamed = true;
		return v8s_unnamed(r->v8s, out);
	}
	if (u->im && (HOTSPOT_IS_FRAME(u->at) || hotspots_hold(u->im, u->at))) {
		int rc = hotspots_frames(r->hotspots, u->im, u->at, out, ret_n);
		if (!rc || (rc == -EINPROGRESS && put_off))
			return rc;
		*ret_n = 1;
	}
	if (HOTSPOT_IS_FRAME(u->at)) {
		flags->jit_unnamed = true;
		return hotspots_unnamed(r->hotspots, out);
	}
	if (!u->module) {
		flags->no_mapping = true;
		out[0] = r->frames.unknown;
		return 0;
	}
	module_ask_debug(u->module);
	int rc = inlined_frames(r->inlined, u, out, ret_n);
	if (!rc || (rc == -EINPROGRESS && put_off))
		return rc;
	*ret_n = 1;
	flags->lines_saved |= rc == -ECANCELED;
	if (jits_is_code(u->map)) {
		rc = jits_frame(r->jits, u->im, u->at, out);
		if (rc != -ENOENT && (rc != -EINPROGRESS || put_off))
			return rc;
		flags->jit_unnamed = true;
	}
	bool cold = is_cold(r, u), named = !cold && !frame_symbol(&r->frames, u, &sym);
	if (!named && !cold && put_off && is_late(u))
		return -EINPROGRESS;
	flags->names_saved |= cold;
	note_flags(u, named || cold, flags);
	return frame_plain(&r->frames, u, named ? &sym : NULL, out);
}

/* ---- stacks ---- */

/* What is put on the stack for each user frame. */
struct building {
	const struct resolver_stack *s;
	uint32_t n_user, n_evals;
	uint32_t stack;
	bool wants; /* some place is wanted now: nothing is put on the stack any more */
	struct wait_decision wait;
};

/* Put a frame of the store on the stack. */
static int push(struct resolver *r, struct building *b, uint32_t frame)
{
	if (r->frames.reasons)
		wait_see_towards_leaf(&b->wait, frame_reasons_get(r->frames.reasons, frame));
	return store_add_stack(r->store, b->stack, frame, &b->stack);
}

/* The script frames of eval number k, or all of them when there is no eval, on the stack. */
static int push_script(struct resolver *r, struct building *b, uint32_t k)
{
	const struct resolver_stack *s = b->s;
	struct interleave in = { s->entry, s->n_script, b->n_evals, s->script_cut };
	uint32_t first = 0, n = b->n_evals ? interleave_part(&in, k, &first) : s->n_script;
	int rc = n ? 0 : -ENOENT;
	for (uint32_t i = first + n; !rc && i-- > first;)
		rc = push(r, b, s->script[i]);
	return rc;
}

static int push_user(struct resolver *r, struct building *b, uint32_t i,
		     struct resolver_flags *flags)
{
	uint32_t at_place[PLACE_FRAMES_MAX];
	size_t n = 0;
	int rc = frames_of(r, &r->user[i], b->s->put_off, at_place, &n, flags);
	if (rc == -EINPROGRESS) { /* the others may be unknown as well */
		b->wants = true;
		return 0;
	}
	if (!rc && !b->wants && r->user[i].creator) {
		rc = frame_creator(&r->frames, at_place[0], &at_place[0]);
		n = !rc; /* -ENOENT: it is not shown */
		rc = rc == -ENOENT ? 0 : rc;
	}
	while (!rc && !b->wants && n-- > 0)
		rc = push(r, b, at_place[n]);
	return rc;
}

/* From the root to the leaf. */
static int push_users(struct resolver *r, struct building *b, struct resolver_flags *flags)
{
	int rc = 0;
	for (uint32_t i = b->n_user, k = b->n_evals; !rc && i-- > 0;) {
		if (r->eval[i] == EVAL_PART)
			continue;
		k -= r->eval[i];
		if (r->eval[i] && !b->wants) {
			rc = push_script(r, b, k);
			if (rc != -ENOENT)
				continue;
		}
		rc = push_user(r, b, i, flags);
	}
	return rc;
}

/* A stack of a precise event begins with a mark of perf, PERF_CONTEXT_KERNEL. */
static bool has_mark(const struct resolver_stack *s)
{
	return s->n_kernel && s->frames[0] >= (uint64_t)PERF_CONTEXT_MAX;
}

static int push_kernel(struct resolver *r, struct building *b)
{
	const uint32_t leaf = has_mark(b->s);
	uint32_t frame;
	int rc = 0;
	for (uint32_t i = b->s->n_kernel; !rc && i-- > leaf;) {
		rc = kernel_frames_at(r->kernel, b->s->frames[i], i == leaf, &frame);
		rc = rc ? rc : push(r, b, frame);
	}
	return rc;
}

int resolver_stack(struct resolver *r, const struct proc_image *im, const struct resolver_stack *s,
		   uint32_t *ret_stack, struct resolver_flags *ret_flags)
{
	METRIC_TIME(symbolize);
	struct building b = { .s = s, .stack = s->root };
	bool described;
	int rc = 0;
	*ret_flags = (struct resolver_flags){ 0 };
	if (s->n_user > USER_FRAMES_MAX)
		return -E2BIG;
	if (im && s->n_user && s->put_off && proc_image_is_late(im))
		return -EINPROGRESS;
	if (im)
		symbolizer_for(r->symbolizer, im->tgid);
	b.n_user = locate(r, im, s->frames + s->n_kernel, s->n_user);
	memset(r->eval, 0, b.n_user * sizeof(r->eval[0]));
	if (s->n_script) {
		b.n_evals =
			evals_find(&r->frames, s->language, r->user, b.n_user, r->eval, &described);
		if (!b.n_evals)
			rc = push_script(r, &b, 0);
		else if (described)
			memset(r->eval, 0, b.n_user * sizeof(r->eval[0]));
	}
	rc = rc ? rc : push_users(r, &b, ret_flags);
	if (!rc && b.wants)
		return -EINPROGRESS;
	rc = rc ? rc : push_kernel(r, &b);
	if (rc)
		return rc;
	*ret_stack = b.stack;
	ret_flags->wait = (uint8_t)wait_decided(&b.wait, s->root != 0);
	ret_flags->lock = (uint8_t)wait_lock_decided(&b.wait);
	ret_flags->release = b.wait.release;
	return 0;
}

int resolver_idle(struct resolver *r, uint32_t *ret_stack)
{
	return kernel_frames_idle(r->kernel, ret_stack);
}

static void trim(struct resolver *r, struct resolver_stack *s, const char *function,
		 const char *caller)
{
	uint32_t n = kernel_frames_above(r->kernel, s->frames, s->n_kernel, function, caller);
	s->frames += n;
	s->n_kernel -= n;
}

void resolver_trim_switch(struct resolver *r, struct resolver_stack *s)
{
	trim(r, s, "__schedule", "schedule");
}

void resolver_trim_waking(struct resolver *r, struct resolver_stack *s)
{
	trim(r, s, "try_to_wake_up", "wake_up_q");
}

/* ---- code that processes make ---- */

void resolver_ask_jvms(struct resolver *r)
{
	jits_ask_jvms(r->jits);
}

bool resolver_note_code(struct resolver *r, const struct proc_image *im, const struct proc_map *map)
{
	bool is_code = jits_is_code(map);
	if (is_code)
		jits_note(r->jits, im);
	return is_code;
}
