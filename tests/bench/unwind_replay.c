/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's walk over the stacks that perf has recorded: what perf unwinds by DWARF and what we
 * find by rules, from the same registers and bytes.
 *
 *   unwind_replay perf.data     of `perf record --call-graph dwarf`; for each sample: "time tid end
 *                               address...", leaf first, as perf script writes them: callers one
 *                               back, and as offsets in their files
 */
#include "unwind/pool.h"
#include "unwind/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAPS_MAX 1024
#define CODES_MAX 4096
#define COPY_FULL 65000 /* of the 65528 bytes that perf copies at most */

/* tools/perf/Documentation/perf.data-file-format.txt */
struct file_section {
	uint64_t offset, size;
};
struct file_header {
	char magic[8];
	uint64_t size, attr_size;
	struct file_section attrs, data, types;
};

static uint32_t *shards[UNWIND_SHARDS];
static struct unwind_pool_config pool_config;
static struct unwind_pool *pool;

static struct code {
	char *path;
	int fd;
	bool good;
	struct elf_image img;
	struct unwind_code part;
} codes[CODES_MAX];
static unsigned n_codes;

struct map {
	uint64_t start, end, pgoff;
	struct code *code; /* NULL: no file */
};

static struct process {
	struct process *next;
	uint32_t pid;
	unsigned n;
	struct map maps[MAPS_MAX]; /* sorted */
} *processes;

static int add_shard(void *ctx, unsigned shard, uint32_t **ret_rows)
{
	(void)ctx;
	shards[shard] = calloc(1u << UNWIND_SHARD_BITS, sizeof(uint32_t));
	*ret_rows = shards[shard];
	return shards[shard] ? 0 : -ENOMEM;
}

static struct code *code_of(const char *path)
{
	struct unwind_table *t = NULL;
	for (unsigned i = 0; i < n_codes; i++)
		if (!strcmp(codes[i].path, path))
			return &codes[i];
	if (path[0] != '/' || n_codes == CODES_MAX)
		return NULL;
	struct code *c = &codes[n_codes++];
	c->path = strdup(path);
	c->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (c->fd >= 0 && !elf_image_open(&c->img, c->fd, path, NULL))
		c->good = !unwind_compile(&t, &c->img, path, NULL) &&
			  !unwind_pool_add(pool, t, 0, &c->part);
	unwind_table_free(t);
	return c;
}

/* ---- processes ---- */

static struct process *process_of(uint32_t pid)
{
	struct process *p = processes;
	while (p && p->pid != pid)
		p = p->next;
	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		exit(1);
	p->pid = pid;
	p->next = processes;
	processes = p;
	return p;
}

static void add_map(struct process *p, const struct map *m)
{
	unsigned n = 0;
	for (unsigned i = 0; i < p->n; i++) /* what it covers is gone */
		if (p->maps[i].end <= m->start || p->maps[i].start >= m->end)
			p->maps[n++] = p->maps[i];
	p->n = n;
	if (p->n == MAPS_MAX)
		return;
	unsigned at = p->n++;
	for (; at && p->maps[at - 1].start > m->start; at--)
		p->maps[at] = p->maps[at - 1];
	p->maps[at] = *m;
}

static void on_mmap2(const uint8_t *r)
{
	uint32_t pid, prot;
	uint64_t v[3];
	memcpy(&pid, r + 8, 4);
	memcpy(v, r + 16, sizeof(v));
	memcpy(&prot, r + 64, 4);
	if (prot & PROT_EXEC) {
		struct map m = { v[0], v[0] + v[1], v[2], code_of((const char *)r + 72) };
		add_map(process_of(pid), &m);
	}
}

static void on_fork(const uint8_t *r)
{
	uint32_t id[2]; /* pid, that of the parent */
	memcpy(id, r + 8, sizeof(id));
	if (id[0] == id[1])
		return;
	struct process *parent = process_of(id[1]), *p = process_of(id[0]);
	memcpy(p->maps, parent->maps, sizeof(p->maps));
	p->n = parent->n;
}

/* ---- samples ---- */

struct memory {
	const struct process *p;
	const uint8_t *stack;
	uint64_t at, n;
	bool beyond; /* something behind the copy was asked for */
};

