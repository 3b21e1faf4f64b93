/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler/probe.h"
#include "sampler/probe_support.h"

#include "elf/function.h"
#include "elf/usdt.h"
#include "symbols/debugdata.h"
#include "symbols/instructions.h"
#include "symbols/names.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIND_MS 5000u
#define HEAP "heap"
#define HEAP_LIB "libascribe-heap.so"

/* ---- the text ---- */

static const struct kind {
	const char *prefix, *form;
} kinds[] = {
	[PROBE_FUNCTION] = { "uprobe:", "uprobe:FILE:SYMBOL, uprobe:FILE:SYMBOL+OFFSET or "
					"uprobe:FILE:SYMBOL:argN=UNIT (one of bytes, ns, count; "
					"up to two of int, label, text)" },
	[PROBE_CALLS] = { "uretprobe:", "uretprobe:FILE:SYMBOL" },
	[PROBE_STATIC] = { "usdt:", "usdt:FILE:PROVIDER:NAME, or with :argN=UNIT (one of "
				    "bytes, ns, count; up to two of int, label, text) behind it" },
};
#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* N_KINDS: it is no probe. */
static size_t kind_of(const char *event)
{
	size_t i = 0;
	while (i < N_KINDS && strncmp(event, kinds[i].prefix, strlen(kinds[i].prefix)) != 0)
		i++;
	return i;
}

bool probe_is(const char *event)
{
	return kind_of(event) < N_KINDS || probe_is_heap(event);
}

bool probe_is_heap(const char *event)
{
	const size_t n = strlen(HEAP);
	return !strncmp(event, HEAP, n) && (!event[n] || event[n] == ':');
}

/* Copy the text up to end; false: it is empty or too long. */
static bool copy(char *to, size_t cap, const char *from, const char *end)
{
	const size_t n = (size_t)(end - from);
	if (!n || n >= cap)
		return false;
	memcpy(to, from, n);
	to[n] = 0;
	return true;
}

/* The last colon before end, not at the beginning, and none of C++'s "::". */
static const char *colon_before(const char *text, const char *end)
{
	for (const char *c = end - 1; c > text; c--)
		if (*c == ':' && c[1] != ':' && c[-1] != ':')
			return c;
	return NULL;
}

const char *probe_symbol(const char *event)
{
	const char *colon = colon_before(event, strchr(event, 0));
	return colon ? colon + 1 : NULL;
}

/* SYMBOL[+OFFSET] */
static bool parse_function(struct probe_spec *p, const char *text, const char *end)
{
	const char *plus = memrchr(text, '+', (size_t)(end - text));
	char *behind = NULL;
	errno = 0;
	if (plus && memchr(plus, ')', (size_t)(end - plus))) /* operator+(...) */
		plus = NULL;
	if (plus)
		p->offset = strtoull(plus + 1, &behind, 0);
	if (plus && (plus[1] < '0' || plus[1] > '9' || behind != end || errno))
		return false;
	return copy(p->name, sizeof(p->name), text, plus ? plus : end);
}

/* What may stand behind "argN="; the first is the unit of hits without one. */
static const struct {
	const char *name, *unit;
	unsigned label; /* the entry of the capture; 0: the argument is the value */
} units[] = {
	{ "count", "count", 0 },       { "bytes", "bytes", 0 },
	{ "ns", "nanoseconds", 0 },    { "label", "count", ENTRY_INT },
	{ "int", "count", ENTRY_INT }, { "text", "count", ENTRY_BYTES },
};
#define N_UNITS (sizeof(units) / sizeof(units[0]))

const char *probe_unit(const struct probe_spec *p)
{
	return p->kind == PROBE_CALLS  ? "nanoseconds"
	       : p->kind == PROBE_HEAP ? "bytes"
				       : units[p->value.unit].unit;
}

/* ":argN=UNIT" up to end. False: there is no such argument or unit, or one too many. */
static bool parse_argument(struct probe_spec *p, const char *text, const char *end)
{
	struct probe_read r = { 0 };
	char one[32], unit[16];
	int len = 0;
	if (p->kind == PROBE_CALLS || !copy(one, sizeof(one), text, end) ||
	    sscanf(one, ":arg%1u=%15[a-z]%n", &r.arg, unit, &len) != 2 || one[len] || !r.arg)
		return false;
	while (r.unit < N_UNITS && strcmp(units[r.unit].name, unit) != 0)
		r.unit++;
	if (r.unit == N_UNITS)
		return false;
	if (!units[r.unit].label) {
		const bool first = !p->value.arg;
		p->value = r;
		return first;
	}
	for (unsigned i = 0; i < p->n_labels; i++)
		if (p->label[i].arg == r.arg)
			return false;
	if (p->n_labels == PROBE_LABELS)
		return false;
	p->label[p->n_labels++] = r;
	return true;
}

