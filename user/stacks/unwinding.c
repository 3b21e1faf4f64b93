/* SPDX-License-Identifier: Apache-2.0 */
/* Publish the unwind rules of the processes that are sampled, and unwind the copies of stacks. */
#include "stacks/unwinding_int.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define PROCESSES_MAX 16384
/* bytes of rows made before recording begins: enough for most hosts' busy programs */
#define ROWS_FIRST (4u << 20)
#define RETRY_MS 1000 /* between two looks for room, or time, for files that found none */
/* A process without a sample for so long makes room for others' ranges */
#define IDLE_NS 10000000000ull
/* Of opening files and publishing before samples are looked after again */
#define TICK_NS 20000000ull

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

int unwinding_new(struct unwinding **ret, struct sampler *s, struct procs *procs,
		  struct resolver *r, const struct unwinding_config *config)
{
	size_t budget = config->budget;
	struct unwinding *u = calloc(1, sizeof(*u));
	if (!u)
		return -ENOMEM;
	u->sampler = s;
	u->procs = procs;
	u->resolver = r;
	u->op = config->op;
	u->processes.max = PROCESSES_MAX;
	sampler_unwind(s, &u->shared);
	hotspots_share(resolver_hotspots(r), u->shared.hotspot);
	v8s_share(resolver_v8s(r), u->shared.v8);
	struct unwind_pool_config cfg = { .pages = u->shared.pages,
					  .rules = u->shared.rules,
					  .rows_bytes_max = budget,
					  .add_shard = add_shard,
					  .map_shard = map_shard,
					  .drop_shard = drop_shard,
					  .ctx = s };
	int rc = 0;
	if (budget && u->shared.ranges) {
		rc = range_lists_init(&u->lists, u->shared.ranges, on_free_list, u);
		rc = rc ? rc : unwind_pool_new(&u->pool, &cfg);
		rc = rc ? rc
			: unwind_pool_reserve(u->pool, budget < ROWS_FIRST ? budget : ROWS_FIRST);
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
	codes_free(u);
	unwind_pool_free(u->pool);
	range_lists_fini(&u->lists);
	free(u);
}

/* ---- processes ---- */

static void set_waits(struct unwinding *u, struct process *p, bool waits)
{
	bool ours = p->id.tgid == (uint32_t)getpid();
	list_set(&u->waiting[ours ? OURSELVES : OTHERS], &p->waits, waits);
}

/* Have a process looked at, which takes long where it has thousands of files: at its pace. */
static void look_at(struct unwinding *u, struct process *p)
{
	uint64_t until = procs_paused_until(u->procs, p->image);
	set_waits(u, p, p->waits.listed || !until);
	if (!until)
		return;
	p->late = true;
	list_set(&u->lacking, &p->lacks, true);
	if (until < u->retry_ns)
		u->retry_ns = until;
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
	sampler_set_ranges(u->sampler, p->id.tgid, p->id.start_ns, p->id.exec_id,
			   range_list_word(l, p->image ? v8s_layout(p->image) : 0));
	list_set(&u->used, &p->used, l);
}

static void on_end(void *ctx, struct proc_image *im)
{
	struct unwinding *u = ctx;
	struct process *p = im->layer[PROC_UNWIND];
	im->layer[PROC_UNWIND] = NULL;
	publish(u, p, NULL);
	set_waits(u, p, false);
	list_set(&u->lacking, &p->lacks, false);
	list_set(&u->partial, &p->partial, false);
	quota_give(&u->processes, proc_image_user(im), 1);
	p->image = NULL;
	if (p != u->current)
		free(p);
}

bool unwinding_let_go(struct unwinding *u)
{
	procs_report_ended(u->procs, PROC_UNWIND);
	bool any = u->lists.unused.n;
	range_lists_collect(&u->lists, u->sampler);
	return any;
}

/*
 * Have the process that was not sampled for longest give up its ranges: of all, or of the user of
 * `but`, which keeps its own. It gets them back when it is sampled again.
 */
static bool evict_ranges(struct unwinding *u, const struct process *but, bool of_user)
{
	uint32_t user = proc_image_user(but->image);
	struct process *p = LIST_ENTRY(u->used.first, struct process, used);
	while (p && (p == but || (of_user && proc_image_user(p->image) != user)))
		p = LIST_ENTRY(p->used.after, struct process, used);
	if (!p || p->used_ns + IDLE_NS > proc_now_ns())
		return false;
	publish(u, p, NULL);
	list_set(&u->partial, &p->partial, false);
	range_lists_collect(&u->lists, u->sampler);
	u->stats.ranges_evicted++;
	return true;
}

struct file_place {
	uint32_t map, n_files;
	const struct proc_file *before;
};

/*
 * Return the next mapping of another file than the one before, from *io_at on: most programs that
 * have thousands of mappings made them of a few files. NULL: there is none among those that can
 * have ranges.
 */
static const struct proc_map *next_file(const struct proc_image *im, struct file_place *io_at)
{
	while (io_at->map < im->n_maps && io_at->n_files < UNWIND_PROC_RANGES_MAX) {
		const struct proc_map *m = &im->maps[io_at->map++];
		if (m->file == io_at->before)
			continue;
		io_at->before = m->file;
		io_at->n_files++;
		return m;
	}
	return NULL;
}

/* A stack leads here: compile it, for all processes that map it. */
static void want(struct unwinding *u, struct code *c)
{
	c->wanted = true;
	for (struct list_node *n = u->partial.first; n; n = n->after) {
		struct process *p = LIST_ENTRY(n, struct process, partial);
		const struct proc_map *m;
		for (struct file_place at = { 0 };
		     !p->waits.listed && (m = next_file(p->image, &at));)
			if (code_of_map(u, p->image, m) == c)
				look_at(u, p);
	}
}

/* The file at this address of an image, if no stack has led there before. */
static struct code *unwanted_at(struct unwinding *u, const struct proc_image *im, uint64_t addr)
{
	const struct proc_map *m = im ? proc_image_map(im, addr) : NULL;
	struct code *c = m ? code_of_map(u, im, m) : NULL;
	return code_is_unwanted(c) ? c : NULL;
}

static struct unwind_range make_range(struct unwinding *u, const struct proc_image *im,
				      const struct proc_map *m, const struct code *c)
{
	struct unwind_range r = { .start = m->start, .end = m->end };
	struct binary *b = c && c->part.n_pages ? resolver_binary(u->resolver, im, m) : NULL;
	uint64_t bias;
	if (code_is_unwanted(c))
		r.page = UNWIND_PAGE_LATE;
	if (!b || binary_bias(b, m->start, m->pgoff, &bias))
		return r;
	r.bias = bias + (c->part.first_page << UNWIND_PAGE_BITS);
	r.page = c->part.page;
	r.n_pages = c->part.n_pages;
	return r;
}

/*
 * Have all files compiled that stacks lead to. -EINPROGRESS: some are not yet; -EAGAIN: there was
 * no time to ask for all.
 */
static int compile_all(struct unwinding *u, struct proc_image *im, uint64_t until_ns)
{
	const struct proc_map *m;
	int rc = 0;
	for (struct file_place at = { 0 }; (m = next_file(im, &at));) {
		struct code *c = code_of_map(u, im, m);
		if (c && c->wanted && !c->tried && symbols_is_due(&c->again)) {
			if (proc_now_ns() >= until_ns)
				return -EAGAIN;
			code_compile(u, c, im, m);
		}
		if (c ? !c->tried && c->again.at_ns : resolver_is_late(m))
			rc = -EINPROGRESS;
	}
	return rc;
}

static bool lacks_room(struct unwinding *u, const struct proc_image *im)
{
	const struct proc_map *m;
	for (struct file_place at = { 0 }; (m = next_file(im, &at));) {
		const struct code *c = code_of_map(u, im, m);
		if (c && c->no_room)
			return true;
	}
	return false;
}

/* The files of a process, by +1 and -1: none is thrown out for another one of the same process. */
static void hold(struct unwinding *u, const struct proc_image *im, uint32_t by)
{
	uint64_t now = proc_now_ns();
	const struct proc_map *m;
	for (struct file_place at = { 0 }; (m = next_file(im, &at));) {
		struct code *c = code_of_map(u, im, m);
		if (!c)
			continue;
		c->users += by;
		c->used_ns = now;
	}
}

/* Mappings without a file that touch are one, so that a process that makes code has few. */
static uint32_t gather(struct unwinding *u, const struct proc_image *im, struct unwind_range *out,
		       struct code **codes, uint32_t *ret_codes)
{
	uint32_t n = 0, n_codes = 0, heap = 0;
	for (uint32_t i = 0; i < im->n_maps; i++) {
		n = hotspots_add_ranges(im, im->maps[i].start, out, n, &heap);
		if (n >= UNWIND_PROC_RANGES_MAX)
			break;
		if (n && out[n - 1].page == UNWIND_PAGE_MADE && out[n - 1].end > im->maps[i].start)
			continue;
		struct code *c = code_of_map(u, im, &im->maps[i]);
		struct unwind_range r = make_range(u, im, &im->maps[i], c);
		struct unwind_range *last = n ? &out[n - 1] : NULL;
		bool alike = last && !r.n_pages && !last->n_pages && last->page == r.page;
		if (alike && last->end == r.start) {
			last->end = r.end;
			continue;
		}
		out[n++] = r;
		if (r.n_pages)
			codes[n_codes++] = c;
	}
	n = hotspots_add_ranges(im, UINT64_MAX, out, n, &heap);
	*ret_codes = n_codes;
	return n;
}

static void make_ranges(struct unwinding *u, struct process *p, struct proc_image *im)
{
	struct unwind_range *r = malloc(UNWIND_PROC_RANGES_MAX * sizeof(*r));
	struct code **codes = malloc(UNWIND_PROC_RANGES_MAX * sizeof(struct code *));
	struct range_list *l = NULL;
	bool made = false, partial = false;
	uint32_t n_codes, n = r && codes ? gather(u, im, r, codes, &n_codes) : 0;
	int rc = n ? 0 : -ENOENT;
	for (uint32_t i = 0; i < n && !partial; i++)
		partial = r[i].page == UNWIND_PAGE_LATE;
	while (!rc) {
		rc = range_lists_get(&u->lists, r, n, (void **)codes, n_codes, proc_image_user(im),
				     &l, &made);
		if ((rc == -ENOSPC || rc == -EDQUOT) &&
		    (unwinding_let_go(u) || evict_ranges(u, p, rc == -EDQUOT)))
			rc = 0; /* once more */
		else
			break;
	}
	free(r);
	free(codes);
	u->stats.ranges_full += rc == -ENOSPC || rc == -EDQUOT;
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
		list_set(&u->partial, &p->partial, partial);
		p->used_ns = proc_now_ns();
	} else {
		range_lists_put(&u->lists, l);
	}
	range_lists_collect(&u->lists, u->sampler);
}

