/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's own symbols, its modules' and the BPF programs', from /proc/kallsyms:
 *
 *   ffffffff81000000 T startup_64
 *   ffffffffc0201000 t ext4_init	[ext4]
 *
 * Only functions are kept (types T t W w). Any other symbol ends the function before it, so that
 * data does not get a function's name. The text has no sizes: a function reaches to the next
 * symbol, but never further than the caps below, because behind the last one of a module may lie
 * anything.
 *
 *   spans     stretches of the address space of at most 4 GiB: a base, and the first entry (modules
 *             and BPF programs may lie far from the kernel)
 *   entries   {address - base, name}, sorted; name NO_NAME ends a stretch of functions
 *   runs      which module the entries from `first` on belong to
 */
#include "symbols/symbols.h"

#include "symbols/cells.h"
#include "util/bisect.h"
#include "util/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_MAX (64u << 20)   /* bytes of the file; 5 MB to 20 MB are usual */
#define SYMBOLS_MAX (4u << 20) /* lines kept */
#define NAMES_MAX (128u << 20)
#define LINE_MAX_BYTES 2048u /* the kernel's names have at most 512 */
#define MODULES_MAX 65535u
#define READ_SIZE (64u * 1024)

/* the largest kernel functions have about 100 KiB, BPF programs less than this */
#define REACH_MAX (1u << 20)
#define REACH_LAST (64u * 1024) /* of the last one before another module begins */
#define NO_NAME UINT32_MAX

struct entry {
	uint32_t addr;
	uint32_t name;
};

struct span {
	uint64_t base;
	uint32_t first;
};

struct run {
	uint32_t first;
	uint32_t module; /* offset in names, of "[ext4]" */
};

struct kernel_symbols {
	struct entry *entries;
	size_t n;
	struct span *spans;
	size_t n_spans;
	struct run *runs;
	size_t n_runs;
	char *names;
	size_t names_len;
	struct cells cells;
};

/* While reading. */
struct line {
	uint64_t addr;
	uint32_t name;
	uint16_t module;
	uint8_t rank; /* the least is kept of several at one address */
};

#define RANK_NONE 0xff /* not a function */

struct reader {
	struct line *v;
	size_t n;
	size_t cap;
	struct buf names;
	uint32_t *modules; /* offsets in names; by index, 0 is the kernel */
	size_t n_modules;
	int sorted;
	int any_line;
	int any_addr;
};

/* ---- text -> lines ---- */

static int add_name(struct reader *r, const char *s, size_t len, uint32_t *ret)
{
	if (r->names.len + len + 1 > NAMES_MAX)
		return -E2BIG;
	uint32_t at = (uint32_t)r->names.len;
	int rc = buf_add(&r->names, s, len);
	if (!rc)
		rc = buf_add_u8(&r->names, 0);
	if (!rc)
		*ret = at;
	return rc;
}

/*
 * The index of a module, s with its brackets. Lines of one module stand together: usually it is the
 * last one.
 */
static int find_module(struct reader *r, const char *s, size_t len, uint16_t *ret)
{
	for (size_t i = r->n_modules; i-- > 0;) {
		const char *m = (const char *)r->names.data + r->modules[i];
		if (!strncmp(m, s, len) && !m[len]) {
			*ret = (uint16_t)i;
			return 0;
		}
		if (r->n_modules - i > 16 && i > 1)
			/* Look at the last few and at the kernel; a name may be interned twice */
			i = 1;
	}
	if (r->n_modules == MODULES_MAX)
		return -E2BIG;
	if (!(r->n_modules & (r->n_modules - 1))) {
		uint32_t *m =
			realloc(r->modules, (r->n_modules ? 2 * r->n_modules : 1) * sizeof(*m));
		if (!m)
			return -ENOMEM;
		r->modules = m;
	}
	int rc = add_name(r, s, len, &r->modules[r->n_modules]);
	if (!rc)
		*ret = (uint16_t)r->n_modules++;
	return rc;
}

static int add_line(struct reader *r, const struct line *l)
{
	if (r->n == SYMBOLS_MAX)
		return -E2BIG;
	if (r->n == r->cap) {
		size_t cap = r->cap ? r->cap + r->cap / 2 : 4096;
		struct line *v = realloc(r->v, cap * sizeof(*v));
		if (!v)
			return -ENOMEM;
		r->v = v;
		r->cap = cap;
	}
	if (r->n && l->addr < r->v[r->n - 1].addr)
		r->sorted = 0;
	r->v[r->n++] = *l;
	return 0;
}

