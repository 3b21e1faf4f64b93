/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: requests of the connect protocol, in JSON or protobuf. The first byte chooses the
 * message and the form. What is read is written, and read again as the same. jansson's requests
 * for memory fail, too, while it writes: its reader does not survive that.
 *
 * Covers: http/message.c
 */
#include "fuzz/protobuf.h"
#include "http/message.h"
#include "http/push.pb-c.h"
#include "http/pyroscope.pb-c.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>

#define MEMORY (1u << 20)

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
	if (!size || !(data[0] & 1))
		return LLVMFuzzerMutate(data, size, max);
	return protobuf_mutate_behind(1, data, size, max, seed);
}

static const ProtobufCMessageDescriptor *const messages[] = {
	&pyro__select_series_request__descriptor,  &pyro__diff_request__descriptor,
	&pyro__select_profile_request__descriptor, &pyro__series_request__descriptor,
	&push__push_request__descriptor,	   &pyro__select_series_response__descriptor,
	&pyro__stats_response__descriptor,	   &pyro__series_response__descriptor,
	&pyro__flame_response__descriptor,
};

static bool writes;

static void *alloc(size_t n)
{
	return writes && fuzz_denies() ? NULL : malloc(n);
}

static void write_json(ProtobufCMessage *m)
{
	struct request out = { 0 };
	struct err err = { 0 };
	writes = true;
	require(!message_write(&out, m, true, &err));
	writes = false;
	buf_fini(&out.out);
}

static void read_message(const struct request *r, const ProtobufCMessageDescriptor *d, int again)
{
	struct message_memory memory;
	struct request out = { 0 };
	ProtobufCMessage *m = NULL;
	struct err err = { 0 };
	bool json;
	message_memory_init(&memory, MEMORY);
	int rc = message_read(r, d, &memory, &m, &json, &err);
	require(memory.left <= MEMORY);
	require(!rc || !again || memory.exceeded);
	/* What came as protobuf may have fields that are not known, which cannot be written. */
	if (!rc && !again && json) {
		require(!message_write(&out, m, false, &err));
		out.body = out.out;
		out.out = (struct buf)BUF_INIT;
		snprintf(out.content_type, sizeof(out.content_type), "application/proto");
		read_message(&out, d, 1);
		write_json(m);
	}
	if (!rc && !json) { /* with strings that may be no UTF-8 */
		require(!message_write(&out, m, false, &err));
		write_json(m);
	}
	message_free(m, &memory);
	buf_fini(&out.body);
	buf_fini(&out.out);
}

/* The same body, said to be what is not taken here. */
static void read_refused(struct request *r)
{
	static const char *const types[] = { "application/jsox", "application/protx", "text/plain",
					     "" };
	struct message_memory memory;
	ProtobufCMessage *m = NULL;
	struct err err = { 0 };
	bool json;
	message_memory_init(&memory, MEMORY);
	snprintf(r->encoding, sizeof(r->encoding), "gzip");
	require(message_read(r, messages[0], &memory, &m, &json, &err) == -EINVAL);
	r->encoding[0] = '\0';
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		snprintf(r->content_type, sizeof(r->content_type), "%s", types[i]);
		require(message_read(r, messages[0], &memory, &m, &json, &err) == -EINVAL);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	uint8_t what = take_byte(&in);
	struct request r = { 0 };
	require(!buf_add(&r.body, in.p, in.left));
	json_set_alloc_funcs(alloc, free);
	snprintf(r.content_type, sizeof(r.content_type), "application/%s",
		 what & 1 ? "proto" : "json; charset=utf-8");
	if (what & 0x40)
		snprintf(r.encoding, sizeof(r.encoding), "identity");
	read_message(&r, messages[what / 2 % (sizeof(messages) / sizeof(messages[0]))], 0);
	read_refused(&r);
	buf_fini(&r.body);
	return 0;
}
