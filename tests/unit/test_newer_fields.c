/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of newer programs: each message of HEADER and MANIFEST keeps them when rewritten. */
#include "store/file/file.h"
#include "store/file/format.h"
#include "store/file/message.h"
#include "store/file/store.pb-c.h"
#include "store/writer.h"
#include "unit/store_model.h"

#define NEWER_TAG 100
#define NEWER_VALUE 123 /* a varint of one byte */

struct tally {
	const ProtobufCMessageDescriptor *of;
	size_t messages, newer;
};

/* Call `visit` for the message and all those in it. */
static void walk(ProtobufCMessage *m, void (*visit)(ProtobufCMessage *m, struct tally *t),
		 struct tally *t)
{
	visit(m, t);
	for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
		if (f->type != PROTOBUF_C_TYPE_MESSAGE)
			continue;
		assert_int_equal(f->label, PROTOBUF_C_LABEL_REPEATED);
		const size_t *n = (const void *)((const char *)m + f->quantifier_offset);
		ProtobufCMessage **v = *(ProtobufCMessage ***)((char *)m + f->offset);
		for (size_t k = 0; k < *n; k++)
			walk(v[k], visit, t);
	}
}

static void add_field(ProtobufCMessage *m, struct tally *t)
{
	(void)t;
	assert_int_equal(m->n_unknown_fields, 0);
	m->unknown_fields = calloc(1, sizeof(*m->unknown_fields));
	m->n_unknown_fields = 1;
	m->unknown_fields[0] = (ProtobufCMessageUnknownField){
		.tag = NEWER_TAG, .wire_type = PROTOBUF_C_WIRE_TYPE_VARINT, .len = 1
	};
	m->unknown_fields[0].data = malloc(1);
	m->unknown_fields[0].data[0] = NEWER_VALUE;
}

static void count_field(ProtobufCMessage *m, struct tally *t)
{
	if (m->descriptor != t->of)
		return;
	t->messages++;
	for (unsigned i = 0; i < m->n_unknown_fields; i++) {
		const ProtobufCMessageUnknownField *f = &m->unknown_fields[i];
		t->newer += f->tag == NEWER_TAG && f->len == 1 && f->data[0] == NEWER_VALUE;
	}
}

