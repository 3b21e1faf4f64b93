/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/unwinding.h"

#include "stacks/ranges.h"
#include "unwind/pool.h"
#include "unwind/request.h"
#include "util/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BUCKETS 4096
#define FILES_MAX 65536 /* contents known, with and without rules */
#define PROCESSES_MAX 16384
#define ROWS_FIRST (4u << 20) /* bytes of rows made before recording begins: enough for most hosts' busy programs */
#define ROWS_KEPT (8u << 20)  /* beyond so much files that nobody uses go before more is made */
#define UNUSED_NS 20000000000ull /* if it has been for so long: what runs again and again is not compiled each time */
#define GONE_NS 60000000000ull /* and those that nobody has used for so long go in any case */
#define RETRY_MS 1000 /* between two looks for room, or time, for files that found none */
#define IDLE_NS 10000000000ull /* a process without a sample for so long makes room for others' ranges */
#define TICK_NS 20000000ull /* of opening files and publishing before samples are looked after again */

/* One content of a file. */
struct code {
	struct code *next;
	uint8_t id[RESOLVER_CONTENT];
	uint32_t users;    /* lists of ranges that lead to it */
	bool tried;        /* compiled, or found impossible */
	bool no_room;      /* to be tried again when there is room */
	struct symbols_again again; /* it is not compiled yet */
	struct symbols_job job;
	uint64_t used_ns;  /* when the last user went */
	struct unwind_code part;
};

/* An image that is sampled: its proc_image.layer[PROC_UNWIND]. */
struct process {
	struct proc_id id;
	struct proc_image *image; /* NULL: it has ended while it was being updated */
	struct range_list *list;  /* published; NULL: none */
	struct list_node waits;	  /* of unwinding.waiting: to be updated */
	struct list_node lacks;	  /* of unwinding.lacking: one of its files found no room, or is not compiled yet: */
	bool late;
	uint64_t grace_ns; /* until when it waits for all of its files; 0: it does not */
	struct list_node used; /* of unwinding.used, while it has a list */
	uint64_t used_ns;      /* when it was last sampled, as far as its rows were read */
};

/* In turn: ourselves last, for we have many files, and others wait. */
enum turn { OTHERS, OURSELVES, TURNS };

struct unwinding {
	struct sampler *sampler;
	struct procs *procs;
	struct resolver *resolver;
	unsigned op;
	struct sampler_unwind shared;
	struct unwind_pool *pool;
	struct range_lists lists;
	struct code *codes[BUCKETS];
	struct list waiting[TURNS];
	struct list lacking;
	struct list used; /* processes that have a list: who was sampled last is last */
	struct process *current; /* which is being updated */
	size_t n_codes, n_processes;
	uint64_t retry_ns; /* when to look for room again */
	struct unwinding_stats stats;
};

static int add_shard(void *ctx, unsigned shard, uint32_t **ret_rows)
{
	*ret_rows = NULL;
	return sampler_add_shard(ctx, shard);
}

static uint32_t *map_shard(void *ctx, unsigned shard)
{
	return sampler_shard(ctx, shard);
}

static int drop_shard(void *ctx, unsigned shard)
{
	return sampler_drop_shard(ctx, shard);
}

static void on_end(void *ctx, struct proc_image *im);
static void on_free_list(void *ctx, struct range_list *l);