/* Nearly all stacks lead to the program itself. */
static void want_program(struct unwinding *u, const struct proc_image *im)
{
	const struct proc_map *m;
	for (struct file_place at = { 0 }; (m = next_file(im, &at));) {
		struct code *c = m->file == im->exe ? code_of_map(u, im, m) : NULL;
		if (code_is_unwanted(c))
			want(u, c);
	}
}

/* Look for HotSpot and V8 among the files of a process. -EINPROGRESS: look again. */
static int look_for_runtimes(struct unwinding *u, struct proc_image *im)
{
	const struct proc_map *m;
	bool java = false;
	int rc = 0;
	for (struct file_place p = { 0 }; (m = next_file(im, &p));) {
		struct binary *b = resolver_binary(u->resolver, im, m);
		struct binary_hotspot hotspot;
		struct binary_v8 v8;
		uint64_t bias;
		if (!java && b && !binary_hotspot(b, &hotspot) &&
		    !binary_bias(b, m->start, m->pgoff, &bias)) {
			rc = hotspots_look(resolver_hotspots(u->resolver), im, &hotspot, bias);
			java = true;
		}
		if (b && !v8s_knows(im) && !binary_v8(b, &v8))
			v8s_found(resolver_v8s(u->resolver), im, &v8);
	}
	return rc;
}

