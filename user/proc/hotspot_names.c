/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Name a frame of HotSpot's code. A Method leads to its constant part, that to a constant pool with
 * the symbols of name and signature, and that to the class. Nothing stops the process meanwhile:
 * what is not as the frame was when it was sampled, or does not lead back, has no name.
 *
 * The calls that the compiler inlined at a place are a chain of records in a stream (HotSpot's
 * debugInfoRec.cpp, compressedStream.cpp). Its encoding is not published, and has changed once: the
 * chain counts only when it ends in the method that was compiled.
 */
#include "proc/hotspot_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SYMBOL_MAX 400 /* bytes that are read of a symbol */
#define HOPS_MAX 4096  /* of a segment map */
#define PCS_MAX 65536  /* descriptors of a method */
/* Versions whose stream is known; from the second one on it has no bytes of 0. */
#define STREAM_FIRST 17
#define STREAM_NO_ZEROS 20
#define STREAM_LAST 25
#define C2_LEVEL 4 /* CompLevel_full_optimization, of compilerDefinitions.hpp in all of these */

struct naming {
	struct pages *m;
	const struct hotspot_jvm *jvm;
	const struct hotspot_layout *l;
	struct buf *out;
};

/* ---- texts ---- */

struct text {
	char v[HOTSPOT_NAME_MAX];
	size_t n;
};

static void add(struct text *t, const char *s, size_t n)
{
	size_t room = sizeof(t->v) - 1 - t->n;
	n = n < room ? n : room;
	memcpy(t->v + t->n, s, n);
	t->n += n;
	t->v[t->n] = 0;
}

static void add_text(struct text *t, const char *s)
{
	add(t, s, strlen(s));
}

/* Read a Symbol. False: there is none. */
static bool read_symbol(struct naming *g, uint64_t at, char out[SYMBOL_MAX + 1])
{
	int64_t n;
	if (!at || at & 7 || !hotspot_field(g->m, at, g->l->symbol_length, &n))
		return false;
	size_t len = (size_t)n & 0xffff;
	len = len < SYMBOL_MAX ? len : SYMBOL_MAX;
	if (!pages_read(g->m, at + g->l->symbol_body.at, out, len))
		return false;
	out[len] = 0;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)out[i] < 0x20 || out[i] == 0x7f)
			out[i] = '?';
	return len > 0;
}

/* a/b/C -> a.b.C. Hidden classes have an address behind '+', which says nothing later. */
static void add_class(struct text *t, const char *s, size_t n)
{
	for (size_t i = 0; i < n && s[i] != '+'; i++)
		add(t, s[i] == '/' ? "." : &s[i], 1);
}

/* Add the type at *io_s of a signature, and go behind it. */
static void add_type(struct text *t, const char **io_s)
{
	static const char *const basic[] = { "Bbyte", "Cchar",	"Ddouble",  "Ffloat", "Iint",
					     "Jlong", "Sshort", "Zboolean", "Vvoid" };
	const char *s = *io_s;
	unsigned dimensions = 0;
	for (; *s == '['; s++)
		dimensions++;
	if (*s == 'L') {
		size_t n = strcspn(++s, ";");
		add_class(t, s, n);
		s += n + (s[n] == ';');
	} else if (*s) {
		for (size_t i = 0; i < sizeof(basic) / sizeof(basic[0]); i++)
			if (basic[i][0] == *s)
				add_text(t, basic[i] + 1);
		s++;
	}
	while (dimensions-- && t->n < sizeof(t->v) - 1)
		add_text(t, "[]");
	*io_s = s;
}

/* As HotSpot prints it: TYPE CLASS.NAME(TYPE, TYPE) */
static void format(struct text *t, const char *klass, const char *name, const char *signature)
{
	const char *end = strrchr(signature, ')'), *s = signature + 1;
	t->n = 0;
	if (signature[0] == '(' && end) {
		const char *type = end + 1;
		add_type(t, &type);
		add_text(t, " ");
	}
	add_class(t, klass, strlen(klass));
	add_text(t, ".");
	add_text(t, name);
	if (signature[0] != '(' || !end)
		return;
	add_text(t, "(");
	while (s < end) {
		add_type(t, &s);
		if (s < end)
			add_text(t, ", ");
	}
	add_text(t, ")");
}

