/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contents of mapped files: compile their unwind rules, keep the rows in the pool, evict them.
 */
#include "stacks/unwinding_int.h"

#include "unwind/request.h"
#include "util/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FILES_MAX 65536	     /* contents known, with and without rules */
#define ROWS_KEPT (8u << 20) /* bytes: above, unused files go before more is made, */
/* if they were unused for so long: what runs again is not compiled each time */
#define UNUSED_NS 20000000000ull
#define GONE_NS 60000000000ull /* unused for so long, they go in any case */

/* ---- files ---- */

static struct code **code_bucket(struct unwinding *u, const uint8_t *id)
{
	uint64_t a, b;
	memcpy(&a, id + 1, sizeof(a));
	memcpy(&b, id + 16, sizeof(b));
	return &u->codes[((a ^ b) * 0x9e3779b97f4a7c15ull >> 32) % CODE_BUCKETS];
}

/* Forget the contents without rules that nobody uses: they are tried again. */
static void forget_codes(struct unwinding *u)
{
	for (size_t b = 0; b < CODE_BUCKETS; b++) {
		for (struct code **at = &u->codes[b]; *at;) {
			struct code *c = *at;
			if (c->users || c->part.n_pages) {
				at = &c->next;
				continue;
			}
			*at = c->next;
			symbolizer_cancel(&c->job);
			free(c);
			u->n_codes--;
		}
	}
}

static struct code *code_get(struct unwinding *u, const uint8_t *id)
{
	struct code **at = code_bucket(u, id), *c = *at;
	while (c && memcmp(c->id, id, sizeof(c->id)))
		c = c->next;
	if (c)
		return c;
	if (u->n_codes >= FILES_MAX)
		forget_codes(u);
	if (u->n_codes >= FILES_MAX)
		return NULL;
	at = code_bucket(u, id);
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	memcpy(c->id, id, sizeof(c->id));
	c->next = *at;
	*at = c;
	u->n_codes++;
	return c;
}

/* The file that nobody uses and that went out of use first, before then_ns, gives up its rows. */
static bool evict_one(struct unwinding *u, uint64_t then_ns)
{
	struct code *oldest = NULL;
	for (size_t b = 0; b < CODE_BUCKETS; b++)
		for (struct code *c = u->codes[b]; c; c = c->next)
			if (!c->users && c->part.n_pages &&
			    (!oldest || c->used_ns < oldest->used_ns))
				oldest = c;
	if (!oldest || oldest->used_ns > then_ns)
		return false;
	u->stats.files--;
	u->stats.rows -= oldest->part.n_rows;
	u->stats.evicted++;
	unwind_pool_remove(u->pool, &oldest->part);
	oldest->tried = false;
	return true;
}

/* Room for one file more. */
static bool make_room(struct unwinding *u)
{
	return evict_one(u, UINT64_MAX) || (unwinding_let_go(u) && evict_one(u, UINT64_MAX));
}

/* Rather than that more memory is made for it what was of use some time ago goes. */
static void make_old_room(struct unwinding *u, const struct unwind_table *t)
{
	uint64_t then = proc_now_ns() - UNUSED_NS;
	while (!unwind_pool_fits(u->pool, t) && unwind_pool_made(u->pool) >= ROWS_KEPT &&
	       evict_one(u, then))
		;
}

void codes_give_back(struct unwinding *u)
{
	uint64_t then = proc_now_ns() - GONE_NS;
	struct unwind_pool_stats pool;
	if (!u->pool || unwind_pool_made(u->pool) <= ROWS_KEPT)
		return;
	do
		unwind_pool_stats(u->pool, &pool);
	while (pool.rows_bytes > ROWS_KEPT && evict_one(u, then));
	unwind_pool_trim(u->pool, ROWS_KEPT); /* a bpf() call: one */
}

/* The vdso is the kernel's: it is compiled here. */
static int compile_vdso(struct unwinding *u, struct unwind_table **ret)
{
	size_t size;
	struct elf_image img;
	const uint8_t *bytes = resolver_vdso(u->resolver, &size);
	int rc = bytes ? elf_image_open_memory(&img, bytes, size, "[vdso]", NULL) : -ENOENT;
	if (rc)
		return rc;
	rc = unwind_compile(ret, &img, "[vdso]", NULL);
	elf_image_fini(&img);
	return rc;
}

static int compile_file(struct unwinding *u, struct code *c, const struct proc_image *im,
			const struct proc_map *m, struct unwind_table **ret)
{
	struct buf reply = BUF_INIT;
	size_t len = strlen(m->file->path);
	const struct sandbox_call call = {
		.op = u->op,
		.priority = PRIORITY_RULES,
		.bytes = m->file->path,
		.len = len < 255 ? len : 255,
		.max_reply = UNWIND_REPLY_MAX,
	};
	int rc = resolver_parse(u->resolver, im, m, &c->job, &call, &reply);
	rc = rc ? rc : unwind_decode(ret, &reply);
	buf_fini(&reply);
	return rc;
}

/* Rules that were compiled for a content. */
static void add_rules(struct unwinding *u, struct code *c, const struct unwind_table *t,
		      uint32_t user)
{
	int rc;
	make_old_room(u, t);
	do {
		rc = unwind_pool_add(u->pool, t, user, &c->part);
		c->no_room = rc == -ENOSPC || rc == -EDQUOT;
	} while (c->no_room && make_room(u));
	u->stats.over_budget += c->no_room || rc == -E2BIG;
	u->stats.refused_entries += t->refused;
	u->stats.files += !rc;
	u->stats.rows += rc ? 0 : c->part.n_rows;
}

void code_compile(struct unwinding *u, struct code *c, struct proc_image *im,
		  const struct proc_map *m)
{
	struct unwind_table *t = NULL;
	bool vdso = !strcmp(m->file->path, "[vdso]");
	c->no_room = false;
	int rc = vdso ? compile_vdso(u, &t) : compile_file(u, c, im, m, &t);
	if (rc == -ENODATA)
		return; /* the process is gone; the next one that maps it will do */
	if (symbols_is_late(rc) && symbols_put_off(&c->again, rc))
		return;
	uint64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	c->tried = true;
	c->again = (struct symbols_again){ 0 };
	u->stats.compiled++;
	/* 32-bit code has no rules */
	u->stats.refused += rc && rc != -ENOENT && rc != -EPROTONOSUPPORT;
	if (!rc)
		add_rules(u, c, t, proc_image_user(im));
	unwind_table_free(t);
	u->stats.compile_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin + c->job.cpu_ns;
}

struct code *code_of_map(struct unwinding *u, const struct proc_image *im, const struct proc_map *m)
{
	const uint8_t *id = NULL;
	if (m->file->path[0] == '/' || !strcmp(m->file->path, "[vdso]"))
		id = resolver_content(u->resolver, im, m);
	return id ? code_get(u, id) : NULL;
}

bool code_is_unwanted(const struct code *c)
{
	return c && !c->wanted && !c->tried;
}

bool codes_any_unused(const struct unwinding *u)
{
	for (size_t b = 0; b < CODE_BUCKETS; b++)
		for (const struct code *c = u->codes[b]; c; c = c->next)
			if (!c->users && c->part.n_pages)
				return true;
	return false;
}

void codes_free(struct unwinding *u)
{
	for (size_t b = 0; b < CODE_BUCKETS; b++) {
		for (struct code *c = u->codes[b], *next; c; c = next) {
			next = c->next;
			symbolizer_cancel(&c->job);
			unwind_code_fini(&c->part);
			free(c);
		}
	}
}
