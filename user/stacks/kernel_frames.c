/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/kernel_frames.h"
#include "store/writer.h"
#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SYMBOLS "/proc/kallsyms"
#define RELOAD_NS 10000000000ull /* least time between two reads of kallsyms, for new modules */
#define SWITCH_FRAMES 10	 /* frames of the tracepoint and of BPF above the scheduler */

struct kernel_frames {
	struct frames *frames;
	struct kernel_symbols *symbols; /* NULL: unavailable */
	uint64_t read_ns;
	uint32_t module, idle_stack; /* idle_stack 0: not created yet */
};

/*
 * The kernel shows addresses to a reader whose process had CAP_SYSLOG when it opened the file:
 * kallsyms_open.
 */
int kernel_frames_op(const struct keeper_question *q, struct keeper_answer *ret, struct err *err)
{
	(void)q;
	int fd = open(SYMBOLS, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(err, -errno, "cannot open " SYMBOLS);
	ret->fds[ret->n_fds++] = fd;
	return 0;
}

static int read_symbols(struct kernel_symbols **ret, struct err *err)
{
	const struct keeper_question q = { 0 };
	struct keeper_answer a;
	int rc = keeper_ask(kernel_frames_op, &q, KEEPER_WAIT_MS, &a, err);
	if (rc)
		return rc;
	rc = kernel_symbols_read_open(ret, a.fds[0], SYMBOLS, err);
	close(a.fds[0]);
	return rc;
}

int kernel_frames_new(struct kernel_frames **ret, struct frames *f, struct err *ret_warning)
{
	struct kernel_frames *k = calloc(1, sizeof(*k));
	if (!k)
		return -ENOMEM;
	k->frames = f;
	read_symbols(&k->symbols, ret_warning);
	k->read_ns = clock_ns(CLOCK_MONOTONIC);
	*ret = k;
	return 0;
}

void kernel_frames_free(struct kernel_frames *k)
{
	if (!k)
		return;
	kernel_symbols_free(k->symbols);
	free(k);
}

int kernel_frames_renewed(struct kernel_frames *k)
{
	k->idle_stack = 0;
	return store_add_string(k->frames->store, "[kernel]", 8, &k->module);
}

/* Read the symbols again for new modules and BPF programs, at most every RELOAD_NS. */
static void reload(struct kernel_frames *k)
{
	struct kernel_symbols *symbols;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (!k->symbols || now - k->read_ns < RELOAD_NS)
		return;
	k->read_ns = now;
	if (read_symbols(&symbols, NULL))
		return;
	kernel_symbols_free(k->symbols);
	k->symbols = symbols;
}

static int find(struct kernel_frames *k, uint64_t at, struct symbol *ret)
{
	return k->symbols ? kernel_symbols_find(k->symbols, at, ret) : -ENOENT;
}

int kernel_frames_at(struct kernel_frames *k, uint64_t addr, bool leaf, uint32_t *ret)
{
	uint64_t at = leaf ? addr : addr - 1;
	struct store_frame f = { .kind = FRAME_KERNEL, .module = k->module };
	struct symbol sym;
	int rc = find(k, at, &sym);
	if (rc) {
		reload(k);
		rc = find(k, at, &sym);
	}
	if (rc) {
		f.offset = k->symbols ? at : 0;
		return store_add_frame(k->frames->store, &f, ret);
	}
	if (sym.module && strcmp(sym.module, "[kernel]"))
		rc = store_add_string(k->frames->store, sym.module, strlen(sym.module), &f.module);
	return rc ? rc : frame_of_symbol(k->frames, &sym, &f, sym.module, ret);
}

uint32_t kernel_frames_above(struct kernel_frames *k, const uint64_t *frames, uint32_t n,
			     const char *function, const char *caller)
{
	for (uint32_t i = 0; i + 1 < n && i < SWITCH_FRAMES; i++) {
		struct symbol sym;
		if (find(k, frames[i] - 1, &sym) || strcmp(sym.name, function))
			continue;
		i++;
		return i + 1 < n && !find(k, frames[i] - 1, &sym) && !strcmp(sym.name, caller)
			       ? i + 1
			       : i;
	}
	return 0;
}

int kernel_frames_idle(struct kernel_frames *k, uint32_t *ret_stack)
{
	struct store_frame f = { .kind = FRAME_IDLE, .module = k->module };
	struct store_writer *w = k->frames->store;
	uint32_t frame;
	int rc = 0;
	if (!k->idle_stack) {
		rc = store_add_string(w, "[idle]", 6, &f.function);
		rc = rc ? rc : store_add_frame(w, &f, &frame);
		rc = rc ? rc : store_add_stack(w, 0, frame, &k->idle_stack);
	}
	if (!rc)
		*ret_stack = k->idle_stack;
	return rc;
}