int unwinding_new(struct unwinding **ret, struct sampler *s, struct procs *procs, struct resolver *r,
		  const struct unwinding_config *config)
{
	size_t budget = config->budget;
	struct unwinding *u = calloc(1, sizeof(*u));
	if (!u)
		return -ENOMEM;
	u->sampler = s;
	u->procs = procs;
	u->resolver = r;
	u->op = config->op;
	sampler_unwind(s, &u->shared);
	struct unwind_pool_config cfg = { .pages = u->shared.pages, .rules = u->shared.rules, .rows_bytes_max = budget,
					  .add_shard = add_shard, .map_shard = map_shard, .drop_shard = drop_shard, .ctx = s };
	int rc = 0;
	if (budget && u->shared.ranges) {
		rc = range_lists_init(&u->lists, u->shared.ranges, on_free_list, u);
		rc = rc ? rc : unwind_pool_new(&u->pool, &cfg);
		rc = rc ? rc : unwind_pool_reserve(u->pool, budget < ROWS_FIRST ? budget : ROWS_FIRST);
	}
	if (rc) {
		unwinding_free(u);
		return rc;
	}
	procs_on_end(procs, PROC_UNWIND, on_end, u);
	*ret = u;
	return 0;
}

void unwinding_free(struct unwinding *u)
{
	if (!u)
		return;
	procs_detach(u->procs, PROC_UNWIND);
	for (size_t b = 0; b < BUCKETS; b++) {
		for (struct code *c = u->codes[b], *next; c; c = next) {
			next = c->next;
			resolver_cancel(u->resolver, &c->job);
			unwind_code_fini(&c->part);
			free(c);
		}
	}
	unwind_pool_free(u->pool);
	range_lists_fini(&u->lists);
	free(u);
}

static uint64_t cpu_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- files ---- */

static struct code **code_bucket(struct unwinding *u, const uint8_t *id)
{
	uint64_t a, b;
	memcpy(&a, id + 1, sizeof(a));
	memcpy(&b, id + 16, sizeof(b));
	return &u->codes[((a ^ b) * 0x9e3779b97f4a7c15ull >> 32) % BUCKETS];
}

