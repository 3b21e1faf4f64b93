/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read HotSpot's tables: which member of which structure is where, then the code heaps. The tables
 * end with an entry without a name; one that does not is cut.
 */
#include "proc/hotspot_int.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define ENTRIES_MAX 8192 /* of a table; JDK 17 has 788 */
#define STRIDE_MAX 256
#define TEXT_MAX 64	       /* of a name in a table, with its NUL */
#define OFFSET_MAX 4096	       /* of a member that is looked for */
#define CACHE_MAX (1ull << 31) /* bytes of all heaps together: HotSpot's own limit */
#define ADDRESS_MAX (1ull << 47)

struct tables {
	struct hotspot_layout l;
	struct hotspot_field heaps_len, heaps_data;	       /* GrowableArray */
	struct hotspot_field memory, segmap, shift;	       /* CodeHeap */
	struct hotspot_field low, low_boundary, high_boundary; /* VirtualSpace */
	struct hotspot_field stub_buffer, stub_limit;	       /* StubQueue */
	/* static members */
	uint64_t heaps, interpreter, major;
	uint64_t sender_sp, last_sp; /* found, with the expected value */
};

enum need { MUST, MAY, STATIC };

static const struct wanted {
	const char *type, *field;
	enum need need;
	size_t to;
} wanted[] = {
#define L(m) offsetof(struct tables, l.m)
#define T(m) offsetof(struct tables, m)
	{ "HeapBlock::Header", "_length", MUST, L(block_length) },
	{ "HeapBlock::Header", "_used", MUST, L(block_used) },
	{ "CodeBlob", "_name", MUST, L(name) },
	{ "CodeBlob", "_frame_size", MUST, L(frame_size) },
	{ "CodeBlob", "_frame_complete_offset", MUST, L(complete) },
	/* An address up to JDK 22, then an offset in the blob */
	{ "CodeBlob", "_code_begin", MUST, L(code) },
	{ "CodeBlob", "_code_offset", MUST, L(code) },
	{ "CompiledMethod", "_method", MUST, L(method) },
	{ "nmethod", "_method", MUST, L(method) },
	{ "nmethod", "_compile_id", MUST, L(compile_id) },
	{ "nmethod", "_verified_entry_point", MUST, L(verified_entry) },
	{ "nmethod", "_verified_entry_offset", MUST, L(verified_entry) },
	{ "Method", "_constMethod", MUST, L(const_method) },
	{ "ConstMethod", "_constants", MUST, L(constants) },
	{ "ConstMethod", "_constMethod_size", MUST, L(const_size) },
	{ "ConstMethod", "_name_index", MUST, L(name_index) },
	{ "ConstMethod", "_signature_index", MUST, L(signature_index) },
	{ "ConstantPool", "_pool_holder", MUST, L(holder) },
	{ "ConstantPool", "_length", MUST, L(pool_length) },
	{ "Klass", "_name", MUST, L(klass_name) },
	{ "InstanceKlass", "_constants", MUST, L(klass_constants) },
	{ "Symbol", "_length", MUST, L(symbol_length) },
	{ "Symbol", "_body", MUST, L(symbol_body) },
	/* Debug information. Without it no inlined calls are named. */
	{ "PcDesc", "_pc_offset", MAY, L(pc_offset) },
	{ "PcDesc", "_scope_decode_offset", MAY, L(pc_scope) },
	{ "nmethod", "_scopes_pcs_offset", MAY, L(scopes_pcs) },
	{ "nmethod", "_dependencies_offset", MAY, L(scopes_pcs_end) },
	{ "nmethod", "_scopes_data_offset", MAY, L(scopes_data) },
	{ "CompiledMethod", "_scopes_data_begin", MAY, L(scopes_data) },
	{ "nmethod", "_metadata_offset", MAY, L(metadata) },
	{ "nmethod", "_comp_level", MAY, L(comp_level) },
	{ "nmethod", "_immutable_data", MAY, L(immutable_data) },
	{ "CodeBlob", "_mutable_data", MAY, L(mutable_data) },
	{ "CodeBlob", "_relocation_size", MAY, L(relocation_size) },
	{ "GrowableArrayBase", "_len", MUST, T(heaps_len) },
	{ "GrowableArray<int>", "_data", MUST, T(heaps_data) },
	{ "CodeHeap", "_memory", MUST, T(memory) },
	{ "CodeHeap", "_segmap", MUST, T(segmap) },
	{ "CodeHeap", "_log2_segment_size", MUST, T(shift) },
	{ "VirtualSpace", "_low", MUST, T(low) },
	{ "VirtualSpace", "_low_boundary", MUST, T(low_boundary) },
	{ "VirtualSpace", "_high_boundary", MUST, T(high_boundary) },
	{ "StubQueue", "_stub_buffer", MUST, T(stub_buffer) },
	{ "StubQueue", "_buffer_limit", MUST, T(stub_limit) },
	{ "CodeCache", "_heaps", STATIC, T(heaps) },
	{ "AbstractInterpreter", "_code", STATIC, T(interpreter) },
	{ "Abstract_VM_Version", "_vm_major_version", STATIC, T(major) },
};
#define N_WANTED (sizeof(wanted) / sizeof(wanted[0]))