/* The stack as it was copied, code from its file. */
static bool read_memory(void *ctx, void *to, size_t n, uint64_t at)
{
	struct memory *m = ctx;
	if (at >= m->at && at - m->at <= m->n && n <= m->n - (at - m->at)) {
		memcpy(to, m->stack + (at - m->at), n);
		return true;
	}
	for (unsigned i = 0; i < m->p->n; i++) {
		const struct map *k = &m->p->maps[i];
		if (at >= k->start && at < k->end && k->code && k->code->fd >= 0)
			return pread(k->code->fd, to, n, (off_t)(at - k->start + k->pgoff)) ==
			       (ssize_t)n;
	}
	m->beyond |= at >= m->at && at - m->at < m->n + 65536;
	return false;
}

static unsigned make_ranges(const struct process *p, struct unwind_range *out)
{
	for (unsigned i = 0; i < p->n; i++) {
		const struct map *m = &p->maps[i];
		struct unwind_range r = { .start = m->start, .end = m->end };
		uint64_t bias;
		if (m->code && m->code->good &&
		    !elf_image_bias(&m->code->img, m->start, m->pgoff, &bias)) {
			r.bias = bias + (m->code->part.first_page << UNWIND_PAGE_BITS);
			r.page = m->code->part.page;
			r.n_pages = m->code->part.n_pages;
		}
		out[i] = r;
	}
	return p->n;
}

static uint64_t file_offset(const struct process *p, uint64_t pc)
{
	for (unsigned i = 0; i < p->n; i++)
		if (pc >= p->maps[i].start && pc < p->maps[i].end)
			return pc - p->maps[i].start + p->maps[i].pgoff;
	return pc;
}

static void walk(uint32_t pid, uint32_t tid, uint64_t time, const struct user_registers *regs,
		 const uint8_t *stack, uint64_t n)
{
	static struct unwind_range ranges[MAPS_MAX];
	static const char *const ends[] = {
#define LOST(id, help) #id,
#define FLAG(id, help) #id,
#include "counters.def"
	};
	struct process *p = process_of(pid);
	struct memory m = { p, stack, regs->reg[UNWIND_REG_SP], n, false };
	struct unwind_memory memory = { read_memory, &m };
	struct unwind_tables t = { ranges, make_ranges(p, ranges), pool_config.pages,
				   pool_config.rules, shards };
	uint64_t frames[USER_FRAMES_MAX];
	enum counter end;
	unsigned k = unwind_walk(&t, &memory, regs, frames, &end);
	if (end == COUNTER_unwind_fault && m.beyond && n >= COPY_FULL)
		end = COUNTER_truncated;
	printf("%" PRIu64 " %u %s", time, tid, ends[end]);
	for (unsigned i = 0; i < k; i++)
		printf(" %" PRIx64, file_offset(p, frames[i] - (i > 0)));
	printf("\n");
}

/* perf numbers them ax bx cx dx si di bp sp ip flags cs ss ds es fs gs r8 .. r15. */
static void registers(uint64_t mask, const uint64_t *v, struct user_registers *ret)
{
	static const int8_t dwarf[24] = { 0,  3,  2,  1,  4, 5, 6,  7,	16, -1, -1, -1,
					  -1, -1, -1, -1, 8, 9, 10, 11, 12, 13, 14, 15 };
	for (unsigned bit = 0; bit < 24; bit++) {
		if (!(mask >> bit & 1))
			continue;
		if (dwarf[bit] == 16)
			ret->pc = *v;
		else if (dwarf[bit] >= 0)
			ret->reg[dwarf[bit]] = *v;
		v++;
	}
}