/* ---- methods ---- */

static uint64_t pool_entry(struct naming *g, uint64_t pool, int64_t length, int64_t i)
{
	return i > 0 && i < length ? pages_word(g->m, pool + g->l->pool_bytes + 8 * (uint64_t)i)
				   : 0;
}

/* The constant part of a method: its address, and the indexes of name and signature. */
static bool read_const(struct naming *g, uint64_t method, uint64_t *ret_at, uint64_t *ret_indexes)
{
	int64_t name, signature, at;
	if (!method || method & 7 || !hotspot_field(g->m, method, g->l->const_method, &at) || !at ||
	    at & 7 || !hotspot_field(g->m, (uint64_t)at, g->l->name_index, &name) ||
	    !hotspot_field(g->m, (uint64_t)at, g->l->signature_index, &signature))
		return false;
	*ret_at = (uint64_t)at;
	*ret_indexes = ((uint64_t)name & 0xffff) << 16 | ((uint64_t)signature & 0xffff);
	return true;
}

/* Add the name of a method to the answer. */
static int add_method(struct naming *g, uint64_t method)
{
	char klass_name[SYMBOL_MAX + 1], name[SYMBOL_MAX + 1], signature[SYMBOL_MAX + 1];
	struct text t;
	uint64_t at, indexes;
	int64_t pool, length, klass, back, symbol;
	if (!read_const(g, method, &at, &indexes) ||
	    !hotspot_field(g->m, at, g->l->constants, &pool) ||
	    !hotspot_field(g->m, (uint64_t)pool, g->l->pool_length, &length) ||
	    !hotspot_field(g->m, (uint64_t)pool, g->l->holder, &klass) ||
	    !hotspot_field(g->m, (uint64_t)klass, g->l->klass_constants, &back) || back != pool ||
	    !hotspot_field(g->m, (uint64_t)klass, g->l->klass_name, &symbol) ||
	    !read_symbol(g, (uint64_t)symbol, klass_name) ||
	    !read_symbol(g, pool_entry(g, (uint64_t)pool, length, (int64_t)(indexes >> 16)),
			 name) ||
	    !read_symbol(g, pool_entry(g, (uint64_t)pool, length, (int64_t)(indexes & 0xffff)),
			 signature))
		return -ESTALE;
	format(&t, klass_name, name, signature);
	return buf_add(g->out, t.v, t.n + 1);
}

/* ---- compiled code ---- */

/* The blob that holds pc; 0: none. */
static uint64_t blob_at(struct naming *g, uint64_t pc)
{
	for (uint64_t i = 0; i < g->jvm->n_heaps && i < HOTSPOT_HEAPS; i++) {
		const struct hotspot_heap *h = &g->jvm->heap[i];
		uint8_t back = 0xff;
		if (pc < h->low || pc >= h->high)
			continue;
		uint64_t at = (pc - h->low) >> (h->shift & 31);
		for (unsigned hop = 0; hop < HOPS_MAX; hop++) {
			if (!pages_read(g->m, h->segments + at, &back, 1) || !back)
				break;
			if (back == 0xff || back > at)
				return 0;
			at -= back;
		}
		return back ? 0 : h->low + (at << (h->shift & 31)) + g->l->block_bytes;
	}
	return 0;
}

/* A member that is an address, or an offset from `base`. */
static bool read_place(struct naming *g, uint64_t at, struct hotspot_field f, uint64_t base,
		       uint64_t *ret)
{
	int64_t v;
	if (!hotspot_field(g->m, at, f, &v))
		return false;
	*ret = f.bytes < 8 ? base + (uint64_t)v : (uint64_t)v;
	return true;
}

/* Where a method keeps what describes its places. */
struct scopes {
	uint64_t pcs, pcs_end; /* PcDesc */
	uint64_t data;	       /* the stream */
	uint64_t metadata;     /* pointers to methods, from index 1 on */
	uint64_t method;       /* that was compiled */
	bool of_c2;
};