static const struct {
	const char *type;
	size_t to;
	uint16_t max;
} sizes[] = {
	{ "HeapBlock", L(block_bytes), 64 },
	{ "ConstMethod", L(const_bytes), HOTSPOT_CONST_MAX },
	{ "ConstantPool", L(pool_bytes), 1024 },
	{ "PcDesc", L(pc_bytes), 64 },
};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

struct reading {
	struct pages *m;
	uint64_t offset[HOTSPOT_SYMBOLS]; /* what stands at the symbols */
	struct tables t;
	char *missing; /* HOTSPOT_MISSING_MAX */
};

static int lacks(struct reading *r, const char *type, const char *field)
{
	snprintf(r->missing, HOTSPOT_MISSING_MAX, "%s%s%s", type, field ? "::" : "",
		 field ? field : "");
	return -EPROTONOSUPPORT;
}

/* Read a text whose address stands at `at`. False: there is none, or one too long to be wanted. */
static bool read_text(struct reading *r, uint64_t at, char out[TEXT_MAX])
{
	uint64_t text = pages_word(r->m, at);
	size_t n = 0;
	while (text && n < TEXT_MAX && pages_read(r->m, text + n, out + n, 1) && out[n])
		n++;
	if (!text || n == TEXT_MAX || (!n && out[0]))
		return false;
	return n > 0;
}

/* How wide a member of this type is. */
static uint16_t width_of(const char *type)
{
	static const struct {
		const char *type;
		uint16_t bytes;
	} known[] = { { "int", 4 },	 { "jint", 4 }, { "uint32_t", 4 }, { "unsigned int", 4 },
		      { "u4", 4 },	 { "u2", 2 },	{ "int16_t", 2 },  { "uint16_t", 2 },
		      { "jushort", 2 },	 { "u1", 1 },	{ "bool", 1 },	   { "char", 1 },
		      { "CompLevel", 1 } };
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(type, known[i].type))
			return known[i].bytes;
	return 8;
}

static void take_struct(struct reading *r, uint64_t entry, const char *type, const char *field)
{
	char kind[TEXT_MAX] = "";
	uint8_t *to = (uint8_t *)&r->t;
	for (size_t i = 0; i < N_WANTED; i++) {
		const struct wanted *w = &wanted[i];
		if (strcmp(type, w->type) != 0 || strcmp(field, w->field) != 0)
			continue;
		if (w->need == STATIC) {
			uint64_t at = pages_word(r->m, entry + r->offset[HOTSPOT_STRUCT_ADDRESS]);
			memcpy(to + w->to, &at, sizeof(at));
			return;
		}
		uint64_t at = pages_word(r->m, entry + r->offset[HOTSPOT_STRUCT_OFFSET]);
		read_text(r, entry + r->offset[HOTSPOT_STRUCT_KIND], kind);
		struct hotspot_field f = { (uint16_t)at, width_of(kind) };
		if (at < OFFSET_MAX)
			memcpy(to + w->to, &f, sizeof(f));
		return;
	}
}