/* Forget the contents without rules that nobody uses: they are tried again. */
static void forget_codes(struct unwinding *u)
{
	for (size_t b = 0; b < BUCKETS; b++) {
		for (struct code **at = &u->codes[b]; *at;) {
			struct code *c = *at;
			if (c->users || c->part.n_pages) {
				at = &c->next;
				continue;
			}
			*at = c->next;
			resolver_cancel(u->resolver, &c->job);
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
	for (size_t b = 0; b < BUCKETS; b++)
		for (struct code *c = u->codes[b]; c; c = c->next)
			if (!c->users && c->part.n_pages && (!oldest || c->used_ns < oldest->used_ns))
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

static bool let_go(struct unwinding *u);

/* Room for one file more. */
static bool make_room(struct unwinding *u)
{
	return evict_one(u, UINT64_MAX) || (let_go(u) && evict_one(u, UINT64_MAX));
}

/* Rather than that more memory is made for it what was of use some time ago goes. */
static void make_old_room(struct unwinding *u, const struct unwind_table *t)
{
	uint64_t then = proc_now_ns() - UNUSED_NS;
	while (!unwind_pool_fits(u->pool, t) && unwind_pool_made(u->pool) >= ROWS_KEPT && evict_one(u, then))
		;
}

/* What was made for a moment of many programs is given back, in time. */
static void give_back(struct unwinding *u)
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

static int compile_file(struct unwinding *u, struct code *c, const struct proc_image *im, const struct proc_map *m,
			struct unwind_table **ret)
{
	struct buf reply = BUF_INIT;
	size_t len = strlen(m->file->path);
	const struct sandbox_call call = { .op = u->op, .priority = PRIORITY_RULES, .bytes = m->file->path, .len = len < 255 ? len : 255, .max_reply = UNWIND_REPLY_MAX };
	int rc = resolver_parse(u->resolver, im, m, &c->job, &call, &reply);
	rc = rc ? rc : unwind_decode(ret, &reply);
	buf_fini(&reply);
	return rc;
}

/* Rules that were compiled for a content. */
static void add_rules(struct unwinding *u, struct code *c, const struct unwind_table *t)
{
	int rc;
	make_old_room(u, t);
	while ((rc = unwind_pool_add(u->pool, t, &c->part)) == -ENOSPC && make_room(u))
		;
	c->no_room = rc == -ENOSPC;
	u->stats.over_budget += rc == -ENOSPC || rc == -E2BIG;
	u->stats.refused_entries += t->refused;
	u->stats.files += !rc;
	u->stats.rows += rc ? 0 : c->part.n_rows;
}

static void compile(struct unwinding *u, struct code *c, const struct proc_image *im, const struct proc_map *m)
{
	struct unwind_table *t = NULL;
	bool vdso = !strcmp(m->file->path, "[vdso]");
	c->no_room = false;
	int rc = vdso ? compile_vdso(u, &t) : compile_file(u, c, im, m, &t);
	if (rc == -ENODATA)
		return; /* the process is gone; the next one that maps it will do */
	if (symbols_is_late(rc) && symbols_put_off(&c->again, rc))
		return;
	uint64_t begin = cpu_ns();
	c->tried = true;
	c->again = (struct symbols_again){ 0 };
	u->stats.compiled++;
	u->stats.refused += rc && rc != -ENOENT && rc != -EPROTONOSUPPORT; /* 32-bit code has no rules */
	if (!rc)
		add_rules(u, c, t);
	unwind_table_free(t);
	u->stats.compile_ns += cpu_ns() - begin + c->job.cpu_ns;
}

/* ---- processes ---- */

static void set_waits(struct unwinding *u, struct process *p, bool waits)
{
	struct list *l = &u->waiting[p->id.tgid == (uint32_t)getpid() ? OURSELVES : OTHERS];
	if (!waits)
		list_remove(l, &p->waits);
	else if (!p->waits.listed)
		list_append(l, &p->waits);
}

static void set_lacks(struct unwinding *u, struct process *p, bool lacks)
{
	if (!lacks)
		list_remove(&u->lacking, &p->lacks);
	else if (!p->lacks.listed)
		list_append(&u->lacking, &p->lacks);
}

static bool any_waits(const struct unwinding *u)
{
	return u->waiting[OTHERS].n + u->waiting[OURSELVES].n;
}

/* The files of a list that is not published any more. */
static void on_free_list(void *ctx, struct range_list *l)
{
	(void)ctx;
	uint64_t now = proc_now_ns();
	for (uint32_t i = 0; i < l->n_codes; i++) {
		struct code *c = l->codes[i];
		if (!--c->users)
			c->used_ns = now;
	}
}

/* Replace the list of a process by another one, which may be NULL. It is taken over. */
static void publish(struct unwinding *u, struct process *p, struct range_list *l)
{
	range_lists_put(&u->lists, p->list);
	p->list = l;
	sampler_set_ranges(u->sampler, p->id.tgid, p->id.start_ns, p->id.exec_id, range_list_word(l));
	if (l && !p->used.listed)
		list_append(&u->used, &p->used);
	else if (!l)
		list_remove(&u->used, &p->used);
}

static void on_end(void *ctx, struct proc_image *im)
{
	struct unwinding *u = ctx;
	struct process *p = im->layer[PROC_UNWIND];
	im->layer[PROC_UNWIND] = NULL;
	publish(u, p, NULL);
	set_waits(u, p, false);
	set_lacks(u, p, false);
	u->n_processes--;
	p->image = NULL;
	if (p != u->current)
		free(p);
}

/* Processes that have ended use nothing any more, also before the window ends. True when there was one. */
static bool let_go(struct unwinding *u)
{
	procs_report_ended(u->procs, PROC_UNWIND);
	bool any = u->lists.unused.n;
	range_lists_collect(&u->lists, u->sampler);
	return any;
}

/*
 * The process that was not sampled for longest gives up its ranges. It gets them back when it is
 * sampled again.
 */
static bool evict_ranges(struct unwinding *u, const struct process *but)
{
	struct process *p = LIST_ENTRY(u->used.first, struct process, used);
	if (p == but)
		p = LIST_ENTRY(p->used.after, struct process, used);
	if (!p || p->used_ns + IDLE_NS > proc_now_ns())
		return false;
	publish(u, p, NULL);
	range_lists_collect(&u->lists, u->sampler);
	u->stats.ranges_evicted++;
	return true;
}

/* The code of a mapping's file, NULL when there is none to be had. */
static struct code *map_code(struct unwinding *u, const struct proc_image *im, const struct proc_map *m)
{
	const uint8_t *id = NULL;
	if (m->file->path[0] == '/' || !strcmp(m->file->path, "[vdso]"))
		id = resolver_content(u->resolver, im, m);
	return id ? code_get(u, id) : NULL;
}

static struct unwind_range make_range(struct unwinding *u, const struct proc_image *im, const struct proc_map *m,
				      const struct code *c)
{
	struct unwind_range r = { .start = m->start, .end = m->end };
	struct binary *b = c && c->part.n_pages ? resolver_binary(u->resolver, im, m) : NULL;
	uint64_t bias;
	if (!b || binary_bias(b, m->start, m->pgoff, &bias))
		return r;
	r.bias = bias + (c->part.first_page << UNWIND_PAGE_BITS);
	r.page = c->part.page;
	r.n_pages = c->part.n_pages;
	return r;
}

/* Have all files compiled. -EINPROGRESS: some are not yet; -EAGAIN: there was no time to ask for all. */
static int compile_all(struct unwinding *u, const struct proc_image *im, uint64_t until_ns)
{
	int rc = 0;
	for (uint32_t i = 0; i < im->n_maps; i++) {
		struct code *c = map_code(u, im, &im->maps[i]);
		if (c && !c->tried && symbols_is_due(&c->again)) {
			if (proc_now_ns() >= until_ns)
				return -EAGAIN;
			compile(u, c, im, &im->maps[i]);
		}
		if (c ? !c->tried && c->again.at_ns : resolver_is_late(&im->maps[i]))
			rc = -EINPROGRESS;
	}
	return rc;
}

static bool lacks_room(struct unwinding *u, const struct proc_image *im)
{
	for (uint32_t i = 0; i < im->n_maps; i++) {
		struct code *c = map_code(u, im, &im->maps[i]);
		if (c && c->no_room)
			return true;
	}
	return false;
}

/* The files of a process, by +1 and -1: none is thrown out for another one of the same process. */
static void hold(struct unwinding *u, const struct proc_image *im, uint32_t by)
{
	uint64_t now = proc_now_ns();
	for (uint32_t i = 0; i < im->n_maps; i++) {
		struct code *c = map_code(u, im, &im->maps[i]);
		if (!c)
			continue;
		c->users += by;
		c->used_ns = now;
	}
}

/* Mappings without a file that touch are one, so that a process that makes code has few. */
static uint32_t gather(struct unwinding *u, const struct proc_image *im, struct unwind_range *out, struct code **codes,
		       uint32_t *ret_codes)
{
	uint32_t n = 0, n_codes = 0;
	for (uint32_t i = 0; i < im->n_maps && n < UNWIND_PROC_RANGES_MAX; i++) {
		struct code *c = map_code(u, im, &im->maps[i]);
		struct unwind_range r = make_range(u, im, &im->maps[i], c);
		if (n && !r.n_pages && !out[n - 1].n_pages && out[n - 1].end == r.start) {
			out[n - 1].end = r.end;
			continue;
		}
		out[n++] = r;
		if (r.n_pages)
			codes[n_codes++] = c;
	}
	*ret_codes = n_codes;
	return n;
}

static void make_ranges(struct unwinding *u, struct process *p, const struct proc_image *im)
{
	struct unwind_range *r = malloc(UNWIND_PROC_RANGES_MAX * sizeof(*r));
	struct code **codes = malloc(UNWIND_PROC_RANGES_MAX * sizeof(struct code *));
	struct range_list *l = NULL;
	bool made = false;
	uint32_t n_codes, n = r && codes ? gather(u, im, r, codes, &n_codes) : 0;
	int rc = n ? 0 : -ENOENT;
	if (!rc)
		while ((rc = range_lists_get(&u->lists, r, n, (void **)codes, n_codes, &l, &made)) == -ENOSPC)
			if (!let_go(u) && !evict_ranges(u, p))
				break;
	free(r);
	free(codes);
	u->stats.ranges_full += rc == -ENOSPC;
	if (rc)
		return;
	for (uint32_t i = 0; made && i < n_codes; i++)
		((struct code *)l->codes[i])->users++;
	if (u->lists.free.used > u->stats.ranges) {
		u->stats.ranges = u->lists.free.used;
		u->stats.range_lists = u->lists.n;
	}
	if (p->image) {
		publish(u, p, l);
		p->used_ns = proc_now_ns();
	} else {
		range_lists_put(&u->lists, l);
	}
	range_lists_collect(&u->lists, u->sampler);
}

/* False: there was no time to ask for all. */
static bool update(struct unwinding *u, struct process *p, uint64_t until_ns)
{
	const struct proc_image *im = procs_identify(u->procs, &p->id, proc_now_ns(), PROC_MAPS);
	if (im != p->image || im->to_ns != UINT64_MAX)
		return true;
	hold(u, im, 1);
	resolver_want_program(u->resolver, im);
	int rc = compile_all(u, im, until_ns);
	if (rc != -EAGAIN) {
		uint64_t now = proc_now_ns();
		p->grace_ns = !rc ? 0 : p->grace_ns ? p->grace_ns : now + UNWINDING_GRACE_NS;
		if (now >= p->grace_ns)
			make_ranges(u, p, im);
		p->late = rc || !proc_image_mapped(im);
		if (p->image)
			set_lacks(u, p, p->late || lacks_room(u, im));
	}
	hold(u, im, -1u);
	return rc != -EAGAIN;
}

/* True: it waits for nothing any more. */
static bool update_next(struct unwinding *u, uint64_t until_ns)
{
	struct list_node *next = u->waiting[OTHERS].first ? u->waiting[OTHERS].first : u->waiting[OURSELVES].first;
	struct process *p = u->current = LIST_ENTRY(next, struct process, waits);
	bool done = update(u, p, until_ns);
	u->current = NULL;
	if (!p->image) /* it has ended meanwhile */
		free(p);
	else if (done)
		set_waits(u, p, false);
	return done;
}

void unwinding_new_process(struct unwinding *u, struct proc_image *im, const struct proc_id *id)
{
	struct process *p = im->layer[PROC_UNWIND];
	if (!u->pool)
		return;
	if (!p) {
		p = u->n_processes < PROCESSES_MAX ? calloc(1, sizeof(*p)) : NULL;
		if (!p)
			return;
		p->image = im;
		im->layer[PROC_UNWIND] = p;
		u->n_processes++;
	}
	p->id = *id;
	if (p->list) /* asked again: the table has lost it */
		unwinding_known(u, im);
	set_waits(u, p, true);
}

void unwinding_known(struct unwinding *u, const struct proc_image *im)
{
	const struct process *p = im->layer[PROC_UNWIND];
	if (p && p->list)
		sampler_set_ranges(u->sampler, p->id.tgid, p->id.start_ns, p->id.exec_id, range_list_word(p->list));
}

void unwinding_mapped(struct unwinding *u, const struct proc_image *im)
{
	struct process *p = im->layer[PROC_UNWIND];
	if (p)
		set_waits(u, p, true);
}

void unwinding_lost(struct unwinding *u)
{
	for (struct list_node *n = u->used.first; n; n = n->after)
		set_waits(u, LIST_ENTRY(n, struct process, used), true);
}

void unwinding_sampled(struct unwinding *u, const struct proc_image *im, uint64_t ns)
{
	struct process *p = im->layer[PROC_UNWIND];
	if (!p || !p->used.listed)
		return;
	p->used_ns = ns;
	list_remove(&u->used, &p->used);
	list_append(&u->used, &p->used);
}

/* Is there a file with rows that nobody uses? */
static bool has_room(const struct unwinding *u)
{
	for (size_t b = 0; b < BUCKETS; b++)
		for (const struct code *c = u->codes[b]; c; c = c->next)
			if (!c->users && c->part.n_pages)
				return true;
	return false;
}

/* Files that found no room, or were not read, in processes that still run: there may be some by now. */
static void try_again(struct unwinding *u)
{
	u->retry_ns = proc_now_ns() + RETRY_MS * 1000000ull;
	let_go(u);
	bool room = has_room(u);
	for (size_t b = 0; room && b < BUCKETS; b++)
		for (struct code *c = u->codes[b]; c; c = c->next)
			if (c->no_room)
				c->tried = false;
	for (struct list_node *n = u->lacking.first; n; n = n->after) {
		struct process *p = LIST_ENTRY(n, struct process, lacks);
		if (room || p->late)
			set_waits(u, p, true);
	}
}

void unwinding_go_on(struct unwinding *u)
{
	for (struct list_node *n = u->lacking.first; n; n = n->after) {
		struct process *p = LIST_ENTRY(n, struct process, lacks);
		if (p->late)
			set_waits(u, p, true);
	}
}

int unwinding_tick(struct unwinding *u)
{
	if (u->lacking.n && proc_now_ns() >= u->retry_ns)
		try_again(u);
	uint64_t until = any_waits(u) ? proc_now_ns() + TICK_NS : 0;
	while (any_waits(u))
		if (!update_next(u, until) || (any_waits(u) && proc_now_ns() >= until))
			return 0;
	return u->lacking.n ? RETRY_MS : -1;
}

int unwinding_walk(struct unwinding *u, const struct proc_id *id, uint64_t ns, const struct user_registers *regs,
		   const struct unwind_memory *memory, bool now, uint64_t *out, unsigned *ret_n, enum counter *ret_end)
{
	static struct unwind_range ranges[UNWIND_PROC_RANGES_MAX];
	static struct code *codes[UNWIND_PROC_RANGES_MAX];
	struct unwind_tables t = { ranges, 0, u->shared.pages, u->shared.rules, NULL, map_shard, u->sampler };
	uint32_t n_codes;
	const struct proc_image *im = procs_identify(u->procs, id, ns, PROC_MAPS);
	if (im && proc_image_is_late(im) && !now)
		return -EINPROGRESS;
	if (im) {
		struct process *p = im->layer[PROC_UNWIND];
		hold(u, im, 1);
		bool all = !compile_all(u, im, proc_now_ns() + TICK_NS);
		if (all || now)
			t.n_ranges = gather(u, im, ranges, codes, &n_codes);
		hold(u, im, -1u);
		if (p && !p->list && !p->lacks.listed && im->to_ns == UINT64_MAX) /* its ranges made room for others' */
			set_waits(u, p, true);
		if (!all && !now)
			return -EINPROGRESS;
	}
	*ret_n = unwind_walk(&t, memory, regs, out, ret_end);
	return 0;
}

void unwinding_forget(struct unwinding *u)
{
	range_lists_collect(&u->lists, u->sampler);
	give_back(u);
	sampler_unmap_shards(u->sampler); /* rows are written and read here when processes begin */
}

void unwinding_stats(const struct unwinding *u, struct unwinding_stats *ret)
{
	struct unwind_pool_stats pool = { 0 };
	if (u->pool)
		unwind_pool_stats(u->pool, &pool);
	*ret = u->stats;
	ret->bytes = pool.rows_bytes;
	ret->unmapped = sampler_unmapped(u->sampler);
}
