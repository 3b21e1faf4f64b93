/* SPDX-License-Identifier: Apache-2.0 */
#include "export/otlp_dictionary.h"

#include "util/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ELEMENT_OVERHEAD 4 /* bytes before an element: its tag, and its length below 2 MiB */

int otlp_pack(struct buf *to, const ProtobufCMessage *m)
{
	size_t n = protobuf_c_message_get_packed_size(m);
	to->len = 0;
	int rc = n > INT32_MAX ? -E2BIG : buf_reserve(to, n + 1);
	if (!rc)
		to->len = protobuf_c_message_pack(m, to->data);
	return rc;
}

static int add(struct otlp_dictionary *d, enum otlp_table t, const void *m, int32_t *ret)
{
	uint32_t id = 0;
	int rc = otlp_pack(&d->packed, m);
	rc = rc ? rc : intern_add(&d->table[t], d->packed.data, d->packed.len, &id, NULL);
	*ret = (int32_t)id;
	return rc;
}

static int memo_get(struct otlp_memo *m, const void *key, size_t len, bool *ret_new, int32_t **ret)
{
	const int32_t none = 0;
	uint32_t id;
	int rc = intern_add(&m->keys, key, len, &id, ret_new);
	if (!rc && *ret_new)
		rc = buf_add(&m->values, &none, sizeof(none));
	if (!rc)
		*ret = (int32_t *)(void *)m->values.data + id;
	return rc;
}

static void memo_fini(struct otlp_memo *m)
{
	intern_fini(&m->keys);
	buf_fini(&m->values);
}

int otlp_dictionary_init(struct otlp_dictionary *d, const struct export_source *src)
{
	uint8_t zero[24] = { 0 };
	Otlp__Link link = OTLP__LINK__INIT;
	int32_t index;
	int rc = 0;
	*d = (struct otlp_dictionary){ .src = src, .n_frames = store_n_frames(src->store) };
	d->by_frame = calloc(d->n_frames + 1, sizeof(*d->by_frame));
	if (!d->by_frame)
		return -ENOMEM;
	for (int t = 0; !rc && t < OTLP_TABLES; t++)
		if (t != OTLP_LINKS)
			rc = intern_add(&d->table[t], "", 0, &(uint32_t){ 0 }, NULL);
	link.trace_id = (ProtobufCBinaryData){ 16, zero };
	link.span_id = (ProtobufCBinaryData){ 8, zero + 16 };
	return rc ? rc : add(d, OTLP_LINKS, &link, &index);
}

void otlp_dictionary_fini(struct otlp_dictionary *d)
{
	for (int t = 0; t < OTLP_TABLES; t++)
		intern_fini(&d->table[t]);
	memo_fini(&d->locations);
	memo_fini(&d->stacks);
	free(d->by_frame);
	buf_fini(&d->packed);
	buf_fini(&d->text);
}

size_t otlp_dictionary_bytes(const struct otlp_dictionary *d)
{
	size_t n = 0;
	for (int t = 0; t < OTLP_TABLES; t++)
		n += d->table[t].bytes.len + d->table[t].n * ELEMENT_OVERHEAD;
	return n;
}

/* ---- strings, attributes, links ---- */

int otlp_add_string(struct otlp_dictionary *d, const char *s, size_t len, int32_t *ret)
{
	uint32_t id = 0;
	d->text.len = 0;
	int rc = utf8_repair(&d->text, s, len);
	rc = rc ? rc : intern_add(&d->table[OTLP_STRINGS], d->text.data, d->text.len, &id, NULL);
	*ret = (int32_t)id;
	return rc;
}

int otlp_value(struct otlp_dictionary *d, const struct label *l, Otlp__AnyValue *ret)
{
	otlp__any_value__init(ret);
	if (l->type == LABEL_INT) {
		ret->value_case = OTLP__ANY_VALUE__VALUE_INT_VALUE;
		ret->int_value = l->num;
		return 0;
	}
	d->text.len = 0;
	int rc = utf8_repair(&d->text, l->str, l->str_len);
	ret->value_case = OTLP__ANY_VALUE__VALUE_STRING_VALUE;
	ret->string_value = (ProtobufCBinaryData){ d->text.len, d->text.data };
	return rc;
}

int otlp_add_attribute(struct otlp_dictionary *d, const char *key, size_t key_len,
		       const struct label *value, int32_t *ret)
{
	Otlp__Attribute m = OTLP__ATTRIBUTE__INIT;
	Otlp__AnyValue v;
	int rc = otlp_add_string(d, key, key_len, &m.key_strindex);
	rc = rc ? rc : otlp_value(d, value, &v);
	m.value = &v;
	return rc ? rc : add(d, OTLP_ATTRIBUTES, &m, ret);
}

int otlp_add_link(struct otlp_dictionary *d, const uint8_t trace_id[16], const uint8_t span_id[8],
		  int32_t *ret)
{
	Otlp__Link m = OTLP__LINK__INIT;
	m.trace_id = (ProtobufCBinaryData){ 16, (uint8_t *)trace_id };
	m.span_id = (ProtobufCBinaryData){ 8, (uint8_t *)span_id };
	return add(d, OTLP_LINKS, &m, ret);
}

static int add_text_attribute(struct otlp_dictionary *d, const char *key, const char *s, size_t len,
			      int32_t *ret)
{
	const struct label l = { .str = s, .str_len = (uint32_t)len, .type = LABEL_STRING };
	return otlp_add_attribute(d, key, strlen(key), &l, ret);
}