static void update(struct unwinding *u, struct process *p, uint64_t until_ns)
{
	uint64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID), now = proc_now_ns();
	struct proc_image *im = procs_identify(u->procs, &p->id, now, PROC_MAPS);
	if (im != p->image || im->to_ns != UINT64_MAX)
		return;
	hold(u, im, 1);
	resolver_want_program(u->resolver, im);
	want_program(u, im);
	int rc = compile_all(u, im, until_ns), runtimes = 0;
	if (rc != -EAGAIN) {
		now = proc_now_ns();
		p->grace_ns = !rc ? 0 : p->grace_ns ? p->grace_ns : now + UNWINDING_GRACE_NS;
		runtimes = look_for_runtimes(u, im);
		if (now >= p->grace_ns)
			make_ranges(u, p, im);
	}
	p->late = rc || runtimes || !proc_image_mapped(im);
	if (p->image)
		list_set(&u->lacking, &p->lacks, p->late || lacks_room(u, im));
	hold(u, im, -1u);
	procs_looked(u->procs, im, begin);
	if (rc == -EAGAIN && p->image)
		look_at(u, p);
}

static void update_next(struct unwinding *u, uint64_t until_ns)
{
	struct list_node *next =
		u->waiting[OTHERS].first ? u->waiting[OTHERS].first : u->waiting[OURSELVES].first;
	struct process *p = u->current = LIST_ENTRY(next, struct process, waits);
	set_waits(u, p, false);
	update(u, p, until_ns);
	u->current = NULL;
	if (!p->image) /* it has ended meanwhile */
		free(p);
}

