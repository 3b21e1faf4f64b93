/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: captures of labels in other ABIs than ours (include/label_wire.h): OpenTelemetry,
 * custom labels, Go's maps and slices, label paths of every form, Node.
 *
 * The input is text: a head, then an entry each line, "WHAT SOURCE CUT FIELD A|B": so an entry's
 * lengths fit. A line that begins with '#' stands for raw bytes of the capture.
 *
 * Covers: labels/foreign.c
 */
#include "fuzz/input.h"
#include "labels/foreign.h"

#include <errno.h>
#include <linux/types.h>
#include "label_wire.h"

#include <stdio.h>

struct capture {
	uint8_t bytes[CAPTURE_MAX + 64];
	size_t len;
};

static void put(struct capture *c, const void *p, size_t n, size_t padded)
{
	if (c->len + padded > CAPTURE_MAX)
		return;
	if (n)
		memcpy(c->bytes + c->len, p, n);
	memset(c->bytes + c->len + n, 0, padded - n);
	c->len += padded;
}

static size_t up(size_t n)
{
	return (n + 7) & ~(size_t)7;
}

static void put_entry(struct capture *c, const uint8_t *line, size_t n)
{
	if (n < 5)
		return;
	const uint8_t *a = line + 4, *bar = memchr(a, '|', n - 4);
	size_t len = bar ? (size_t)(bar - a) : n - 4, len2 = bar ? n - 5 - len : 0;
	struct label_entry e = { .what = line[0] & 7,
				 .source = !(line[1] & 8) ? line[1] & 7
					   : line[2] & 2  ? ENTRY_CALL
							  : ENTRY_ARGUMENT,
				 .cut = line[2] & 1,
				 .len = (uint16_t)len,
				 .len2 = bar ? (uint16_t)len2 : line[3] & 15 };
	put(c, &e, sizeof(e), sizeof(e));
	put(c, a, len, up(len));
	if (bar)
		put(c, bar + 1, len2, up(len2));
}

static int read_memory(void *ctx, uint64_t at, void *out, size_t len)
{
	(void)ctx;
	if (at % 3 == 2)
		return -EFAULT;
	memset(out, 'a' + (int)(at % 20), len);
	return 0;
}

static char *const keys[] = { "key", NULL, "trace", "a.b" };
static char *const calls[] = { NULL, "parse" };
static const struct foreign_name names[] = { { 1, "one" }, { -1, "minus" } };
static const struct foreign_field fields[] = {
	{ .key = "int", .form = FOREIGN_INT, .names = names, .n_names = 2 },
	{ .key = "uint", .form = FOREIGN_UINT },
	{ .key = "hex", .form = FOREIGN_HEX },
	{ .key = "text", .form = FOREIGN_TEXT },
	{ .key = "bytes", .form = FOREIGN_BYTES },
	{ .key = "elastic", .form = FOREIGN_ELASTIC },
	{ .key = "datadog", .form = FOREIGN_DATADOG },
};

static const struct foreign_source sources[] = {
	{ .kind = LABEL_OTEL, .keys = keys, .n_keys = 4, .rank = 1 },
	{ .kind = LABEL_CUSTOM },
	{ .kind = LABEL_GO_MAP, .rank = 2 },
	{ .kind = LABEL_GO_SLICE },
	{ .kind = LABEL_PATH, .fields = fields, .n_fields = 7, .rank = 3 },
	{ .kind = LABEL_NODE, .keys = keys, .n_keys = 4 },
	{ .kind = LABEL_NONE },
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct capture c;
	static struct foreign_side side;
	static struct label out[FOREIGN_LABELS_MAX];
	struct input in = { data, size };
	uint8_t head = take_byte(&in);
	memset(&side, 0, sizeof(side));
	c.len = 0;
	side.read = head & 1 ? read_memory : NULL;
	side.calls = calls;
	side.n_calls = sizeof(calls) / sizeof(calls[0]);
	while (in.left) {
		size_t n;
		uint8_t *line = (uint8_t *)take_until(&in, '\n', &n);
		if (n && line[0] == '#')
			put(&c, line + 1, n - 1, n - 1);
		else
			put_entry(&c, line, n);
		free(line);
	}
	uint8_t *capture = (uint8_t *)copy_of(c.bytes, c.len); /* no byte behind it */
	size_t n = foreign_decode(capture, c.len, sources, head >> 5, out, &side);
	require(n <= FOREIGN_LABELS_MAX && side.used <= sizeof(side.text));
	(void)foreign_has_sources(capture, c.len);
	for (size_t i = 0; i < n; i++) {
		static char text[2 * CAPTURE_MAX + 1];
		require(label_text(&out[i], text, sizeof(text)) < sizeof(text));
		require(out[i].key_len <= CAPTURE_MAX && out[i].key);
	}
	labels_normalize(out, n);
	free(capture);
	return 0;
}