static void take_type(struct reading *r, uint64_t entry, const char *type)
{
	for (size_t i = 0; i < N_SIZES; i++) {
		uint64_t n = pages_word(r->m, entry + r->offset[HOTSPOT_TYPE_SIZE]);
		uint16_t size = (uint16_t)n;
		if (!strcmp(type, sizes[i].type) && n <= sizes[i].max)
			memcpy((uint8_t *)&r->t + sizes[i].to, &size, sizeof(size));
	}
}

static void take_int(struct reading *r, uint64_t entry, const char *name)
{
	int32_t v = 0;
	if (!pages_read(r->m, entry + r->offset[HOTSPOT_INT_VALUE], &v, sizeof(v)))
		return;
	if (!strcmp(name, "frame::interpreter_frame_sender_sp_offset"))
		r->t.sender_sp = v == HOTSPOT_SENDER_SP;
	else if (!strcmp(name, "frame::interpreter_frame_last_sp_offset"))
		r->t.last_sp = v == HOTSPOT_LAST_SP;
}

/* Read one table: where it begins, its stride and the place of the name. */
static void read_table(struct reading *r, enum hotspot_table table, enum hotspot_table stride,
		       enum hotspot_table name)
{
	char type[TEXT_MAX], field[TEXT_MAX];
	uint64_t at = r->offset[table];
	for (unsigned i = 0; at && i < ENTRIES_MAX; i++, at += r->offset[stride]) {
		if (!pages_word(r->m, at + r->offset[name]))
			return;
		if (!read_text(r, at + r->offset[name], type))
			continue;
		if (table == HOTSPOT_TYPES)
			take_type(r, at, type);
		else if (table == HOTSPOT_INTS)
			take_int(r, at, type);
		else if (read_text(r, at + r->offset[HOTSPOT_STRUCT_FIELD], field))
			take_struct(r, at, type, field);
	}
}

static bool is_table(size_t i)
{
	return i == HOTSPOT_STRUCTS || i == HOTSPOT_TYPES || i == HOTSPOT_INTS;
}

static int read_tables(struct reading *r, const uint64_t at[HOTSPOT_SYMBOLS])
{
	static const char *const names[] = {
#define X(id, name) HOTSPOT_PREFIX name,
		HOTSPOT_TABLES(X)
#undef X
	};
	for (size_t i = 0; i < HOTSPOT_SYMBOLS; i++) {
		if (!pages_read(r->m, at[i], &r->offset[i], sizeof(r->offset[i])))
			return -EFAULT;
		/* Filled by constructors: not yet while the library is being loaded */
		if (!r->offset[HOTSPOT_STRUCTS])
			return -EAGAIN;
		if (!is_table(i) && r->offset[i] > STRIDE_MAX)
			return lacks(r, names[i], NULL);
	}
	if (!r->offset[HOTSPOT_STRUCT_STRIDE] || !r->offset[HOTSPOT_TYPE_STRIDE] ||
	    !r->offset[HOTSPOT_INT_STRIDE])
		return -EAGAIN;
	read_table(r, HOTSPOT_STRUCTS, HOTSPOT_STRUCT_STRIDE, HOTSPOT_STRUCT_TYPE);
	read_table(r, HOTSPOT_TYPES, HOTSPOT_TYPE_STRIDE, HOTSPOT_TYPE_NAME);
	read_table(r, HOTSPOT_INTS, HOTSPOT_INT_STRIDE, HOTSPOT_INT_NAME);
	return 0;
}