void unwinding_new_process(struct unwinding *u, struct proc_image *im, const struct proc_id *id)
{
	struct process *p = im->layer[PROC_UNWIND];
	if (!u->pool)
		return;
	if (!p) {
		p = calloc(1, sizeof(*p));
		if (!p || !quota_take(&u->processes, proc_image_user(im), 1)) {
			free(p);
			return;
		}
		p->image = im;
		im->layer[PROC_UNWIND] = p;
	}
	p->id = *id;
	if (p->list) /* asked again: the table has lost it */
		unwinding_known(u, im);
	look_at(u, p);
}

void unwinding_known(struct unwinding *u, const struct proc_image *im)
{
	const struct process *p = im->layer[PROC_UNWIND];
	if (p && p->list)
		sampler_set_ranges(u->sampler, p->id.tgid, p->id.start_ns, p->id.exec_id,
				   range_list_word(p->list, v8s_layout(im)));
}

void unwinding_missed(struct unwinding *u, const struct proc_id *id, uint64_t pc)
{
	struct proc_image *im = procs_lookup(u->procs, id);
	struct code *c = unwanted_at(u, im, pc - 1);
	if (c)
		want(u, c);
}

void unwinding_mapped(struct unwinding *u, const struct proc_image *im)
{
	struct process *p = im->layer[PROC_UNWIND];
	if (p)
		look_at(u, p);
}

