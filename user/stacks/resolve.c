/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/resolve.h"

#include "hist/metrics.h"
#include "stacks/ids.h"
#include "stacks/interleave.h"
#include "stacks/places.h"
#include "util/array.h"

#include <errno.h>
#include <limits.h>
#include <linux/types.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>
#include <unistd.h>
#include "wire.h"

#define MODULE_BUCKETS 1024
#define LINES_NS 1000000000ull /* for DWARF in one drain, at most; places beyond it have no inlined calls this time */
#define LINES_PART 4           /* of the time between two drains: the tables go on filling */
#define WANTED_MAX 65536       /* places that wait to be asked for */
#define WANTED_BATCH 256       /* in one request */
#define KERNEL_RELOAD_NS 10000000000ull /* kallsyms is read again for new modules, at most this often */

/* The first byte of a content's id. */
enum {
	CONTENT_FILE = 0, /* device, inode, time, size */
	CONTENT_BUILD_ID = 1,
	CONTENT_UNREAD = 2,
	CONTENT_VDSO = 3,
};

/* One content of a file, shared by every proc_file that has it. */
struct module {
	struct binary *binary;   /* NULL: nothing to be had */
	struct resolver *owner;
	uint32_t refs;
	char *path;
	uint32_t name, build_id; /* strings of the store */
	uint64_t identity;       /* hash of what tells contents apart; compared in full by `id` */
	uint8_t id[RESOLVER_CONTENT];
	bool refused;            /* an ELF file that lies or is too costly: binary is NULL */
	bool wants_debug;        /* to be asked for when it is first needed */
	struct symbols_again again; /* it could not be read, or not be opened once more: not for what it is */
	struct module *next;
};

/* A place in a file with DWARF that is not known yet. */
struct wanted {
	struct module *m; /* held */
	uint64_t vaddr, offset;
};

struct resolver {
	struct store_writer *store;
	struct symbolizer *symbolizer;
	struct downloads *downloads; /* NULL: none */
	struct jits *jits;
	struct places *places; /* in files with DWARF */
	uint64_t lines_ns;     /* spent since the drain began, */
	uint64_t lines_max_ns; /* of so much */
	struct wanted *wanted;
	size_t n_wanted, cap_wanted;
	bool sorted; /* nothing was added since */
	struct kernel_symbols *kernel;
	uint64_t kernel_read_ns;
	struct module *modules[MODULE_BUCKETS];
	struct binary *vdso;
	const uint8_t *vdso_bytes; /* in our own address space */
	size_t vdso_size;
	uint32_t life; /* of the ids that are kept */
	uint32_t kernel_name, unknown_frame, idle_stack;
	struct module vdso_module;
};

