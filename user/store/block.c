/* SPDX-License-Identifier: Apache-2.0 */
#include "store/block.h"

#include "store/columns.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- encoding ---- */

static int encode_cpu(struct buf *b, const struct store_cpu_totals *t, size_t n_lost, size_t n_flagged, size_t pad_lost,
		      size_t pad_flagged)
{
	int rc = buf_add_varint(b, t->cpu);
	if (!rc)
		rc = buf_add_varint(b, t->fired);
	if (!rc)
		rc = buf_add_varint(b, t->stored);
	for (size_t i = 0; !rc && i < pad_lost; i++)
		rc = buf_add_varint(b, i < n_lost ? t->lost[i] : 0);
	for (size_t i = 0; !rc && i < pad_flagged; i++)
		rc = buf_add_varint(b, i < n_flagged ? t->flagged[i] : 0);
	return rc;
}

static int encode_totals(struct buf *b, const struct store_totals *t, size_t n_lost, size_t n_flagged, size_t pad_lost,
			 size_t pad_flagged)
{
	const uint64_t v[] = { t->outside, t->own_cpu_ns, t->own_rss, t->n_cpus, pad_lost, pad_flagged };
	int rc = 0;
	for (size_t i = 0; !rc && i < sizeof(v) / sizeof(v[0]); i++)
		rc = buf_add_varint(b, v[i]);
	for (size_t i = 0; !rc && i < t->n_cpus; i++)
		rc = encode_cpu(b, &t->cpu[i], n_lost, n_flagged, pad_lost, pad_flagged);
	return rc;
}

/* The value column says nothing when every sample adds its event's period. */
static bool values_implied(const struct store_row *rows, size_t n, const struct store_event *events)
{
	for (size_t i = 0; i < n; i++)
		if (rows[i].value != rows[i].samples * events[rows[i].event].period)
			return false;
	return true;
}

static int encode_row(struct buf *c, const struct store_row *row, const struct store_row *last)
{
	int rc = buf_add_varint(&c[COLUMN_SET], row->set - last->set);
	if (!rc)
		rc = buf_add_varint(&c[COLUMN_STACK], row->set == last->set ? row->stack - last->stack : row->stack);
	if (!rc)
		rc = buf_add_varint(&c[COLUMN_EVENT], row->event);
	if (!rc)
		rc = buf_add_varint(&c[COLUMN_SAMPLES], row->samples);
	return rc ? rc : buf_add_varint(&c[COLUMN_VALUE], row->value);
}

static int encode_fixed(struct buf *out, const struct block *b, uint8_t n_columns)
{
	const struct store_window *w = &b->window;
	int rc = buf_reserve(out, BLOCK_SIZE);
	if (rc)
		return rc;
	buf_add_u64(out, (uint64_t)w->t0_ns);
	buf_add_u64(out, (uint64_t)w->t1_ns);
	buf_add_u64(out, (uint64_t)w->boot_ns);
	buf_add_u8(out, 0); /* level */
	buf_add_u8(out, n_columns);
	buf_add(out, "\0", 2);
	buf_add_u32(out, (uint32_t)w->n_rows);
	for (int k = 1; k <= N_DICTS; k++) {
		buf_add_u64(out, b->marks[k].bytes);
		buf_add_u32(out, b->marks[k].count);
		buf_add_u32(out, 0);
	}
	buf_add_u32(out, 1); /* symbol generation */
	buf_add_u32(out, 1); /* label epoch */
	return buf_add_u64(out, 0);
}

static int encode_columns(struct buf *out, const struct buf *columns, size_t n)
{
	struct buf data = BUF_INIT;
	int rc = 0;
	for (size_t i = 0; !rc && i < n; i++) {
		size_t before = data.len;
		uint8_t codec = 0;
		rc = codec_pack(&data, columns[i].data, columns[i].len, &codec);
		if (!rc)
			rc = buf_add_u8(out, (uint8_t)i);
		if (!rc)
			rc = buf_add_u8(out, codec);
		if (!rc)
			rc = buf_add(out, "\0", 2);
		if (!rc)
			rc = buf_add_u32(out, (uint32_t)columns[i].len);
		if (!rc)
			rc = buf_add_u32(out, (uint32_t)(data.len - before));
	}
	if (!rc)
		rc = buf_add(out, data.data, data.len);
	buf_fini(&data);
	return rc;
}