static bool find_scopes(struct naming *g, uint64_t blob, uint64_t method, struct scopes *ret)
{
	const struct hotspot_layout *l = g->l;
	uint64_t fixed = blob;
	int64_t relocations = 0, level = 0;
	hotspot_field(g->m, blob, l->comp_level, &level);
	*ret = (struct scopes){ .method = method, .of_c2 = level == C2_LEVEL };
	if (l->major < STREAM_FIRST || l->major > STREAM_LAST)
		return false;
	if (l->immutable_data.bytes && !read_place(g, blob, l->immutable_data, 0, &fixed))
		return false;
	if (!read_place(g, blob, l->scopes_pcs, fixed, &ret->pcs) ||
	    !read_place(g, blob, l->scopes_data, fixed, &ret->data))
		return false;
	if (l->scopes_pcs_end.bytes) {
		if (!read_place(g, blob, l->scopes_pcs_end, fixed, &ret->pcs_end))
			return false;
	} else {
		ret->pcs_end = ret->data;
	}
	if (l->metadata.bytes)
		return read_place(g, blob, l->metadata, blob, &ret->metadata);
	if (!read_place(g, blob, l->mutable_data, 0, &ret->metadata) ||
	    !hotspot_field(g->m, blob, l->relocation_size, &relocations) || relocations < 0)
		return false;
	ret->metadata += ((uint64_t)relocations + 7) & ~7ull;
	return true;
}

/*
 * The descriptor of a place. They ascend, and the first is none. A call has its own. Compilers
 * describe calls and polls only. C2 polls at the end of a loop, so what is between two descriptors
 * belongs to the one behind it; of C1 it belongs to the nearer one.
 */
static bool find_pc(struct naming *g, const struct scopes *s, uint64_t offset, int64_t *ret_scope)
{
	uint64_t bytes = g->l->pc_bytes, lo = 0,
		 hi = s->pcs_end > s->pcs ? (s->pcs_end - s->pcs) / bytes : 0, n = hi;
	int64_t at;
	if (hi > PCS_MAX)
		return false;
	while (lo < hi) {
		uint64_t mid = lo + (hi - lo) / 2;
		if (!hotspot_field(g->m, s->pcs + mid * bytes, g->l->pc_offset, &at))
			return false;
		if (at < (int64_t)offset)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo > 1 && lo <= n && !(s->of_c2 && lo < n)) {
		int64_t before, after = INT64_MAX;
		if (!hotspot_field(g->m, s->pcs + (lo - 1) * bytes, g->l->pc_offset, &before) ||
		    (lo < n && !hotspot_field(g->m, s->pcs + lo * bytes, g->l->pc_offset, &after)))
			return false;
		lo -= (int64_t)offset - before < after - (int64_t)offset;
	}
	return lo < n && hotspot_field(g->m, s->pcs + lo * bytes, g->l->pc_scope, ret_scope);
}

/* Read a number of the stream at *io_at: up to five digits, of which the last is below `low`. */
static bool read_number(struct naming *g, uint64_t *io_at, uint32_t *ret)
{
	uint8_t excluded = g->l->major >= STREAM_NO_ZEROS, b;
	uint32_t low = 256 - 64 - excluded, sum = 0;
	for (unsigned i = 0; i < 5; i++) {
		if (!pages_read(g->m, (*io_at)++, &b, 1) || b < excluded)
			return false;
		uint32_t v = b - excluded;
		sum += v << (6 * i);
		if (v < low)
			break;
	}
	*ret = sum;
	return true;
}

/* The methods at a place, innermost first. 0: what is read there is no such chain. */
static size_t read_chain(struct naming *g, const struct scopes *s, uint64_t offset,
			 uint64_t out[HOTSPOT_CALLS_MAX])
{
	int64_t scope;
	size_t n = 0;
	if (!find_pc(g, s, offset, &scope))
		return 0;
	while (scope > 0 && n < HOTSPOT_CALLS_MAX) {
		uint64_t at = s->data + (uint64_t)scope;
		uint32_t sender, index;
		if (!read_number(g, &at, &sender) || !read_number(g, &at, &index) || !index ||
		    index > 1u << 20 || sender >= (uint64_t)scope)
			return 0;
		out[n++] = pages_word(g->m, s->metadata + 8 * (uint64_t)(index - 1));
		scope = sender;
	}
	return n && !scope && out[n - 1] == s->method ? n : 0;
}