static uint64_t now_ns(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int add_text(struct resolver *r, const char *s, uint32_t *ret)
{
	return store_add_string(r->store, s, strlen(s), ret);
}

/* The vdso of 64-bit processes is the same everywhere: ours will do. Its ELF header says how long it is. */
static void open_vdso(struct resolver *r)
{
	const uint8_t *at = (const uint8_t *)getauxval(AT_SYSINFO_EHDR);
	FILE *f = at ? fopen("/proc/self/maps", "re") : NULL;
	char line[512];
	unsigned long start, end;
	while (f && fgets(line, sizeof(line), f)) {
		if (!strstr(line, "[vdso]") || sscanf(line, "%lx-%lx", &start, &end) != 2)
			continue;
		r->vdso_bytes = at;
		r->vdso_size = end - start;
		if (binary_open_memory(&r->vdso, at, end - start, "[vdso]", NULL))
			r->vdso = NULL;
	}
	if (f)
		fclose(f);
	r->vdso_module.binary = r->vdso;
	r->vdso_module.id[0] = CONTENT_VDSO;
}

/* Its texts in the store. */
static int module_names(struct resolver *r, struct module *m)
{
	const uint8_t *id;
	char text[2 * 64 + 1] = "";
	size_t n = m->binary ? binary_build_id(m->binary, &id) : 0;
	for (size_t i = 0; i < n && i < 64; i++)
		snprintf(text + 2 * i, 3, "%02x", id[i]);
	int rc = add_text(r, m->path, &m->name);
	return rc ? rc : add_text(r, text, &m->build_id);
}

/* The ids that are kept for good; those of symbols and places are asked for again as they are needed. */
int resolver_renewed(struct resolver *r)
{
	struct store_frame unknown = { .kind = FRAME_USER };
	r->life++;
	r->idle_stack = 0;
	places_clear(r->places);
	int rc = add_text(r, "[kernel]", &r->kernel_name);
	rc = rc ? rc : add_text(r, "[vdso]", &r->vdso_module.name);
	rc = rc ? rc : add_text(r, "[unknown]", &unknown.module);
	unknown.function = unknown.module;
	rc = rc ? rc : store_add_frame(r->store, &unknown, &r->unknown_frame);
	rc = rc ? rc : jits_renewed(r->jits);
	for (size_t b = 0; b < MODULE_BUCKETS; b++)
		for (struct module *m = r->modules[b]; !rc && m; m = m->next)
			rc = module_names(r, m);
	return rc;
}

int resolver_new(struct resolver **ret, struct store_writer *w, struct symbolizer *symbolizer, struct err *ret_warning)
{
	struct resolver *r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->store = w;
	r->symbolizer = symbolizer;
	kernel_symbols_read(&r->kernel, "/proc/kallsyms", ret_warning);
	r->kernel_read_ns = now_ns();
	open_vdso(r);
	int rc = jits_new(&r->jits, w, symbolizer);
	rc = rc ? rc : places_new(&r->places);
	rc = rc ? rc : resolver_renewed(r);
	if (rc) {
		resolver_free(r);
		return rc;
	}
	*ret = r;
	return 0;
}

static void module_free(struct module *m)
{
	binary_free(m->binary);
	free(m->path);
	free(m);
}

void resolver_ask_jvms(struct resolver *r)
{
	jits_ask_jvms(r->jits);
}

void resolver_free(struct resolver *r)
{
	if (!r)
		return;
	for (size_t b = 0; b < MODULE_BUCKETS; b++) {
		for (struct module *m = r->modules[b], *next; m; m = next) {
			next = m->next;
			module_free(m);
		}
	}
	jits_free(r->jits);
	places_free(r->places);
	free(r->wanted);
	binary_free(r->vdso);
	kernel_symbols_free(r->kernel);
	free(r);
}

void resolver_file_gone(void *binary)
{
	struct module *m = binary;
	if (--m->refs || !m->owner)
		return;
	struct module **at = &m->owner->modules[m->identity % MODULE_BUCKETS];
	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	module_free(m);
}

/* ---- opening ---- */

static uint64_t hash_bytes(const uint8_t *p, size_t n)
{
	uint64_t h = 0xcbf29ce484222325ull;
	for (size_t i = 0; i < n; i++)
		h = (h ^ p[i]) * 0x100000001b3ull;
	return h;
}

/* By its build id; false when that is too short to tell contents apart. */
static bool build_id_content(const uint8_t *id, size_t n, uint8_t out[32])
{
	memset(out, 0, 32);
	if (n < 8)
		return false;
	out[0] = CONTENT_BUILD_ID;
	memcpy(out + 1, id, n < 31 ? n : 31);
	return true;
}

/* What tells this content from others: the build id, else which file it is and when it was written. */
static void content_id(const struct binary *b, const struct proc_opened *o, uint8_t out[32])
{
	const uint8_t *id = NULL;
	size_t n = b ? binary_build_id(b, &id) : 0;
	if (build_id_content(id, n, out))
		return;
	uint64_t v[3] = { (o->dev << 40) ^ o->ino, o->mtime_ns, o->size };
	memcpy(out + 8, v, sizeof(v));
}

static struct module *module_find(struct resolver *r, const uint8_t id[32], uint64_t hash)
{
	struct module *m = r->modules[hash % MODULE_BUCKETS];
	while (m && (m->identity != hash || memcmp(m->id, id, 32)))
		m = m->next;
	return m;
}

/* The module of this content: known, or made around b, which is taken over in any case. */
static struct module *module_get(struct resolver *r, struct binary *b, const uint8_t id[32], const char *path)
{
	uint64_t hash = hash_bytes(id, 32);
	struct module *m = module_find(r, id, hash);
	if (m) {
		binary_free(b);
		m->refs++;
		return m;
	}
	m = calloc(1, sizeof(*m));
	if (!m) {
		binary_free(b);
		return NULL;
	}
	m->binary = b;
	m->owner = r;
	m->refs = 1;
	m->identity = hash;
	memcpy(m->id, id, 32);
	m->path = strdup(path);
	if (!m->path || module_names(r, m)) {
		module_free(m);
		return NULL;
	}
	m->next = r->modules[hash % MODULE_BUCKETS];
	r->modules[hash % MODULE_BUCKETS] = m;
	return m;
}

/* Is this the file that was mapped? By build id when the kernel gave one, else by device and inode. */
static bool is_mapped_file(const struct proc_file *f, const struct binary *b, const struct proc_opened *o, bool by_map_files)
{
	const uint8_t *id;
	if (f->build_id_len) {
		size_t n = b ? binary_build_id(b, &id) : 0;
		return n >= f->build_id_len && !memcmp(id, f->build_id, f->build_id_len);
	}
	/* map_files is the mapping itself. Elsewhere the device numbers of overlays differ between maps and stat: the inode decides. */
	return by_map_files || !f->ino || f->ino == o->ino;
}

/* A stripped file may have a separate one with its symbols: in the root of its process, or in ours. -EBUSY: there is no time to tell. */
static int find_debug(struct binary *b, uint32_t tgid, const char *file)
{
	const uint32_t roots[2] = { tgid, 0 };
	char path[PATH_MAX];
	for (unsigned i = 0; b && binary_wants_debug(b) && i < 2; i++) {
		for (unsigned n = 0; !binary_debug_path(b, file, n, path, sizeof(path)); n++) {
			struct proc_opened o;
			if (!path[0] || proc_open_in_root(tgid, roots[i], path, &o))
				continue;
			const struct symbols_file which = { o.dev, o.ino, o.size, o.mtime_ns };
			int rc = binary_offer_debug(b, o.fd, &which);
			close(o.fd);
			if (!rc || rc == -EBUSY)
				return rc;
		}
	}
	return 0;
}

/* ---- debug files from servers ---- */

void resolver_set_downloads(struct resolver *r, struct downloads *d)
{
	r->downloads = d;
}

/* Nothing was found here: it is worth asking for, once there is a sample in it. */
static void note_wants_debug(struct resolver *r, struct module *m)
{
	if (!r->downloads || m->wants_debug || m->id[0] != CONTENT_BUILD_ID || !binary_wants_debug(m->binary))
		return;
	m->wants_debug = true;
	binary_expect_debug(m->binary, true);
}

static void ask_for_debug(struct resolver *r, struct module *m)
{
	const uint8_t *id;
	if (!m->wants_debug)
		return;
	m->wants_debug = false;
	size_t n = binary_build_id(m->binary, &id);
	if (downloads_ask(r->downloads, id, n))
		binary_expect_debug(m->binary, false);
}

void resolver_take_downloads(struct resolver *r)
{
	struct download got;
	uint8_t id[RESOLVER_CONTENT];
	while (r->downloads && !downloads_take(r->downloads, &got)) {
		build_id_content(got.id, got.len, id);
		struct module *m = module_find(r, id, hash_bytes(id, sizeof(id)));
		/* A file that was asked for may be gone: what came is in the cache. */
		int rc = m && got.fd >= 0 ? binary_offer_debug(m->binary, got.fd, NULL) : 0;
		if (rc && !symbols_is_late(rc))
			downloads_discard(r->downloads, got.id, got.len);
		else if (m && got.fd >= 0)
			places_clear(r->places); /* they may say otherwise now */
		if (m)
			binary_expect_debug(m->binary, false);
		if (got.fd >= 0)
			close(got.fd);
	}
}

/* It could not be read, or not be opened once more, and that will be tried again. */
static bool is_late(const struct module *m)
{
	return m->again.at_ns != 0;
}

static struct module *open_file(struct resolver *r, struct procs *procs, const struct proc_image *im,
				const struct proc_map *map)
{
	unsigned try = 0;
	int late = 0, opened = 0;
	uint8_t id[32];
	struct proc_opened o;
	/* A copy of what is known needs no opening, and may be gone together with its process. */
	if (build_id_content(map->file->build_id, map->file->build_id_len, id)) {
		struct module *m = module_find(r, id, hash_bytes(id, 32));
		if (m) {
			m->refs++;
			return m;
		}
	}
	symbolizer_for(r->symbolizer, im->tgid);
	if (!symbolizer_may(r->symbolizer))
		late = -EBUSY;
	while (!late && !(opened = proc_map_open(procs, im, map, &try, &o))) {
		struct binary *b = NULL;
		struct module *m;
		int rc = binary_open_in(&b, r->symbolizer, o.fd, map->file->path, NULL);
		if (rc)
			b = NULL; /* not ELF, or refused: the file is known all the same, without names */
		close(o.fd);
		late = symbols_is_late(rc) ? rc : 0;
		if (late)
			break;
		if (is_mapped_file(map->file, b, &o, try == 1)) {
			content_id(b, &o, id);
			late = find_debug(b, im->tgid, map->file->path);
			if (late) {
				binary_free(b);
				break;
			}
			m = module_get(r, b, id, map->file->path);
			if (m && rc)
				m->refused = rc != -ENOEXEC && rc != -EPROTONOSUPPORT; /* honest files of another kind */
			if (m && !rc)
				note_wants_debug(r, m);
			return m;
		}
		binary_free(b);
	}
	if (!late && symbols_is_late(opened))
		late = -EAGAIN; /* a few times, though it may be refused only */
	if (!late && opened == -EINTR)
		late = -EBUSY;
	/* Nothing to read: a module of its own, so that it is not tried again while the file is known. */
	memset(id, 0, sizeof(id));
	id[0] = CONTENT_UNREAD;
	uint64_t h = hash_bytes((const uint8_t *)map->file->path, strlen(map->file->path));
	memcpy(id + 1, map->file->build_id, PROC_BUILD_ID_MAX);
	memcpy(id + 24, &h, 8);
	struct module *m = module_get(r, NULL, id, map->file->path);
	if (m && (late || is_late(m)) && symbols_is_due(&m->again))
		m->refused = !symbols_put_off(&m->again, late ? late : -EAGAIN);
	return m;
}

static struct module *module_of(struct resolver *r, struct procs *procs, const struct proc_image *im,
				const struct proc_map *map)
{
	struct proc_file *f = map->file;
	struct module *m = f->binary;
	if (m && !(is_late(m) && !m->binary && symbols_is_due(&m->again)))
		return m;
	if (m) {
		f->binary = open_file(r, procs, im, map);
		resolver_file_gone(m);
		return f->binary;
	}
	if (!strcmp(f->path, "[vdso]")) {
		r->vdso_module.refs++;
		f->binary = &r->vdso_module;
	} else {
		f->binary = open_file(r, procs, im, map);
	}
	return f->binary;
}

struct binary *resolver_binary(struct resolver *r, struct procs *procs, const struct proc_image *im,
			       const struct proc_map *map)
{
	struct module *m = module_of(r, procs, im, map);
	return m ? m->binary : NULL;
}

bool resolver_is_late(const struct proc_map *map)
{
	const struct module *m = map->file->binary;
	return m && is_late(m);
}

const uint8_t *resolver_content(struct resolver *r, struct procs *procs, const struct proc_image *im,
				const struct proc_map *map)
{
	struct module *m = module_of(r, procs, im, map);
	return m && m->binary && m->id[0] != CONTENT_UNREAD ? m->id : NULL;
}

int resolver_open(struct resolver *r, struct procs *procs, const struct proc_image *im, const struct proc_map *map,
		  int *ret_fd)
{
	const uint8_t *want = resolver_content(r, procs, im, map);
	struct module *m = map->file->binary;
	unsigned try = 0;
	struct proc_opened o;
	if (want && m->again.n > SYMBOLS_AGAIN_MAX)
		return -ENOENT;
	if (want && !symbols_is_due(&m->again))
		return -EAGAIN;
	symbolizer_for(r->symbolizer, im->tgid);
	while (want && !proc_map_open(procs, im, map, &try, &o)) {
		struct binary *b = NULL;
		uint8_t id[RESOLVER_CONTENT];
		int rc = binary_open_in(&b, r->symbolizer, o.fd, map->file->path, NULL);
		if (symbols_is_late(rc)) {
			close(o.fd);
			return symbols_put_off(&m->again, rc) ? -EAGAIN : -ENOENT;
		}
		bool same = !rc;
		if (same) {
			content_id(b, &o, id);
			same = !memcmp(id, want, sizeof(id));
		}
		binary_free(b);
		if (same) {
			m->again = (struct symbols_again){ 0 };
			*ret_fd = o.fd;
			return 0;
		}
		close(o.fd);
	}
	return -ENOENT;
}

const uint8_t *resolver_vdso(const struct resolver *r, size_t *ret_size)
{
	if (r->vdso_bytes)
		*ret_size = r->vdso_size;
	return r->vdso_bytes;
}

/* ---- frames ---- */

static int frame_named(struct resolver *r, const struct symbol *sym, uint32_t kind, uint32_t module, uint32_t build_id,
		       uint32_t *ret)
{
	if (kept_get(*sym->tag, r->life, ret))
		return 0;
	struct store_frame f = { .kind = kind, .module = module, .build_id = build_id };
	int rc = add_text(r, sym->name, &f.function);
	rc = rc ? rc : store_add_frame(r->store, &f, ret);
	if (!rc)
		*sym->tag = kept_put(*ret, r->life);
	return rc;
}

/* A frame without inlined calls. is_file: offset is in a file. */
static int frame_plain(struct resolver *r, struct module *m, uint64_t vaddr, bool is_file, uint64_t offset, bool has_vaddr,
		       uint32_t *ret)
{
	struct symbol sym;
	if (has_vaddr && !binary_find(m->binary, vaddr, &sym))
		return frame_named(r, &sym, FRAME_USER, m->name, m->build_id, ret);
	struct store_frame f = { .kind = FRAME_USER, .module = m->name, .build_id = m->build_id };
	/* Memory that no file describes: one frame, whatever the address. */
	if (is_file)
		f.offset = offset; /* memory without a file has no offsets that mean anything later */
	else
		f.function = m->name;
	return store_add_frame(r->store, &f, ret);
}

/* ---- places in files with DWARF ---- */

/* symbol: the function's name by the symbol table, NULL: none. */
static int add_line_frame(struct resolver *r, const struct module *m, const char *symbol, const struct line_frame *l, bool inlined,
			  uint32_t *ret)
{
	char mangled[1025], name[4096];
	struct store_frame f = { .kind = FRAME_USER, .flags = inlined ? FRAME_INLINED : 0, .module = m->name, .build_id = m->build_id,
				 .line = l->line };
	snprintf(mangled, sizeof(mangled), "%.*s", (int)l->function_len, l->function);
	symbol_demangle(mangled, name, sizeof(name));
	const char *shown = !inlined && symbol ? symbol : name[0] ? name : "[unknown]";
	int rc = add_text(r, shown, &f.function);
	if (!rc && l->file_len)
		rc = store_add_string(r->store, l->file, l->file_len, &f.file);
	return rc ? rc : store_add_frame(r->store, &f, ret);
}

_Static_assert(PLACE_FRAMES_MAX >= LINE_FRAMES_MAX, "all frames of a place fit");

/* What DWARF said about a place becomes known: frames of the store, each with the line that was running, or called the next one. */
static int take_place(struct resolver *r, const struct wanted *w, const struct line_frame *frames, size_t n)
{
	uint32_t out[PLACE_FRAMES_MAX];
	size_t n_out = 0;
	struct symbol sym;
	int rc = 0;
	const char *symbol = binary_find(w->m->binary, w->vaddr, &sym) ? NULL : sym.name;
	bool nothing = n == 1 && !frames->function_len && !symbol;
	for (size_t k = 0; !nothing && k < n && k < PLACE_FRAMES_MAX && !rc; k++)
		rc = add_line_frame(r, w->m, symbol, &frames[k], k + 1 < n, &out[n_out++]);
	if (!rc && !n_out) /* that, too, is known from now on */
		rc = frame_plain(r, w->m, w->vaddr, true, w->offset, true, &out[n_out++]);
	return rc ? rc : places_add(r->places, w->m->identity, w->vaddr, out, n_out);
}

/* Places in one file. */
struct asked {
	struct resolver *r;
	const struct wanted *v;
	int rc;
};

static void take_lines(void *ctx, size_t i, const struct line_frame *frames, size_t n)
{
	struct asked *a = ctx;
	if (!a->rc)
		a->rc = take_place(a->r, &a->v[i], frames, n);
}

/* Ask for the places v[n] in one file. -EAGAIN: not now. */
static int ask_places(struct resolver *r, const struct wanted *v, size_t n)
{
	uint64_t vaddrs[WANTED_BATCH], begin = now_ns();
	struct asked a = { .r = r, .v = v };
	struct symbol sym;
	if (r->lines_ns > r->lines_max_ns || binary_find(v->m->binary, v->vaddr, &sym) == -EAGAIN)
		return -EAGAIN;
	for (size_t i = 0; i < n; i++)
		vaddrs[i] = v[i].vaddr;
	int rc = binary_lines(v->m->binary, vaddrs, n, take_lines, &a);
	r->lines_ns += now_ns() - begin;
	return rc ? rc : a.rc;
}

/* True: it will be known after resolver_ask_places. */
static bool want_place(struct resolver *r, const struct wanted *w)
{
	if (r->n_wanted == WANTED_MAX || r->lines_ns > r->lines_max_ns || ARRAY_RESERVE(r->wanted, r->cap_wanted, r->n_wanted + 1))
		return false;
	r->wanted[r->n_wanted++] = *w;
	r->sorted = false;
	w->m->refs++; /* its process may end before */
	return true;
}

static int by_place(const void *pa, const void *pb)
{
	const struct wanted *a = pa, *b = pb;
	if (a->m != b->m)
		return a->m < b->m ? -1 : 1;
	return a->vaddr < b->vaddr ? -1 : a->vaddr > b->vaddr;
}

static void forget_wanted(struct resolver *r, size_t from)
{
	for (size_t i = from; i < r->n_wanted; i++)
		resolver_file_gone(r->wanted[i].m);
	r->n_wanted = from;
}

/* From the end of the list: many places in one file, each once. */
bool resolver_ask_places(struct resolver *r)
{
	struct wanted v[WANTED_BATCH];
	size_t n = 0, i = r->n_wanted;
	if (!i)
		return false;
	if (!r->sorted)
		qsort(r->wanted, r->n_wanted, sizeof(*r->wanted), by_place);
	r->sorted = true;
	for (; i && n < WANTED_BATCH && r->wanted[i - 1].m == r->wanted[r->n_wanted - 1].m; i--)
		if (!n || v[n - 1].vaddr != r->wanted[i - 1].vaddr)
			v[n++] = r->wanted[i - 1];
	if (binary_has_lines(v->m->binary))
		ask_places(r, v, n); /* what is not known then is asked for by itself, or goes without */
	forget_wanted(r, r->lines_ns > r->lines_max_ns ? 0 : i);
	return r->n_wanted;
}

/* The frames of a place in a file with DWARF, innermost first. -EINPROGRESS: put_off, and it is wanted now. */
static int frames_by_lines(struct resolver *r, const struct wanted *w, bool put_off, uint32_t out[PLACE_FRAMES_MAX], size_t *ret_n)
{
	const uint32_t *known;
	size_t n = places_find(r->places, w->m->identity, w->vaddr, &known);
	if (!n) {
		if (put_off && want_place(r, w))
			return -EINPROGRESS;
		int rc = ask_places(r, w, 1);
		if (rc)
			return rc;
		n = places_find(r->places, w->m->identity, w->vaddr, &known);
	}
	memcpy(out, known, n * sizeof(*out));
	*ret_n = n;
	return n ? 0 : -ENOENT;
}

/* The vaddr in the file of an address in its mapping. -ENOENT. */
static int vaddr_of(const struct binary *b, const struct proc_map *map, uint64_t at, uint64_t *ret_vaddr)
{
	uint64_t bias;
	int rc = binary_bias(b, map->start, map->pgoff, &bias);
	if (!rc)
		*ret_vaddr = at - bias;
	return rc;
}

/* The frames at an address: one, or those of inlined calls before it. */
static int frames_user(struct resolver *r, struct procs *procs, const struct proc_image *im, uint64_t addr, bool leaf, bool put_off,
		       uint32_t out[PLACE_FRAMES_MAX], size_t *ret_n, struct resolver_flags *flags)
{
	uint64_t at = leaf ? addr : addr - 1, vaddr = 0;
	if (im)
		symbolizer_for(r->symbolizer, im->tgid);
	const struct proc_map *map = im ? proc_image_map(im, at) : NULL;
	struct module *m = map ? module_of(r, procs, im, map) : NULL;
	*ret_n = 1;
	if (!m) {
		flags->no_mapping = true;
		out[0] = r->unknown_frame;
		return 0;
	}
	uint64_t offset = at - map->start + map->pgoff;
	bool has_vaddr = m->binary && !vaddr_of(m->binary, map, at, &vaddr);
	ask_for_debug(r, m);
	const struct wanted w = { m, vaddr, offset };
	int rc = has_vaddr && binary_has_lines(m->binary) ? frames_by_lines(r, &w, put_off, out, ret_n) : -ENOENT;
	if (!rc || rc == -EINPROGRESS)
		return rc;
	*ret_n = 1;
	if (jits_is_code(map)) {
		rc = jits_frame(r->jits, procs, im, at, out);
		if (rc != -ENOENT)
			return rc;
		flags->jit_unnamed = true;
	}
	rc = frame_plain(r, m, vaddr, map->file->path[0] == '/', offset, has_vaddr, out);
	bool late = m->binary ? binary_is_late(m->binary) : is_late(m);
	flags->names_late |= late;
	flags->names_refused |= m->refused || (m->binary && !late && binary_refused(m->binary));
	return rc;
}

/* New modules and BPF programs appear: read the symbols again, not often. */
static void kernel_reload(struct resolver *r)
{
	struct kernel_symbols *k;
	uint64_t now = now_ns();
	if (!r->kernel || now - r->kernel_read_ns < KERNEL_RELOAD_NS)
		return;
	r->kernel_read_ns = now;
	if (kernel_symbols_read(&k, "/proc/kallsyms", NULL))
		return;
	kernel_symbols_free(r->kernel);
	r->kernel = k;
}

static int frame_kernel(struct resolver *r, uint64_t addr, bool leaf, uint32_t *ret)
{
	uint64_t at = leaf ? addr : addr - 1;
	struct symbol sym;
	int found = r->kernel ? kernel_symbols_find(r->kernel, at, &sym) : -ENOENT;
	if (found) {
		kernel_reload(r);
		found = r->kernel ? kernel_symbols_find(r->kernel, at, &sym) : -ENOENT;
	}
	uint32_t module = r->kernel_name;
	if (!found && sym.module && strcmp(sym.module, "[kernel]")) {
		int rc = add_text(r, sym.module, &module);
		if (rc)
			return rc;
	}
	if (!found)
		return frame_named(r, &sym, FRAME_KERNEL, module, 0, ret);
	struct store_frame f = { .kind = FRAME_KERNEL, .module = module, .offset = r->kernel ? at : 0 };
	return store_add_frame(r->store, &f, ret);
}

/*
 * How many user frames, from the leaf on, can be believed: a return address outside of every executable mapping means that
 * the chain of frame pointers broke, and what lies beyond is not a stack. That one address stays as "[unknown]".
 */
static uint32_t known_frames(const struct proc_image *im, const uint64_t *frames, uint32_t n)
{
	for (uint32_t i = 0; im && i < n; i++)
		if (!proc_image_map(im, i ? frames[i] - 1 : frames[i]))
			return i + 1;
	return n;
}

void resolver_want_program(struct resolver *r, struct procs *procs, const struct proc_image *im)
{
	for (uint32_t i = 0; r->downloads && i < im->n_maps; i++) {
		struct module *m = im->maps[i].file == im->exe ? module_of(r, procs, im, &im->maps[i]) : NULL;
		if (m)
			ask_for_debug(r, m);
	}
}

void resolver_want_names(struct resolver *r, struct procs *procs, const struct proc_image *im, const struct resolver_stack *s)
{
	const uint64_t *user = s->frames + s->n_kernel;
	for (uint32_t i = 0; r->downloads && im && i < s->n_user; i++) {
		const struct proc_map *map = proc_image_map(im, user[i] - (i > 0));
		struct module *m = map ? module_of(r, procs, im, map) : NULL;
		if (m)
			ask_for_debug(r, m);
	}
}

/* ---- Python ---- */

static bool is_eval(struct resolver *r, struct procs *procs, const struct proc_image *im, uint64_t at)
{
	static const char eval[] = "_PyEval_EvalFrameDefault";
	struct binary_python py;
	struct symbol sym;
	uint64_t vaddr;
	const struct proc_map *map = im ? proc_image_map(im, at) : NULL;
	struct module *m = map ? module_of(r, procs, im, map) : NULL;
	if (!m || !m->binary || binary_python(m->binary, &py) || vaddr_of(m->binary, map, at, &vaddr))
		return false;
	if (vaddr >= py.eval && vaddr - py.eval < py.eval_size)
		return true;
	return !binary_find(m->binary, vaddr, &sym) && !strncmp(sym.name, eval, sizeof(eval) - 1); /* its cold part */
}

/* Mark the evals among the user frames; how many. */
static uint32_t find_evals(struct resolver *r, struct procs *procs, const struct proc_image *im, const uint64_t *user, uint32_t n,
			   bool *is)
{
	uint32_t found = 0;
	for (uint32_t i = 0; i < n; i++) {
		is[i] = is_eval(r, procs, im, user[i] - (i > 0));
		found += is[i];
	}
	return found;
}

/*
 * Is an eval called from code of the process's own making? It has a trampoline for each Python function (3.12's -X perf), and the native frames
 * say it all.
 */
static bool has_trampolines(const struct proc_image *im, const uint64_t *user, uint32_t n, const bool *eval)
{
	for (uint32_t i = 1; i < n; i++) {
		const struct proc_map *map = eval[i - 1] ? proc_image_map(im, user[i] - 1) : NULL;
		if (map && jits_is_code(map))
			return true;
	}
	return false;
}

/* The Python frames of eval number k, or all of them when there is no eval, on the stack. */
static int push_python(struct resolver *r, const struct resolver_stack *s, uint32_t k, uint32_t n_evals, uint32_t *stack)
{
	struct interleave in = { s->entry, s->n_python, n_evals, s->python_cut };
	uint32_t first = 0, n = n_evals ? interleave_part(&in, k, &first) : s->n_python;
	int rc = n ? 0 : -ENOENT;
	for (uint32_t i = first + n; !rc && i-- > first;)
		rc = store_add_stack(r->store, *stack, s->python[i], stack);
	return rc;
}

int resolver_stack(struct resolver *r, struct procs *procs, const struct proc_image *im, const struct resolver_stack *s,
		   uint32_t *ret_stack, struct resolver_flags *ret_flags)
{
	METRIC_TIME(symbolize);
	uint32_t at_place[PLACE_FRAMES_MAX];
	bool eval[USER_FRAMES_MAX] = { false };
	const uint64_t *user = s->frames + s->n_kernel;
	uint32_t stack = 0, frame, n_user = known_frames(im, user, s->n_user), n_evals = 0;
	bool put_off = false;
	int rc = 0;
	*ret_flags = (struct resolver_flags){ 0 };
	if (n_user > USER_FRAMES_MAX)
		return -E2BIG;
	if (s->n_python) {
		n_evals = find_evals(r, procs, im, user, n_user, eval);
		if (!n_evals)
			rc = push_python(r, s, 0, 0, &stack);
		else if (has_trampolines(im, user, n_user, eval))
			memset(eval, 0, sizeof(eval));
	}
	for (uint32_t i = n_user, k = n_evals; !rc && i-- > 0;) {
		size_t n = 0;
		k -= eval[i];
		if (eval[i] && !put_off) {
			rc = push_python(r, s, k, n_evals, &stack);
			if (rc != -ENOENT)
				continue;
		}
		rc = frames_user(r, procs, im, s->frames[s->n_kernel + i], i == 0, s->put_off, at_place, &n, ret_flags);
		if (rc == -EINPROGRESS) { /* the others may be unknown as well */
			put_off = true;
			rc = 0;
		}
		while (!rc && !put_off && n-- > 0)
			rc = store_add_stack(r->store, stack, at_place[n], &stack);
	}
	if (!rc && put_off)
		return -EINPROGRESS;
	for (uint32_t i = s->n_kernel; !rc && i-- > 0;) {
		rc = frame_kernel(r, s->frames[i], i == 0, &frame);
		rc = rc ? rc : store_add_stack(r->store, stack, frame, &stack);
	}
	if (!rc)
		*ret_stack = stack;
	return rc;
}

#define SWITCH_FRAMES 10 /* those above the scheduler: the tracepoint, BPF */

/* Up to the frame of `function`, and that of `caller` where it is the next. */
static void trim(struct resolver *r, struct resolver_stack *s, const char *function, const char *caller)
{
	for (uint32_t i = 0; r->kernel && i + 1 < s->n_kernel && i < SWITCH_FRAMES; i++) {
		struct symbol sym;
		if (kernel_symbols_find(r->kernel, s->frames[i] - 1, &sym) || strcmp(sym.name, function))
			continue;
		i++;
		if (i + 1 < s->n_kernel && !kernel_symbols_find(r->kernel, s->frames[i] - 1, &sym) && !strcmp(sym.name, caller))
			i++;
		s->frames += i;
		s->n_kernel -= i;
		return;
	}
}

void resolver_trim_switch(struct resolver *r, struct resolver_stack *s)
{
	trim(r, s, "__schedule", "schedule");
}

void resolver_trim_waking(struct resolver *r, struct resolver_stack *s)
{
	trim(r, s, "try_to_wake_up", "wake_up_q");
}

void resolver_note_code(struct resolver *r, const struct proc_image *im, const struct proc_map *map)
{
	if (jits_is_code(map))
		jits_note(r->jits, im);
}

void resolver_begin(struct resolver *r, unsigned drain_ms)
{
	uint64_t part = drain_ms * 1000000ull / LINES_PART;
	r->lines_max_ns = part < LINES_NS ? part : LINES_NS;
	jits_begin(r->jits);
	r->lines_ns = 0;
	forget_wanted(r, 0); /* of a drain that did not ask */
}

bool resolver_may_read(struct resolver *r, const struct proc_image *im)
{
	symbolizer_for(r->symbolizer, im->tgid);
	return symbolizer_may(r->symbolizer);
}

void resolver_has_read(struct resolver *r, uint64_t ns)
{
	symbolizer_spent(r->symbolizer, ns);
}

void resolver_forget(struct resolver *r, struct procs *procs)
{
	jits_forget(r->jits, procs);
}

void resolver_jit_stats(const struct resolver *r, struct jits_stats *ret)
{
	jits_stats(r->jits, ret);
}

int resolver_idle(struct resolver *r, uint32_t *ret_stack)
{
	struct store_frame f = { .kind = FRAME_IDLE };
	uint32_t frame;
	if (!r->idle_stack) {
		int rc = add_text(r, "[idle]", &f.function);
		f.module = r->kernel_name;
		rc = rc ? rc : store_add_frame(r->store, &f, &frame);
		rc = rc ? rc : store_add_stack(r->store, 0, frame, &r->idle_stack);
		if (rc)
			return rc;
	}
	*ret_stack = r->idle_stack;
	return 0;
}