/* Is all there that must be? */
static int check_tables(struct reading *r)
{
	const uint8_t *from = (const uint8_t *)&r->t;
	for (size_t i = 0; i < N_WANTED; i++) {
		struct hotspot_field f;
		uint64_t at;
		memcpy(&f, from + wanted[i].to, sizeof(f));
		memcpy(&at, from + wanted[i].to, sizeof(at));
		if (wanted[i].need == MUST ? !f.bytes : wanted[i].need == STATIC && !at)
			return lacks(r, wanted[i].type, wanted[i].field);
	}
	for (size_t i = 0; i < N_SIZES; i++) {
		uint16_t size;
		memcpy(&size, from + sizes[i].to, sizeof(size));
		if (!size)
			return lacks(r, sizes[i].type, NULL);
	}
	if (!r->t.sender_sp)
		return lacks(r, "frame", "interpreter_frame_sender_sp_offset");
	return r->t.last_sp ? 0 : lacks(r, "frame", "interpreter_frame_last_sp_offset");
}

/* How much of a block the BPF program reads for a frame. */
static int measure_blob(struct reading *r)
{
	struct hotspot_layout *l = &r->t.l;
	const struct hotspot_field f[] = { l->name,   l->frame_size, l->complete,      l->code,
					   l->method, l->compile_id, l->verified_entry };
	unsigned end = l->block_bytes;
	for (size_t i = 0; i < sizeof(f) / sizeof(f[0]); i++)
		if (end < (unsigned)l->block_bytes + f[i].at + f[i].bytes)
			end = (unsigned)l->block_bytes + f[i].at + f[i].bytes;
	if (end > HOTSPOT_BLOB_MAX || l->block_length.at + 4u > l->block_bytes ||
	    l->block_used.at >= l->block_bytes)
		return lacks(r, "CodeBlob", NULL);
	if (l->name_index.at + 2u > l->const_bytes || l->signature_index.at + 2u > l->const_bytes ||
	    l->const_size.at + 4u > l->const_bytes)
		return lacks(r, "ConstMethod", NULL);
	l->blob_bytes = (uint16_t)end;
	return 0;
}

static int read_heap(struct reading *r, uint64_t at, struct hotspot_heap *ret)
{
	const struct tables *t = &r->t;
	int64_t low, high, segments, shift;
	if (!at || !hotspot_field(r->m, at + t->memory.at, t->low_boundary, &low) ||
	    !hotspot_field(r->m, at + t->memory.at, t->high_boundary, &high) ||
	    !hotspot_field(r->m, at + t->segmap.at, t->low, &segments) ||
	    !hotspot_field(r->m, at, t->shift, &shift) || !low || !segments)
		return -EAGAIN;
	*ret = (struct hotspot_heap){ (uint64_t)low, (uint64_t)high, (uint64_t)segments,
				      (uint64_t)shift };
	if (ret->low >= ret->high || ret->high > ADDRESS_MAX || shift < 3 || shift > 20)
		return lacks(r, "CodeHeap", NULL);
	return 0;
}

static int read_interpreter(struct reading *r, struct hotspot_jvm *ret)
{
	uint64_t queue = pages_word(r->m, r->t.interpreter);
	int64_t from, bytes;
	if (!queue || !hotspot_field(r->m, queue, r->t.stub_buffer, &from) ||
	    !hotspot_field(r->m, queue, r->t.stub_limit, &bytes) || !from)
		return -EAGAIN;
	if (bytes <= 0 || (uint64_t)from >= ADDRESS_MAX)
		return lacks(r, "StubQueue", NULL);
	ret->interpreter = (uint64_t)from;
	ret->interpreter_end = (uint64_t)from + (uint64_t)bytes;
	return 0;
}