/* Take all arguments off the end of a text. Return the new end; NULL: one makes no sense. */
static const char *parse_arguments(struct probe_spec *p, const char *text, const char *end)
{
	const char *colon = colon_before(text, end);
	/* The name itself may be operator=. */
	while (colon && memchr(colon, '=', (size_t)(end - colon)) &&
	       (colon_before(text, colon) || !strncmp(colon, ":arg", 4))) {
		if (!parse_argument(p, colon, end))
			return NULL;
		end = colon;
		colon = colon_before(text, end);
	}
	return end;
}

/* Our library: installed in PREFIX/lib/ascribe, or beside the program that was just built. */
static bool find_heap_lib(char *ret, size_t cap)
{
	static const char *const places[] = { "/../lib/ascribe/" HEAP_LIB, "/" HEAP_LIB };
	char exe[PROBE_FILE_MAX - sizeof("/../lib/ascribe/" HEAP_LIB)];
	const ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *slash = n > 0 && (size_t)n < sizeof(exe) - 1 ? memrchr(exe, '/', (size_t)n) : NULL;
	bool found = false;
	if (slash)
		*slash = 0;
	for (unsigned i = 0; slash && !found && i < 2; i++) {
		snprintf(ret, cap, "%s%s", exe, places[i]);
		found = !access(ret, R_OK);
	}
	return found;
}

static int parse_heap(struct probe_spec *ret, const char *event, struct err *err)
{
	struct probe_spec p = { .kind = PROBE_HEAP };
	const char *file = event + strlen(HEAP) + (event[strlen(HEAP)] == ':');
	if (*file && (!strchr(file, '/') || !copy(p.file, sizeof(p.file), file, strchr(file, 0))))
		return err_set(err, -EINVAL,
			       "event '%.200s': it has the form " HEAP " or " HEAP
			       ":FILE, with a path as FILE",
			       event);
	if (!*file && !find_heap_lib(p.file, sizeof(p.file)))
		return err_set(err, -EINVAL,
			       "event " HEAP ": " HEAP_LIB " is neither in ../lib/ascribe of this "
			       "program's directory nor in that: name it by " HEAP ":FILE");
	*ret = p;
	return 0;
}

#if defined(__x86_64__)
static const char *const heap_arguments[] = { "8@%rdi 8@%rsi 8@%rdx", "8@%rdi" };
#else
static const char *const heap_arguments[] = { "8@x0 8@x1 8@x2", "8@x0" };
#endif

struct probe_spec probe_of_heap(const struct probe_spec *heap, bool frees)
{
	struct probe_spec p = *heap;
	p.kind = PROBE_STATIC;
	snprintf(p.provider, sizeof(p.provider), "otel_memory");
	snprintf(p.name, sizeof(p.name), "%s", frees ? "free" : "alloc");
	snprintf(p.arguments, sizeof(p.arguments), "%s", heap_arguments[frees]);
	return p;
}

int probe_parse(struct probe_spec *ret, const char *event, struct err *err)
{
	if (probe_is_heap(event))
		return parse_heap(ret, event, err);

	struct probe_spec p = { .kind = (enum probe_kind)kind_of(event) };
	const bool is_static = p.kind == PROBE_STATIC;
	const char *text = strchr(event, ':') + 1;
	const char *end = parse_arguments(&p, text, text + strlen(text));
	const char *name = end ? colon_before(text, end) : NULL;
	const char *provider = name && is_static ? colon_before(text, name) : NULL;
	bool good = name && strchr(text, '/') && (provider || !is_static);
	good = good && copy(p.file, sizeof(p.file), text, provider ? provider : name);
	if (provider)
		good = good && copy(p.provider, sizeof(p.provider), provider + 1, name) &&
		       copy(p.name, sizeof(p.name), name + 1, end);
	else
		good = good && parse_function(&p, name + 1, end) &&
		       (!p.offset || (p.kind == PROBE_FUNCTION && !p.value.arg && !p.n_labels));
	if (!good)
		return err_set(err, -EINVAL,
			       "event '%.200s': it has the form %s, with a path as FILE", event,
			       kinds[p.kind].form);
	*ret = p;
	return 0;
}

/* ---- in a worker ---- */