/* Hex digits up to a space; 0 when there are none or too many. */
static size_t parse_addr(const char *p, size_t len, uint64_t *ret)
{
	uint64_t v = 0;
	size_t i;
	for (i = 0; i < len && i <= 16; i++) {
		unsigned c = (unsigned char)p[i];
		unsigned digit = c - '0';
		if (digit > 9) {
			digit = (c | 0x20) - 'a' + 10;
			if (digit < 10 || digit > 15)
				break;
		}
		v = v << 4 | digit;
	}
	*ret = v;
	return i > 16 ? 0 : i;
}

static uint8_t rank_of(char type, const char *name)
{
	unsigned bind = type == 'T' ? 0 : type == 'W' || type == 'w' ? 1 : type == 't' ? 2 : 3;
	return bind == 3 ? RANK_NONE : (uint8_t)(2 * bind + (name[0] == '_'));
}

/* One line without its newline; what is not such a line is passed over. */
static int take_line(struct reader *r, const char *p, size_t len)
{
	struct line l;
	size_t n = parse_addr(p, len, &l.addr);
	if (!n || len < n + 4 || p[n] != ' ' || p[n + 2] != ' ')
		return 0;
	char type = p[n + 1];
	const char *name = p + n + 3;
	size_t name_len = len - n - 3;
	const char *tab = memchr(name, '\t', name_len);
	r->any_line = 1;
	if (!l.addr)
		return 0;
	r->any_addr = 1;
	l.rank = rank_of(type, name);
	l.name = NO_NAME;
	l.module = 0;
	/* Runs of data need one line only, while the text is sorted. */
	if (l.rank == RANK_NONE) {
		const struct line *last = r->n ? &r->v[r->n - 1] : NULL;
		return last && last->rank == RANK_NONE && last->addr <= l.addr ? 0
									       : add_line(r, &l);
	}
	int rc = 0;
	if (tab) {
		size_t module_len = name_len - (size_t)(tab + 1 - name);
		name_len = (size_t)(tab - name);
		if (module_len < 3 || tab[1] != '[')
			return 0;
		rc = find_module(r, tab + 1, module_len, &l.module);
	}
	if (!rc && name_len)
		rc = add_name(r, name, name_len, &l.name);
	return rc || !name_len ? rc : add_line(r, &l);
}

/* Whole lines of buf; *ret_used bytes are done with. */
static int take_lines(struct reader *r, const char *buf, size_t len, size_t *ret_used)
{
	size_t at = 0;
	int rc = 0;
	const char *nl;
	while (!rc && (nl = memchr(buf + at, '\n', len - at))) {
		size_t n = (size_t)(nl - buf) - at;
		if (n < LINE_MAX_BYTES && !memchr(buf + at, '\0', n))
			rc = take_line(r, buf + at, n);
		at += n + 1;
	}
	*ret_used = at;
	return rc;
}