/* ---- mappings, functions, locations ---- */

static int add_store_string(struct otlp_dictionary *d, uint32_t string, int32_t *ret)
{
	size_t len;
	const char *s = store_string(d->src->store, string, &len);
	return otlp_add_string(d, s, len, ret);
}

static int add_mapping(struct otlp_dictionary *d, const struct store_frame *f, int32_t *ret)
{
	Otlp__Mapping m = OTLP__MAPPING__INIT;
	int32_t id;
	size_t len;
	int rc = add_store_string(d, f->module, &m.filename_strindex);
	const char *build_id = store_string(d->src->store, f->build_id, &len);
	if (!rc && len) {
		rc = add_text_attribute(d, "process.executable.build_id.gnu", build_id, len, &id);
		m.n_attribute_indices = 1;
		m.attribute_indices = &id;
	}
	return rc ? rc : add(d, OTLP_MAPPINGS, &m, ret);
}

static int add_function(struct otlp_dictionary *d, uint32_t id, const struct store_frame *f,
			int32_t *ret)
{
	Otlp__Function m = OTLP__FUNCTION__INIT;
	char text[4096];
	query_name(d->src->query, id, text, sizeof(text));
	int rc = otlp_add_string(d, text, strlen(text), &m.name_strindex);
	rc = rc ? rc : add_store_string(d, f->file, &m.filename_strindex);
	return rc ? rc : add(d, OTLP_FUNCTIONS, &m, ret);
}

/* The value of profile.frame.type, of the semantic conventions; NULL: it has no name there. */
static const char *frame_type(const struct export_source *src, const struct store_frame *f)
{
	static const char *const runtimes[][2] = {
		{ "[python]", "cpython" }, { "[node]", "v8js" }, { "[java]", "jvm" },
		{ "[php]", "php" },	   { "[ruby]", "ruby" }, { "[perl]", "perl" }
	};
	size_t len;
	const char *module = store_string(src->store, f->module, &len);
	if (f->kind == FRAME_KERNEL)
		return "kernel";
	for (size_t i = 0; i < sizeof(runtimes) / sizeof(runtimes[0]); i++)
		if (!strcmp(module, runtimes[i][0]))
			return runtimes[i][1];
	return module[0] == '/' || !strcmp(module, "[vdso]") ? "native" : NULL;
}

/* One location from n frames: inlined calls, innermost first, and the function they are in. */
static int make_location(struct otlp_dictionary *d, const uint32_t *frames, size_t n, int32_t *ret)
{
	Otlp__Line *lines = calloc(n, sizeof(*lines)), **ptrs = calloc(n, sizeof(*ptrs));
	Otlp__Location m = OTLP__LOCATION__INIT;
	const struct store_frame *f = NULL;
	int32_t attribute;
	int rc = lines && ptrs ? 0 : -ENOMEM;
	for (size_t i = 0; !rc && i < n; i++) {
		f = export_frame(d->src->store, frames[i]);
		otlp__line__init(&lines[i]);
		ptrs[i] = &lines[i];
		lines[i].line = f->line;
		rc = add_function(d, frames[i], f, &lines[i].function_index);
	}
	rc = rc ? rc : add_mapping(d, f, &m.mapping_index);
	const char *type = rc ? NULL : frame_type(d->src, f);
	if (type) {
		rc = add_text_attribute(d, "profile.frame.type", type, strlen(type), &attribute);
		m.n_attribute_indices = 1;
		m.attribute_indices = &attribute;
	}
	if (!rc) {
		m.address = f->offset;
		m.n_lines = n;
		m.lines = ptrs;
		rc = add(d, OTLP_LOCATIONS, &m, ret);
	}
	free(lines);
	free(ptrs);
	return rc;
}

static int add_location(struct otlp_dictionary *d, const uint32_t *frames, size_t n, int32_t *ret)
{
	bool new = true;
	int32_t *known = n == 1 && frames[0] < d->n_frames ? &d->by_frame[frames[0]] : NULL;
	if (known && *known) {
		*ret = *known;
		return 0;
	}
	int rc = known ? 0 : memo_get(&d->locations, frames, n * sizeof(*frames), &new, &known);
	if (!rc && new)
		rc = make_location(d, frames, n, known);
	if (!rc)
		*ret = *known;
	return rc;
}

static int make_stack(struct otlp_dictionary *d, const struct store_row *row, int32_t *ret)
{
	uint32_t frames[EXPORT_DEPTH_MAX + 1];
	int32_t locations[EXPORT_DEPTH_MAX + 1];
	Otlp__Stack m = OTLP__STACK__INIT;
	size_t depth = export_row_stack(d->src, row, frames);
	for (size_t i = 0, len; i < depth; i += len) {
		len = export_inlined(d->src->store, frames + i, depth - i);
		int rc = add_location(d, frames + i, len, &locations[m.n_location_indices++]);
		if (rc)
			return rc;
	}
	m.location_indices = locations;
	return add(d, OTLP_STACKS, &m, ret);
}

int otlp_add_stack(struct otlp_dictionary *d, const struct store_row *row, int32_t *ret)
{
	const uint32_t key[2] = { row->stack, query_row_is_other(d->src->query, row) };
	bool new;
	int32_t *known;
	int rc = memo_get(&d->stacks, key, sizeof(key), &new, &known);
	if (!rc && new)
		rc = make_stack(d, row, known);
	if (!rc)
		*ret = *known;
	return rc;
}