/* n may be 0: the build id says where else to look. */
struct answer {
	uint64_t n, has_nops, build_id_len;
	uint8_t build_id[ELF_BUILD_ID_MAX];
	struct probe_place place[PROBE_PLACES_MAX];
};

/* Is vaddr in what the file has of a segment with this flag? */
static bool is_in(const struct elf_image *img, uint32_t flag, uint64_t vaddr)
{
	bool found = false;
	for (size_t i = 0; i < img->n_loads && !found; i++)
		found = img->loads[i].flags & flag && vaddr >= img->loads[i].vaddr &&
			vaddr - img->loads[i].vaddr < img->loads[i].filesz;
	return found;
}

struct search {
	const struct elf_image *img;
	const struct probe_spec *p;
	struct answer *a;
};

/* Does a nop of 5 bytes stand there? See probe_support_is_deadly. */
static bool is_nops(const struct elf_image *img, uint64_t vaddr)
{
	static const uint8_t nops[] = { 0x0f, 0x1f, 0x44, 0, 0 };
	uint8_t have[sizeof(nops)];
	return img->machine == EM_X86_64 && !elf_image_read_at(img, vaddr, have, sizeof(have)) &&
	       !memcmp(have, nops, sizeof(nops));
}

static int add_place(const struct search *s, uint64_t vaddr, const struct probe_place *at)
{
	struct answer *a = s->a;
	a->has_nops |= is_nops(s->img, vaddr);
	for (size_t i = 0; i < a->n; i++)
		if (a->place[i].offset == at->offset)
			return 0;
	if (a->n == PROBE_PLACES_MAX)
		return -E2BIG;
	a->place[a->n++] = *at;
	return 0;
}

/* note: of a static probe; NULL: of a function. */
static int locate_one(const struct probe_read *r, const char *note, struct probe_argument *ret)
{
	if (note)
		return probe_arg_of_note(note, r->arg, ret) ? -EDOM : 0;
	if (probe_arg_of_function(r->arg, ret))
		return -EDOM;
	if (!strcmp(units[r->unit].name, "int")) {
		ret->size = 2;
		ret->is_signed = 1;
	}
	return 0;
}

static int locate(const struct probe_spec *p, const char *note, struct probe_arguments *ret)
{
	int rc = p->value.arg ? locate_one(&p->value, note, &ret->value) : 0;
	for (unsigned i = 0; !rc && i < p->n_labels; i++)
		rc = locate_one(&p->label[i], note, &ret->label[i]);
	return rc;
}

static int take_function(void *ctx, const struct elf_function *f)
{
	const struct search *s = ctx;
	struct probe_place at = { 0 };
	if (!is_in(s->img, PF_X, f->vaddr))
		return 0;
	if (s->p->offset && s->p->offset >= f->size)
		return -ERANGE;
	/* A breakpoint within an instruction makes another one of it, in every process. */
	int rc = instructions_begin_at(s->img, f->vaddr, s->p->offset);
	rc = rc ? rc : elf_image_offset(s->img, f->vaddr + s->p->offset, &at.offset);
	rc = rc ? rc : locate(s->p, NULL, &at.arguments);
	return rc ? rc : add_place(s, f->vaddr + s->p->offset, &at);
}

static int take_static(void *ctx, const struct elf_usdt *u)
{
	const struct search *s = ctx;
	struct probe_place at = { 0 };
	if (strcmp(u->provider, s->p->provider) != 0 || strcmp(u->name, s->p->name) != 0)
		return 0;
	if (*s->p->arguments && strcmp(u->arguments, s->p->arguments) != 0)
		return -EDOM;
	if (!is_in(s->img, PF_X, u->vaddr) || (u->semaphore && !is_in(s->img, PF_W, u->semaphore)))
		return -EBADMSG;
	int rc = elf_image_offset(s->img, u->vaddr, &at.offset);
	if (!rc && u->semaphore)
		rc = elf_image_offset(s->img, u->semaphore, &at.semaphore);
	rc = rc ? rc : locate(s->p, u->arguments, &at.arguments);
	return rc ? rc : add_place(s, u->vaddr, &at);
}

static bool has_symbol(void *ctx, const char *symbol)
{
	const struct search *s = ctx;
	return !strcmp(symbol, s->p->name);
}

/*
 * A mangled name as reports show it: whole, or without parameters and template arguments. No part
 * of a function (.cold), and no deleting destructor, which calls the other one.
 */