static int open_dir(const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static ProtobufCMessage *read_message(const char *dir, const char *name,
				      const ProtobufCMessageDescriptor *d, uint64_t *ret_store_id)
{
	struct buf b = BUF_INIT;
	ProtobufCMessage *m;
	uint32_t version;
	int fd = open_dir(dir);
	assert_int_equal(file_read_whole(fd, name, HEADER_SIZE, 1u << 20, &b), 0);
	close(fd);
	assert_int_equal(message_check(&b,
				       d == &ascribe__store__header__descriptor ? HEADER_MAGIC
										: MANIFEST_MAGIC,
				       FORMAT_VERSION, ret_store_id, &version),
			 0);
	assert_int_equal(message_unpack(d, &b, &m), 0);
	buf_fini(&b);
	return m;
}

static void write_message(const char *dir, const char *name, const ProtobufCMessage *m,
			  const char *magic, uint64_t store_id)
{
	struct buf p = BUF_INIT, b = BUF_INIT;
	int fd = open_dir(dir);
	assert_int_equal(message_pack(&p, m), 0);
	assert_int_equal(message_frame(&b, magic, store_id, &p), 0);
	assert_int_equal(file_replace(fd, name, b.data, b.len), 0);
	close(fd);
	buf_fini(&p);
	buf_fini(&b);
}

/* A wide key in the first segment, and a second event that differs in nothing that is known. */
static void add_messages(Ascribe__Store__Manifest *m)
{
	Ascribe__Store__Segment *s = m->segments[0];
	Ascribe__Store__WideKey *k = malloc(sizeof(*k));
	assert_int_equal(s->n_wide, 0);
	ascribe__store__wide_key__init(k);
	k->key = (ProtobufCBinaryData){ 6, (uint8_t *)strdup("tenant") };
	k->values = 7;
	s->wide = malloc(sizeof(*s->wide));
	s->wide[s->n_wide++] = k;
	uint8_t packed[256];
	size_t n = ascribe__store__event__get_packed_size(m->events[0]);
	assert_true(n <= sizeof(packed));
	ascribe__store__event__pack(m->events[0], packed);
	m->events = realloc(m->events, (m->n_events + 1) * sizeof(*m->events));
	m->events[m->n_events++] = ascribe__store__event__unpack(NULL, n, packed);
}

static const ProtobufCMessageDescriptor *const messages[] = {
	&ascribe__store__manifest__descriptor, &ascribe__store__level__descriptor,
	&ascribe__store__segment__descriptor,  &ascribe__store__wide_key__descriptor,
	&ascribe__store__anchor__descriptor,   &ascribe__store__event__descriptor,
};
#define N_MESSAGES (sizeof(messages) / sizeof(messages[0]))

static void newer_manifest(void **state)
{
	(void)state;
	char dir[64];
	struct err err = { 0 };
	struct model m = { .random = 6 };
	struct store_writer *w;
	size_t had[N_MESSAGES];
	uint64_t id;
	assert_int_equal(store_writer_open(&w, temp_dir(dir), &model_meta, &err), 0);
	assert_int_equal(model_commit(&m, w, 9, &err), 0);
	store_writer_close(w);
	ProtobufCMessage *p =
		read_message(dir, "MANIFEST", &ascribe__store__manifest__descriptor, &id);
	add_messages((Ascribe__Store__Manifest *)p);
	walk(p, add_field, NULL);
	for (size_t i = 0; i < N_MESSAGES; i++) {
		struct tally t = { .of = messages[i] };
		walk(p, count_field, &t);
		assert_true(t.newer > 0);
		had[i] = t.newer;
	}
	write_message(dir, "MANIFEST", p, MANIFEST_MAGIC, id);
	protobuf_c_message_free_unpacked(p, NULL);
	/* Twice: the second program reads what the first one wrote. */
	for (int pass = 0; pass < 2; pass++) {
		if (store_writer_open(&w, dir, &model_meta, &err))
			fail_msg("%s", err.text);
		assert_int_equal(model_commit(&m, w, 9, &err), 0);
		store_writer_close(w);
	}
	p = read_message(dir, "MANIFEST", &ascribe__store__manifest__descriptor, &id);
	for (size_t i = 0; i < N_MESSAGES; i++) {
		struct tally t = { .of = messages[i] };
		walk(p, count_field, &t);
		if (t.newer != had[i])
			fail_msg("%s: %zu of %zu kept", t.of->short_name, t.newer, had[i]);
	}
	protobuf_c_message_free_unpacked(p, NULL);
	assert_sound(dir);
	model_fini(&m);
	remove_tree(dir);
}

/* HEADER is rewritten for a third counter. */
static void newer_header(void **state)
{
	(void)state;
	static const char *const more[] = { "not_run", "rows_full", "third" };
	static const char *const names[] = { "HEADER", "HEADER.copy" };
	char dir[64];
	struct err err = { 0 };
	struct store_meta meta = model_meta;
	struct store_writer *w;
	uint64_t id;
	assert_int_equal(store_writer_open(&w, temp_dir(dir), &meta, &err), 0);
	store_writer_close(w);
	ProtobufCMessage *p = read_message(dir, "HEADER", &ascribe__store__header__descriptor, &id);
	add_field(p, NULL);
	write_message(dir, "HEADER", p, HEADER_MAGIC, id);
	protobuf_c_message_free_unpacked(p, NULL);
	meta.lost_names = more;
	meta.n_lost = 3;
	if (store_writer_open(&w, dir, &meta, &err))
		fail_msg("%s", err.text);
	store_writer_close(w);
	for (size_t i = 0; i < 2; i++) {
		struct tally t = { .of = &ascribe__store__header__descriptor };
		p = read_message(dir, names[i], t.of, &id);
		assert_int_equal(((Ascribe__Store__Header *)p)->n_lost, 3);
		walk(p, count_field, &t);
		assert_int_equal(t.newer, 1);
		protobuf_c_message_free_unpacked(p, NULL);
	}
	remove_tree(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(newer_manifest),
		cmocka_unit_test(newer_header),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