static void on_sample(const struct perf_event_attr *a, const uint8_t *r)
{
	const uint64_t *v = (const uint64_t *)(r + 8);
	uint64_t type = a->sample_type, time = 0;
	uint32_t pid = 0, tid = 0;
	struct user_registers regs = { 0 };
	v += !!(type & PERF_SAMPLE_IDENTIFIER) + !!(type & PERF_SAMPLE_IP);
	if (type & PERF_SAMPLE_TID) {
		pid = (uint32_t)*v;
		tid = (uint32_t)(*v++ >> 32);
	}
	if (type & PERF_SAMPLE_TIME)
		time = *v++;
	v += !!(type & PERF_SAMPLE_ADDR) + !!(type & PERF_SAMPLE_ID) +
	     !!(type & PERF_SAMPLE_STREAM_ID) + !!(type & PERF_SAMPLE_CPU) +
	     !!(type & PERF_SAMPLE_PERIOD);
	if (type & PERF_SAMPLE_CALLCHAIN)
		v += 1 + *v;
	if (!(type & PERF_SAMPLE_REGS_USER) || !*v++)
		return;
	registers(a->sample_regs_user, v, &regs);
	v += __builtin_popcountll(a->sample_regs_user);
	uint64_t size = *v++;
	walk(pid, tid, time, &regs, (const uint8_t *)v,
	     size ? *(const uint64_t *)((const uint8_t *)v + size) : 0);
}

/* ---- the file ---- */

struct record {
	uint64_t time;
	const uint8_t *at;
};

static uint64_t time_of(const struct perf_event_attr *a, const uint8_t *r)
{
	const struct perf_event_header *h = (const void *)r;
	uint64_t type = a->sample_type, time;
	if (h->type == PERF_RECORD_SAMPLE)
		memcpy(&time,
		       r + 8 +
			       8 * (!!(type & PERF_SAMPLE_IDENTIFIER) + !!(type & PERF_SAMPLE_IP) +
				    !!(type & PERF_SAMPLE_TID)),
		       8);
	else
		memcpy(&time,
		       r + h->size -
			       8 * __builtin_popcountll(type &
							(PERF_SAMPLE_TIME | PERF_SAMPLE_ID |
							 PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU |
							 PERF_SAMPLE_IDENTIFIER)),
		       8);
	return time;
}

static int by_time(const void *a, const void *b)
{
	const struct record *x = a, *y = b;
	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->at < y->at ? -1 : 1;
}

static void replay(const uint8_t *file)
{
	const struct file_header *fh = (const void *)file;
	const struct perf_event_attr *a = (const void *)(file + fh->attrs.offset);
	const uint8_t *end = file + fh->data.offset + fh->data.size;
	struct record *v = NULL;
	size_t n = 0, cap = 0;
	for (const uint8_t *r = file + fh->data.offset; r < end;
	     r += ((const struct perf_event_header *)r)->size) {
		const struct perf_event_header *h = (const void *)r;
		if (h->type != PERF_RECORD_SAMPLE && h->type != PERF_RECORD_MMAP2 &&
		    h->type != PERF_RECORD_FORK && h->type != PERF_RECORD_COMM)
			continue;
		if (n == cap) {
			cap = cap ? 2 * cap : 4096;
			v = realloc(v, cap * sizeof(*v));
			if (!v)
				exit(1);
		}
		v[n++] = (struct record){ time_of(a, r), r };
	}
	if (n)
		qsort(v, n, sizeof(*v), by_time);
	for (size_t i = 0; i < n; i++) {
		const struct perf_event_header *h = (const void *)v[i].at;
		uint32_t pid;
		memcpy(&pid, v[i].at + 8, 4);
		if (h->type == PERF_RECORD_SAMPLE)
			on_sample(a, v[i].at);
		else if (h->type == PERF_RECORD_MMAP2)
			on_mmap2(v[i].at);
		else if (h->type == PERF_RECORD_FORK)
			on_fork(v[i].at);
		else if (h->misc & PERF_RECORD_MISC_COMM_EXEC)
			process_of(pid)->n = 0;
	}
	free(v);
}

int main(int argc, char **argv)
{
	struct stat st;
	int fd = argc > 1 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0 || fstat(fd, &st))
		return 1;
	const uint8_t *file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	pool_config = (struct unwind_pool_config){
		.pages = calloc(UNWIND_PAGES, sizeof(struct unwind_page)),
		.rules = calloc(UNWIND_RULES, sizeof(struct unwind_rule)),
		.rows_bytes_max = 64u << 20,
		.add_shard = add_shard
	};
	if (file == MAP_FAILED || memcmp(file, "PERFILE2", 8) || !pool_config.pages ||
	    !pool_config.rules || unwind_pool_new(&pool, &pool_config))
		return 1;
	replay(file);
	return 0;
}