static int name_compiled(struct naming *g, uint64_t word)
{
	uint64_t pc = g->jvm->base + HOTSPOT_OFFSET(word), blob = blob_at(g, pc - 1),
		 chain[HOTSPOT_CALLS_MAX], code;
	int64_t method, id;
	struct scopes s;
	size_t n = 0;
	int rc = 0;
	if (!blob || !hotspot_field(g->m, blob, g->l->method, &method) ||
	    !hotspot_field(g->m, blob, g->l->compile_id, &id) ||
	    hotspot_word_at(HOTSPOT_COMPILED, pc, g->jvm->base, (uint64_t)method,
			    (uint64_t)id & 0xffffffff) != word)
		return -ESTALE;
	if (read_place(g, blob, g->l->code, blob, &code) &&
	    find_scopes(g, blob, (uint64_t)method, &s))
		n = read_chain(g, &s, pc - code, chain);
	for (size_t i = 0; !rc && i < n; i++)
		rc = add_method(g, chain[i]);
	if (!n || rc == -ESTALE) {
		g->out->len = 0;
		rc = add_method(g, (uint64_t)method);
	}
	return rc;
}

static int name_interpreted(struct naming *g, uint64_t word)
{
	uint64_t method = HOTSPOT_METHOD_OF(word), at, indexes;
	if (!read_const(g, method, &at, &indexes) || hotspot_word_of(method, at, indexes) != word)
		return -ESTALE;
	return add_method(g, method);
}

static int add_blob(struct naming *g, uint64_t name)
{
	char text[64];
	size_t n = 0;
	while (n < sizeof(text) - 1 && pages_read(g->m, name + n, text + n, 1) && text[n] >= 0x20 &&
	       text[n] < 0x7f)
		n++;
	text[n] = 0;
	return n ? buf_add(g->out, text, n + 1) : -ESTALE;
}

/* Code without a method: by the name of its blob. */
static int name_stub(struct naming *g, uint64_t word)
{
	uint64_t pc = g->jvm->base + HOTSPOT_OFFSET(word), blob = blob_at(g, pc - 1);
	int64_t name;
	if (!blob || !hotspot_field(g->m, blob, g->l->name, &name) ||
	    hotspot_word_at(HOTSPOT_STUB, pc, g->jvm->base, (uint64_t)name, 0) != word)
		return -ESTALE;
	return add_blob(g, (uint64_t)name);
}

/* An address that was found by other means: by what stands there now. */
static int name_address(struct naming *g, uint64_t pc)
{
	uint64_t blob = blob_at(g, pc);
	int64_t name, method;
	char text[8] = "";
	if (!blob || !hotspot_field(g->m, blob, g->l->name, &name) ||
	    !pages_read(g->m, (uint64_t)name, text, sizeof(text)))
		return -ESTALE;
	if (memcmp(text, "nmethod", sizeof(text)) == 0 || memcmp(text, "native n", 8) == 0)
		return hotspot_field(g->m, blob, g->l->method, &method)
			       ? add_method(g, (uint64_t)method)
			       : -ESTALE;
	return add_blob(g, (uint64_t)name);
}

int hotspot_serve_names(const struct reader_request *q, struct buf *out)
{
	static struct hotspot_jvm jvm;
	struct naming g = { pages_of(q->tgid), &jvm, &jvm.layout, out };
	if (!pages_from_text(q->text, &jvm, sizeof(jvm)) || !jvm.layout.pc_bytes)
		return -EINVAL;
	switch (HOTSPOT_KIND(q->a)) {
	case HOTSPOT_COMPILED:
		return name_compiled(&g, q->a);
	case HOTSPOT_INTERPRETED:
		return name_interpreted(&g, q->a);
	case HOTSPOT_STUB:
		return name_stub(&g, q->a);
	default:
		return name_address(&g, q->a);
	}
}

int proc_hotspot_names(uint32_t tgid, const struct hotspot_jvm *jvm, uint64_t word,
		       struct buf *ret_names)
{
	char text[2 * sizeof(*jvm) + 1];
	const struct reader_request q = { .op = READ_HOTSPOT_NAMES, .tgid = tgid, .a = word };
	pages_to_text(jvm, sizeof(*jvm), text);
	int rc = reader_ask(&q, text, ret_names, NULL);
	if (!rc && (!ret_names->len || ret_names->data[ret_names->len - 1] ||
		    ret_names->len > HOTSPOT_CALLS_MAX * HOTSPOT_NAME_MAX))
		rc = -EFAULT;
	return rc;
}