static int read_text(struct reader *r, int fd, char *buf)
{
	uint64_t total = 0;
	size_t have = 0;
	int rc = 0;
	while (!rc) {
		ssize_t n = read(fd, buf + have, READ_SIZE - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		total += (uint64_t)n;
		have += (size_t)n;
		if (total > TEXT_MAX)
			return -E2BIG;
		size_t used;
		rc = take_lines(r, buf, have, &used);
		have -= used;
		memmove(buf, buf + used, have);
		if (have == READ_SIZE)
			/* a line without end: keep enough of it to know it as too long */
			have = LINE_MAX_BYTES;
	}
	if (!rc && have && have < LINE_MAX_BYTES && !memchr(buf, '\0', have))
		rc = take_line(r, buf, have); /* no newline at the end */
	return rc;
}

/* ---- lines -> entries ---- */

static int by_addr(const void *va, const void *vb)
{
	const struct line *a = va, *b = vb;
	if (a->addr != b->addr)
		return a->addr < b->addr ? -1 : 1;
	return a->rank != b->rank ? (int)a->rank - (int)b->rank : 0;
}

/* The shorter name, then the one that came first in the text. */
static int is_better(const struct reader *r, const struct line *a, const struct line *b)
{
	if (a->rank != b->rank)
		return a->rank < b->rank;
	if (a->rank == RANK_NONE)
		return 0;
	size_t na = strlen((char *)r->names.data + a->name),
	       nb = strlen((char *)r->names.data + b->name);
	return na != nb ? na < nb : a->name < b->name;
}

static void drop_aliases(struct reader *r)
{
	size_t kept = 0;
	for (size_t i = 0; i < r->n; i++) {
		if (kept && r->v[kept - 1].addr == r->v[i].addr) {
			if (is_better(r, &r->v[i], &r->v[kept - 1]))
				r->v[kept - 1] = r->v[i];
		} else if (r->v[i].rank != RANK_NONE || !kept || r->v[kept - 1].rank != RANK_NONE) {
			r->v[kept++] = r->v[i];
		}
	}
	r->n = kept;
}

static int starts_span(const struct reader *r, size_t i, uint64_t base)
{
	return !i || r->v[i].addr - base > UINT32_MAX;
}

/* Runs of functions only: what ends them belongs to the run before. */
static int starts_run(const struct reader *r, size_t i, uint16_t module)
{
	return !i || (r->v[i].rank != RANK_NONE && r->v[i].module != module);
}

static void count(const struct reader *r, size_t *ret_spans, size_t *ret_runs)
{
	uint64_t base = 0;
	uint16_t module = 0;
	for (size_t i = 0; i < r->n; i++) {
		if (starts_span(r, i, base)) {
			base = r->v[i].addr;
			++*ret_spans;
		}
		if (starts_run(r, i, module)) {
			module = r->v[i].module;
			++*ret_runs;
		}
	}
}

static void fill(struct kernel_symbols *k, const struct reader *r)
{
	uint64_t base = 0;
	uint16_t module = 0;
	for (size_t i = 0; i < r->n; i++) {
		const struct line *l = &r->v[i];
		if (starts_span(r, i, base)) {
			base = l->addr;
			k->spans[k->n_spans++] = (struct span){ base, (uint32_t)i };
		}
		if (starts_run(r, i, module)) {
			module = l->module;
			k->runs[k->n_runs++] = (struct run){ (uint32_t)i, r->modules[module] };
		}
		k->entries[i] = (struct entry){ (uint32_t)(l->addr - base), l->name };
	}
	k->n = r->n;
}

static int build(struct kernel_symbols *k, struct reader *r)
{
	size_t n_spans = 0, n_runs = 0;
	if (!r->sorted)
		qsort(r->v, r->n, sizeof(*r->v), by_addr);
	drop_aliases(r);
	count(r, &n_spans, &n_runs);
	k->entries = malloc(r->n * sizeof(*k->entries));
	k->spans = malloc(n_spans * sizeof(*k->spans));
	k->runs = malloc(n_runs * sizeof(*k->runs));
	if (!k->entries || !k->spans || !k->runs)
		return -ENOMEM;
	fill(k, r);
	k->names_len = r->names.len;
	k->names = realloc(r->names.data, r->names.len);
	if (!k->names)
		k->names = (char *)r->names.data;
	r->names = (struct buf)BUF_INIT;
	return 0;
}

static int read_all(struct kernel_symbols *k, int fd, const char *path, struct err *err)
{
	struct reader r = { .names = BUF_INIT, .sorted = 1 };
	char *buf = malloc(READ_SIZE);
	uint16_t kernel;
	int rc = buf ? find_module(&r, "[kernel]", 8, &kernel) : -ENOMEM;
	if (!rc)
		rc = read_text(&r, fd, buf);
	if (rc)
		err_sys(err, rc, "cannot read the kernel's symbols from %s", path);
	else if (!r.any_line)
		rc = err_set(err, -EBADMSG, "%s holds no symbols", path);
	else if (!r.any_addr)
		rc = err_set(
			err, -EPERM,
			"%s shows no kernel addresses: run as root or with CAP_SYSLOG, and with "
			"the sysctl kernel.kptr_restrict at 0 or 1",
			path);
	else if (!r.n)
		rc = err_set(err, -EBADMSG, "%s holds no symbols", path);
	else if ((rc = build(k, &r)))
		err_sys(err, rc, "cannot keep the kernel's symbols");
	free(buf);
	free(r.v);
	free(r.modules);
	buf_fini(&r.names);
	return rc;
}

int kernel_symbols_read_open(struct kernel_symbols **ret, int fd, const char *path, struct err *err)
{
	struct stat st;
	struct kernel_symbols *k = calloc(1, sizeof(*k));
	int rc;
	if (!k)
		rc = err_sys(err, -ENOMEM, "cannot keep the kernel's symbols");
	else if (fstat(fd, &st))
		rc = err_sys(err, -errno, "cannot stat %s", path);
	else if (!S_ISREG(st.st_mode))
		rc = err_set(err, -EINVAL, "%s is not a regular file", path);
	else
		rc = read_all(k, fd, path, err);
	if (rc)
		kernel_symbols_free(k);
	else
		*ret = k;
	return rc;
}

int kernel_symbols_read(struct kernel_symbols **ret, const char *path, struct err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return err_sys(err, -errno, "cannot open %s", path);
	int rc = kernel_symbols_read_open(ret, fd, path, err);
	close(fd);
	return rc;
}

void kernel_symbols_free(struct kernel_symbols *k)
{
	if (!k)
		return;
	cells_fini(&k->cells);
	free(k->entries);
	free(k->spans);
	free(k->runs);
	free(k->names);
	free(k);
}

/* ---- look-up ---- */

/* The last of n > 0 spans that begins at or before addr, or -1. */
static int64_t find_span(const struct kernel_symbols *k, uint64_t addr)
{
	return (int64_t)bisect(i, 0, k->n_spans, k->spans[i].base <= addr) - 1;
}

static size_t find_run(const struct kernel_symbols *k, size_t entry)
{
	/* The first run begins at entry 0 */
	return bisect(i, 0, k->n_runs, k->runs[i].first <= entry) - 1;
}

/* Index of the entry whose function holds addr, or -ENOENT. */
static int64_t find_entry(const struct kernel_symbols *k, uint64_t addr, uint64_t *ret_start)
{
	int64_t s = find_span(k, addr);
	if (s < 0 || addr - k->spans[s].base > UINT32_MAX)
		return -ENOENT;
	uint32_t at = (uint32_t)(addr - k->spans[s].base);
	size_t end = (size_t)s + 1 < k->n_spans ? k->spans[s + 1].first : k->n;
	size_t behind = bisect(i, k->spans[s].first, end, k->entries[i].addr <= at);
	const struct entry *e =
		&k->entries[behind - 1]; /* addr is not before the first of the span */
	if (e->name == NO_NAME)
		return -ENOENT;
	*ret_start = k->spans[s].base + e->addr;
	return (int64_t)(behind - 1);
}

/* How far the function of an entry may reach: less when nothing of its own module follows. */
static uint64_t reach(const struct kernel_symbols *k, size_t entry, size_t run)
{
	int last = entry + 1 == k->n || k->entries[entry + 1].name == NO_NAME ||
		   (run + 1 < k->n_runs && k->runs[run + 1].first == entry + 1);
	return last && strcmp(k->names + k->runs[run].module, "[bpf]") ? REACH_LAST : REACH_MAX;
}

int kernel_symbols_find(struct kernel_symbols *k, uint64_t addr, struct symbol *ret)
{
	uint64_t start;
	int64_t i = find_entry(k, addr, &start);
	if (i < 0)
		return (int)i;
	size_t run = find_run(k, (size_t)i);
	if (addr - start >= reach(k, (size_t)i, run))
		return -ENOENT;
	struct cell *cell = cells_find(&k->cells, (uint32_t)i);
	if (!cell)
		cell = cells_add(&k->cells, (uint32_t)i, k->names + k->entries[i].name);
	if (!cell)
		return -ENOMEM;
	*ret = (struct symbol){
		.name = cell->name,
		.module = k->names + k->runs[run].module,
		.start = start,
		.tag = &cell->tag,
	};
	return 0;
}

size_t kernel_symbols_memory(const struct kernel_symbols *k)
{
	return sizeof(*k) + k->n * sizeof(*k->entries) + k->n_spans * sizeof(*k->spans) +
	       k->n_runs * sizeof(*k->runs) + k->names_len + k->cells.bytes;
}