int block_encode(struct buf *out, const struct block *b, const struct store_row *rows, const struct store_event *events,
		 size_t n_lost, size_t n_flagged, size_t pad_lost, size_t pad_flagged)
{
	struct buf c[N_COLUMNS] = { BUF_INIT };
	size_t n = b->window.n_rows;
	uint8_t n_columns = values_implied(rows, n, events) ? N_COLUMNS - 1 : N_COLUMNS;
	struct store_row first = { 0 };
	int rc = encode_totals(&c[COLUMN_TOTALS], &b->window.totals, n_lost, n_flagged, pad_lost, pad_flagged);
	for (size_t i = 0; !rc && i < n; i++)
		rc = encode_row(c, &rows[i], i ? &rows[i - 1] : &first);
	if (!rc)
		rc = encode_fixed(out, b, n_columns);
	if (!rc)
		rc = encode_columns(out, c, n_columns);
	for (size_t i = 0; i < N_COLUMNS; i++)
		buf_fini(&c[i]);
	return rc;
}

/* ---- decoding ---- */

struct directory {
	const uint8_t *data[N_COLUMNS]; /* NULL: not there */
	uint32_t raw_len[N_COLUMNS], stored_len[N_COLUMNS];
	uint8_t codec[N_COLUMNS];
};

static int decode_fixed(struct block *b, struct cursor *c, uint8_t *ret_columns)
{
	struct store_window *w = &b->window;
	w->t0_ns = (int64_t)cursor_u64(c);
	w->t1_ns = (int64_t)cursor_u64(c);
	w->boot_ns = (int64_t)cursor_u64(c);
	uint8_t level = cursor_u8(c);
	*ret_columns = cursor_u8(c);
	cursor_bytes(c, 2);
	w->n_rows = cursor_u32(c);
	for (int k = 1; k <= N_DICTS; k++) {
		b->marks[k].bytes = cursor_u64(c);
		b->marks[k].count = cursor_u32(c);
		cursor_bytes(c, 4);
	}
	cursor_bytes(c, 16);
	return c->bad || level || w->t0_ns >= w->t1_ns || w->n_rows > ROWS_MAX ? -EBADMSG : 0;
}

/* Columns that this program does not know are passed over. */
static int decode_directory(struct directory *d, struct cursor *c, uint8_t n)
{
	memset(d, 0, sizeof(*d));
	struct cursor entries = *c;
	cursor_bytes(c, (size_t)n * COLUMN_SIZE);
	for (uint8_t i = 0; i < n && !c->bad; i++) {
		uint8_t id = cursor_u8(&entries), codec = cursor_u8(&entries);
		cursor_bytes(&entries, 2);
		uint32_t raw = cursor_u32(&entries), stored = cursor_u32(&entries);
		const uint8_t *data = cursor_bytes(c, stored);
		if (id >= N_COLUMNS)
			continue;
		if (d->data[id])
			return -EBADMSG;
		d->data[id] = data;
		d->codec[id] = codec;
		d->raw_len[id] = raw;
		d->stored_len[id] = stored;
	}
	return c->bad || cursor_left(c) ? -EBADMSG : 0;
}

static int unpack(const struct directory *d, enum column id, size_t max, struct buf *out)
{
	if (!d->data[id] || d->raw_len[id] > max)
		return -EBADMSG;
	return codec_unpack(out, d->codec[id], d->data[id], d->stored_len[id], d->raw_len[id]);
}

static int decode_totals(struct block *b, struct cursor *c, size_t n_lost, size_t n_flagged)
{
	struct store_totals *t = &b->window.totals;
	t->outside = cursor_varint(c);
	t->own_cpu_ns = cursor_varint(c);
	t->own_rss = cursor_varint(c);
	size_t n_cpus = cursor_varint(c), lost = cursor_varint(c), flagged = cursor_varint(c);
	/* Every counter takes a byte at least, so the allocation is bounded by what was read. */
	if (c->bad || n_cpus > CPUS_MAX || lost > n_lost || flagged > n_flagged || n_cpus > cursor_left(c))
		return -EBADMSG;
	size_t n = n_lost + n_flagged;
	t->cpu = calloc(n_cpus + 1, sizeof(*t->cpu));
	b->counters = calloc(n_cpus * n + 1, sizeof(*b->counters));
	if (!t->cpu || !b->counters)
		return -ENOMEM;
	t->n_cpus = n_cpus;
	for (size_t i = 0; i < n_cpus; i++) {
		struct store_cpu_totals *cpu = &t->cpu[i];
		uint64_t number = cursor_varint(c);
		*cpu = (struct store_cpu_totals){ .cpu = (uint32_t)number, .fired = cursor_varint(c) };
		cpu->stored = cursor_varint(c);
		cpu->lost = b->counters + i * n;
		cpu->flagged = cpu->lost + n_lost;
		for (size_t k = 0; k < lost; k++)
			cpu->lost[k] = cursor_varint(c);
		for (size_t k = 0; k < flagged; k++)
			cpu->flagged[k] = cursor_varint(c);
		if (number > UINT32_MAX)
			return -EBADMSG;
	}
	return c->bad || cursor_left(c) ? -EBADMSG : 0;
}