static bool has_shown_name(void *ctx, const char *symbol)
{
	const struct search *s = ctx;
	const size_t len = strlen(symbol);
	char whole[1024], simple[1024];
	if (len < 5 || symbol[0] != '_' || (symbol[1] != 'Z' && symbol[1] != 'R') ||
	    strchr(symbol, '.') || !strcmp(symbol + len - 4, "D0Ev"))
		return false;
	symbol_demangle(symbol, whole, sizeof(whole));
	name_simplify(whole, simple, sizeof(simple));
	return !strcmp(whole, s->p->name) || !strcmp(simple, s->p->name);
}

/* The functions that .gnu_debugdata has, and those of the debug file. */
static int find_stripped(const struct elf_image *debug, bool (*wanted)(void *, const char *),
			 struct search *s)
{
	struct elf_image packed;
	int rc = debugdata_open(&packed, s->img, "file", NULL);
	if (!rc) {
		rc = elf_function_each(&packed, wanted, take_function, s);
		elf_image_fini(&packed);
	} else if (rc == -ENOENT) {
		rc = 0;
	}
	if (!rc && debug)
		rc = elf_function_each(debug, wanted, take_function, s);
	return rc;
}

static int find_functions(const struct elf_image *debug, bool (*wanted)(void *, const char *),
			  struct search *s)
{
	int rc = elf_function_each(s->img, wanted, take_function, s);
	if (rc || s->img->symtab.size)
		return rc;
	s->a->build_id_len = s->img->build_id_len;
	memcpy(s->a->build_id, s->img->build_id, s->img->build_id_len);
	return find_stripped(debug, wanted, s);
}

static int find(const struct elf_image *img, const struct elf_image *debug,
		const struct probe_spec *p, struct answer *a)
{
	struct search s = { img, p, a };
	if (img->is_32)
		return -EPROTONOSUPPORT;
	if (p->kind == PROBE_STATIC)
		return elf_usdt_each(img, take_static, &s);
	int rc = find_functions(debug, has_symbol, &s);
	return rc || a->n ? rc : find_functions(debug, has_shown_name, &s);
}

static bool is_debug_of(const struct elf_image *debug, const struct elf_image *img)
{
	return debug->build_id_len && debug->build_id_len == img->build_id_len &&
	       debug->machine == img->machine && debug->is_32 == img->is_32 &&
	       !memcmp(debug->build_id, img->build_id, img->build_id_len);
}

static int find_in(const struct sandbox_request *q, const struct probe_spec *p, struct answer *a)
{
	struct elf_image img, debug;
	int rc = elf_image_open(&img, q->fds[0], "file", NULL);
	if (rc)
		return rc;
	const bool has_debug =
		q->n_fds > 1 && !elf_image_open(&debug, q->fds[1], "debug file", NULL);
	rc = find(&img, has_debug && is_debug_of(&debug, &img) ? &debug : NULL, p, a);
	if (has_debug)
		elf_image_fini(&debug);
	elf_image_fini(&img);
	return rc;
}

int probe_op(const struct sandbox_request *q, struct buf *out)
{
	struct answer *a = calloc(1, sizeof(*a));
	struct probe_spec p;
	if (!a || !q->n_fds || q->len != sizeof(p)) {
		free(a);
		return -EINVAL;
	}
	memcpy(&p, q->bytes, sizeof(p));
	int rc = find_in(q, &p, a);
	rc = rc ? rc : buf_add(out, a, sizeof(*a));
	free(a);
	return rc;
}

/* ---- who asks ---- */

/* The numbers of the arguments that are asked for: "1 or 2". */
static const char *numbers_of(const struct probe_spec *p, char out[64])
{
	size_t n = 0;
	if (p->value.arg)
		n = (size_t)snprintf(out, 64, "%u", p->value.arg);
	for (unsigned i = p->n_labels; i-- > 0;)
		n += (size_t)snprintf(out + n, 64 - n, "%s%u", n ? " or " : "", p->label[i].arg);
	return out;
}