void unwinding_lost(struct unwinding *u)
{
	for (struct list_node *n = u->used.first; n; n = n->after)
		look_at(u, LIST_ENTRY(n, struct process, used));
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

/* Files of running processes found no room, or were not read: there may be some by now. */
static void try_again(struct unwinding *u)
{
	u->retry_ns = proc_now_ns() + RETRY_MS * 1000000ull;
	unwinding_let_go(u);
	bool room = codes_any_unused(u);
	for (size_t b = 0; room && b < CODE_BUCKETS; b++)
		for (struct code *c = u->codes[b]; c; c = c->next)
			if (c->no_room)
				c->tried = false;
	for (struct list_node *n = room ? u->lacking.first : NULL; n; n = n->after)
		look_at(u, LIST_ENTRY(n, struct process, lacks));
	unwinding_go_on(u);
}

void unwinding_go_on(struct unwinding *u)
{
	for (struct list_node *n = u->lacking.first; n; n = n->after) {
		struct process *p = LIST_ENTRY(n, struct process, lacks);
		if (p->late)
			look_at(u, p);
	}
}

int unwinding_tick(struct unwinding *u)
{
	uint64_t now = proc_now_ns(), until = now + TICK_NS;
	if (u->lacking.n && now >= u->retry_ns)
		try_again(u);
	else if (hotspots_wait(resolver_hotspots(u->resolver)) >= 0)
		unwinding_go_on(u);
	while (any_waits(u)) {
		update_next(u, until);
		now = proc_now_ns();
		if (any_waits(u) && now >= until)
			return 0;
	}
	int java_ms = hotspots_wait(resolver_hotspots(u->resolver));
	if (java_ms >= 0 || !u->lacking.n)
		return java_ms;
	return u->retry_ns > now ? (int)((u->retry_ns - now) / 1000000) + 1 : 0;
}

/* Unwind by the rules of an image. -EINPROGRESS: some are being compiled. */
static int walk_image(struct unwinding *u, struct proc_image *im, const struct user_registers *regs,
		      const struct unwind_memory *memory, bool now, uint64_t *out, unsigned *ret_n,
		      enum counter *ret_end)
{
	static struct unwind_range ranges[UNWIND_PROC_RANGES_MAX];
	static struct code *codes[UNWIND_PROC_RANGES_MAX];
	struct unwind_tables t = { ranges, 0,	      u->shared.pages, u->shared.rules,
				   NULL,   map_shard, u->sampler };
	struct code *c = NULL;
	uint32_t n_codes;
	do {
		if (c)
			want(u, c);
		int rc = compile_all(u, im, proc_now_ns() + TICK_NS);
		if (rc && !now)
			return -EINPROGRESS;
		t.n_ranges = gather(u, im, ranges, codes, &n_codes);
		*ret_n = unwind_walk(&t, memory, regs, out, ret_end);
		/*
		 * As unwind_step: the leaf's address is exact, what is above may return to behind
		 * its mapping.
		 */
		c = *ret_end == COUNTER_unwind_no_mapping
			    ? unwanted_at(u, im, out[*ret_n - 1] - (*ret_n > 1))
			    : NULL;
	} while (c);
	return 0;
}

int unwinding_walk(struct unwinding *u, const struct proc_id *id, uint64_t ns,
		   const struct user_registers *regs, const struct unwind_memory *memory, bool now,
		   uint64_t *out, unsigned *ret_n, enum counter *ret_end)
{
	const struct unwind_tables none = { 0 };
	const uint64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	struct proc_image *im = procs_identify(u->procs, id, ns, PROC_MAPS);
	struct process *p = im ? im->layer[PROC_UNWIND] : NULL;
	bool pauses =
		p && (pace_pauses(&p->walks) || (p->slow && procs_paused_until(u->procs, im)));
	if (im && !now && (pauses || proc_image_is_late(im)))
		return -EINPROGRESS;
	if (!im || pauses) {
		*ret_n = unwind_walk(&none, memory, regs, out, ret_end);
		return 0;
	}
	hold(u, im, 1);
	int rc = walk_image(u, im, regs, memory, now, out, ret_n, ret_end);
	hold(u, im, -1u);
	if (p)
		p->slow = pace_charge(&p->walks, begin, WALKS_SHARE) > WALK_SLOW_NS;
	if (p && p->slow)
		procs_looked(u->procs, im, begin);
	/* Its ranges made room for others' */
	if (p && !p->list && !p->lacks.listed && im->to_ns == UINT64_MAX)
		look_at(u, p);
	return rc;
}

void unwinding_forget(struct unwinding *u)
{
	range_lists_collect(&u->lists, u->sampler);
	codes_give_back(u);
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