int block_decode(struct block *ret, const uint8_t *data, size_t len, size_t n_lost, size_t n_flagged)
{
	struct cursor c = { data, data + len, 0 };
	struct directory d;
	struct buf totals = BUF_INIT;
	struct block b = { 0 };
	uint8_t n_columns = 0;
	int rc = decode_fixed(&b, &c, &n_columns);
	if (!rc)
		rc = decode_directory(&d, &c, n_columns);
	if (!rc)
		rc = unpack(&d, COLUMN_TOTALS, FRAME_RAW_MAX, &totals);
	if (!rc)
		rc = decode_totals(&b, &(struct cursor){ totals.data, totals.data + totals.len, 0 }, n_lost, n_flagged);
	buf_fini(&totals);
	if (rc)
		block_fini(&b);
	else
		*ret = b;
	return rc;
}

void block_fini(struct block *b)
{
	if (!b)
		return;
	free(b->counters);
	free(b->window.totals.cpu);
	memset(b, 0, sizeof(*b));
}

static int decode_row(const struct block *b, struct cursor *c, bool has_value, const struct store_event *events,
		      const struct store_row *last, struct store_row *ret)
{
	uint64_t set = cursor_varint(&c[COLUMN_SET]), stack = cursor_varint(&c[COLUMN_STACK]);
	uint64_t event = cursor_varint(&c[COLUMN_EVENT]);
	bool same_set = last && !set;
	if (set > UINT32_MAX || stack > UINT32_MAX)
		return -EBADMSG;
	if (last)
		set += last->set;
	if (same_set) {
		stack += last->stack;
		if (stack == last->stack && event <= last->event)
			return -EBADMSG;
	}
	if (set >= b->marks[KIND_SETS].count || stack >= b->marks[KIND_STACKS].count ||
	    event >= b->marks[KIND_EVENTS].count)
		return -EBADMSG;
	*ret = (struct store_row){ (uint32_t)set, (uint32_t)stack, (uint32_t)event, cursor_varint(&c[COLUMN_SAMPLES]),
				   0 };
	ret->value = has_value ? cursor_varint(&c[COLUMN_VALUE]) : ret->samples * events[event].period;
	return 0;
}

static int decode_rows(const struct block *b, struct cursor *c, bool has_value, const struct store_event *events,
		       struct store_row *rows)
{
	size_t n = b->window.n_rows;
	int rc = 0;
	for (size_t i = 0; !rc && i < n; i++)
		rc = decode_row(b, c, has_value, events, i ? &rows[i - 1] : NULL, &rows[i]);
	for (size_t i = COLUMN_SET; !rc && i < N_COLUMNS; i++)
		rc = c[i].bad || cursor_left(&c[i]) ? -EBADMSG : 0;
	return rc;
}

int block_rows(const struct block *b, const uint8_t *data, size_t len, const struct store_event *events,
	       struct store_row **ret_rows)
{
	struct cursor c = { data, data + len, 0 }, columns[N_COLUMNS] = { 0 };
	struct buf raw[N_COLUMNS] = { BUF_INIT };
	struct directory d;
	uint8_t n_columns = data[25];
	size_t n = b->window.n_rows;
	struct store_row *rows = NULL;
	cursor_bytes(&c, BLOCK_SIZE);
	int rc = decode_directory(&d, &c, n_columns);
	bool has_value = !rc && d.data[COLUMN_VALUE];
	for (int i = COLUMN_SET; !rc && i < N_COLUMNS; i++) {
		if (i == COLUMN_VALUE && !has_value)
			break;
		rc = unpack(&d, i, n * 10, &raw[i]);
		columns[i] = (struct cursor){ raw[i].data, raw[i].data + raw[i].len, 0 };
	}
	if (!rc) {
		rows = malloc((n + 1) * sizeof(*rows));
		rc = rows ? decode_rows(b, columns, has_value, events, rows) : -ENOMEM;
	}
	for (int i = 0; i < N_COLUMNS; i++)
		buf_fini(&raw[i]);
	if (rc)
		free(rows);
	else
		*ret_rows = rows;
	return rc;
}