static int cannot(const struct probe_spec *p, int rc, struct err *err)
{
	char numbers[64] = "";
	const bool is_static = p->kind == PROBE_STATIC;
	const char *what = is_static ? "static probe" : "function";
	switch (rc) {
	case -ENOENT:
		return err_set(err, rc,
			       is_static
				       ? "%s has no %s %s:%s: readelf -n lists those it has"
				       : "%s has no %s %s%s in its symbol tables: nm -C and nm -DC "
					 "list those it has",
			       p->file, what, p->provider, p->name);
	case -ENOTSUP:
		return err_set(err, rc,
			       "%s: which function %s is, is chosen when a program starts (IFUNC): "
			       "name one of its variants",
			       p->file, p->name);
	case -EDOM:
		return *p->arguments
			       ? err_set(err, rc,
					 "%s: the arguments of %s:%s are not in the registers '%s', "
					 "the only ones that are read",
					 p->file, p->provider, p->name, p->arguments)
			       : err_set(err, rc,
					 is_static
						 ? "%s: %s has no argument %s that is an integer "
						   "in a register, in memory or constant: readelf "
						   "-n shows them"
						 : "%s: %s: argument %s is not in a register: the "
						   "System V ABI has 6 there, arm64 8",
					 p->file, p->name, numbers_of(p, numbers));
	case -EILSEQ:
		return err_set(err, rc,
			       "%s: no instruction begins at %s+%llu: objdump -d shows where they "
			       "do",
			       p->file, p->name, (unsigned long long)p->offset);
	case -ERANGE:
		return err_set(err, rc, "%s: %s is not as long as %llu bytes", p->file, p->name,
			       (unsigned long long)p->offset);
	case -EADDRNOTAVAIL:
		return err_set(err, rc,
			       "%s: a nop of 5 bytes stands at %s: hit there, the children of a "
			       "fork crash since Linux 6.18%s",
			       p->file, p->name,
			       p->kind == PROBE_FUNCTION ? "; add 5 to its offset" : "");
	case -E2BIG:
		return err_set(err, rc, "%s has the %s %s at more than %d places, or is too large",
			       p->file, what, p->name, PROBE_PLACES_MAX);
	case -EBADMSG:
	case -EPROTONOSUPPORT:
	case -EINVAL:
		return err_set(err, rc, "%s is no 64-bit ELF file, or a damaged one", p->file);
	default:
		return err_sys(err, rc, "looking for the %s %s in %s", what, p->name, p->file);
	}
}

/* Are these the arguments that were asked for? */
static bool are_sound(const struct probe_spec *p, const struct probe_arguments *a)
{
	bool good = probe_arg_is_sound(&a->value) && !a->value.arg == !p->value.arg;
	for (unsigned i = 0; good && i < PROBE_LABELS; i++)
		good = probe_arg_is_sound(&a->label[i]) && !a->label[i].arg == (i >= p->n_labels);
	return good;
}

static bool is_answer(const struct probe_spec *p, const struct buf *reply)
{
	const struct answer *a = (const void *)reply->data;
	bool good = reply->len == sizeof(*a) && a->n <= PROBE_PLACES_MAX &&
		    a->build_id_len <= ELF_BUILD_ID_MAX;
	for (size_t i = 0; good && i < a->n; i++)
		good = are_sound(p, &a->place[i].arguments);
	return good;
}

/* What becomes of the arguments does not come from the worker. */
static void set_labels(const struct probe_spec *p, struct probe_arguments *a)
{
	for (unsigned i = 0; i < PROBE_LABELS; i++) {
		a->label[i].label = i < p->n_labels ? units[p->label[i].unit].label & 15 : 0;
		a->label[i].number = i < p->n_labels ? p->label[i].arg & 15 : 0;
	}
}

/* Fill ret from an answer that was checked. */
static void take(const struct probe_spec *p, const struct answer *a, struct probe_found *ret)
{
	ret->n = a->n;
	memcpy(ret->place, a->place, a->n * sizeof(ret->place[0]));
	for (size_t i = 0; i < a->n; i++)
		set_labels(p, &ret->place[i].arguments);
	ret->build_id_len = a->build_id_len;
	memcpy(ret->build_id, a->build_id, a->build_id_len);
}

int probe_find(struct sandbox *s, const struct probe_spec *spec, int fd, int debug,
	       struct probe_found *ret, struct err *err)
{
	const int fds[] = { fd, debug };
	const struct sandbox_call call = { .op = PROBE_OP,
					   .bytes = spec,
					   .len = sizeof(*spec),
					   .fds = fds,
					   .n_fds = debug < 0 ? 1 : 2,
					   .deadline_ms = FIND_MS,
					   .max_reply = sizeof(struct answer) };
	struct buf reply = BUF_INIT;
	int rc = sandbox_ask(s, &call, &reply);
	*ret = (struct probe_found){ 0 };
	if (!rc && !is_answer(spec, &reply))
		rc = -EBADMSG;
	if (!rc && ((const struct answer *)(const void *)reply.data)->has_nops &&
	    probe_support_is_deadly())
		rc = -EADDRNOTAVAIL;
	if (!rc)
		take(spec, (const void *)reply.data, ret);
	buf_fini(&reply);
	rc = rc || ret->n ? rc : -ENOENT;
	return rc ? cannot(spec, rc, err) : 0;
}