static int read_heaps(struct reading *r, struct hotspot_jvm *ret)
{
	const struct tables *t = &r->t;
	uint64_t array = pages_word(r->m, t->heaps), end = 0;
	int64_t n, data;
	if (!array || !hotspot_field(r->m, array, t->heaps_len, &n) ||
	    !hotspot_field(r->m, array, t->heaps_data, &data) || !n)
		return -EAGAIN;
	if (n < 0 || n > HOTSPOT_HEAPS)
		return lacks(r, "CodeCache", "_heaps");
	ret->base = UINT64_MAX;
	for (int64_t i = 0; i < n; i++) {
		struct hotspot_heap *h = &ret->heap[i];
		int rc = read_heap(r, pages_word(r->m, (uint64_t)data + 8 * (uint64_t)i), h);
		if (rc)
			return rc;
		ret->base = h->low < ret->base ? h->low : ret->base;
		end = h->high > end ? h->high : end;
	}
	ret->n_heaps = (uint64_t)n;
	return end - ret->base <= CACHE_MAX ? 0 : lacks(r, "CodeCache", "_heaps");
}

bool hotspot_field(struct pages *m, uint64_t at, struct hotspot_field f, int64_t *ret)
{
	uint64_t v = 0;
	unsigned shift = 64 - 8 * f.bytes;
	if (!f.bytes || f.bytes > 8 || !pages_read(m, at + f.at, &v, f.bytes))
		return false;
	*ret = (int64_t)(v << shift) >> shift;
	return true;
}

int hotspot_serve_locate(const struct reader_request *q, struct buf *out)
{
	struct hotspot_jvm jvm;
	uint64_t at[HOTSPOT_SYMBOLS];
	char missing[HOTSPOT_MISSING_MAX] = "";
	int32_t major = 0;
	struct reading r = { .m = pages_of(q->tgid), .missing = missing };
	memset(&jvm, 0, sizeof(jvm));
	if (!pages_from_text(q->text, at, sizeof(at)))
		return -EINVAL;
	int rc = read_tables(&r, at);
	rc = rc ? rc : check_tables(&r);
	rc = rc ? rc : measure_blob(&r);
	rc = rc ? rc : read_heaps(&r, &jvm);
	rc = rc ? rc : read_interpreter(&r, &jvm);
	if (!rc && pages_read(r.m, r.t.major, &major, sizeof(major)) && major > 0 && major < 1000)
		r.t.l.major = (uint16_t)major;
	jvm.layout = r.t.l;
	/* What is missing is an answer, too. */
	int32_t code = rc;
	rc = buf_add(out, &code, sizeof(code));
	rc = rc ? rc : buf_add(out, missing, sizeof(missing));
	return rc ? rc : buf_add(out, &jvm, sizeof(jvm));
}

int proc_hotspot_locate(uint32_t tgid, const uint64_t at[HOTSPOT_SYMBOLS], struct hotspot_jvm *ret,
			char missing[HOTSPOT_MISSING_MAX])
{
	char text[2 * HOTSPOT_SYMBOLS * sizeof(at[0]) + 1];
	const struct reader_request q = { .op = READ_HOTSPOT, .tgid = tgid };
	struct buf reply = BUF_INIT;
	int32_t code = -EFAULT;
	pages_to_text(at, HOTSPOT_SYMBOLS * sizeof(at[0]), text);
	int rc = reader_ask(&q, text, &reply, NULL);
	if (!rc && reply.len == sizeof(code) + HOTSPOT_MISSING_MAX + sizeof(*ret)) {
		memcpy(&code, reply.data, sizeof(code));
		memcpy(missing, reply.data + sizeof(code), HOTSPOT_MISSING_MAX);
		missing[HOTSPOT_MISSING_MAX - 1] = 0;
		memcpy(ret, reply.data + sizeof(code) + HOTSPOT_MISSING_MAX, sizeof(*ret));
	}
	buf_fini(&reply);
	return rc == -EINPROGRESS ? rc : rc ? -EFAULT : code;
}
