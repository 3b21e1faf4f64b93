/* SPDX-License-Identifier: Apache-2.0 */
#include "export/json.h"

#include "util/buf.h"
#include "util/utf8.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* 15 digits: what a double carries faithfully, without 0.10000000000000001. */
#define FLAGS (JSON_COMPACT | JSON_REAL_PRECISION(15))

json_t *json_text(const char *s, size_t len)
{
	struct buf b = BUF_INIT;
	json_t *v = NULL;
	if (utf8_is_whole(s, len))
		return json_stringn_nocheck(len ? s : "", len);
	if (!utf8_repair(&b, s, len))
		v = json_stringn_nocheck((const char *)b.data, b.len);
	buf_fini(&b);
	return v;
}

int json_put(json_t *object, const char *key, json_t *value)
{
	if (!json_object_set_new(object, key, json_incref(value))) {
		json_decref(value);
		return 0;
	}
	/* Out of memory, or a key that is no UTF-8. */
	json_t *text = json_text(key, strlen(key));
	int rc = text ? json_object_set_new_nocheck(object, json_string_value(text),
						    json_incref(value))
		      : -1;
	json_decref(text);
	json_decref(value);
	return rc ? -ENOMEM : 0;
}

json_t *json_string_of(const char *s)
{
	return json_text(s ? s : "", s ? strlen(s) : 0);
}

json_t *json_time(int64_t ns)
{
	return json_real((double)ns / 1e9);
}

json_t *json_done(json_t *o, int rc)
{
	if (!rc)
		return o;
	json_decref(o);
	return NULL;
}

json_t *json_count(uint64_t n)
{
	return json_integer(n > INT64_MAX ? INT64_MAX : (json_int_t)n);
}

static int to_file(const char *data, size_t len, void *f)
{
	return fwrite(data, 1, len, f) == len ? 0 : -1;
}

/* '<' stands in strings only, where \u003c means the same. */
static int to_script(const char *data, size_t len, void *f)
{
	for (size_t i = 0; i < len; i++) {
		if ((data[i] == '<' ? fputs("\\u003c", f) : putc(data[i], f)) == EOF)
			return -1;
	}
	return 0;
}

/* Passes on all but the first byte. */
struct rest {
	json_dump_callback_t write;
	void *ctx;
	bool begun;
};

static int to_rest(const char *data, size_t len, void *ctx)
{
	struct rest *r = ctx;
	size_t skip = !r->begun && len;
	r->begun |= len > 0;
	return r->write(data + skip, len - skip, r->ctx);
}

static int write_rows(const struct json_rows *rows, json_dump_callback_t write, void *ctx)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < rows->n; i++) {
		json_t *row = rows->row(rows->ctx, i);
		rc = !row ? -ENOMEM : i && write(",", 1, ctx) ? -EIO : 0;
		rc = rc || !json_dump_callback(row, write, ctx, FLAGS) ? rc : -EIO;
		json_decref(row);
	}
	return rc;
}

int json_write(const json_t *object, const struct json_rows *rows, json_dump_callback_t write,
	       void *ctx)
{
	static const char begin[] = "{\"rows\":[", end[] = "],";
	struct rest rest = { .write = write, .ctx = ctx };
	if (!object)
		return -ENOMEM;
	if (!rows)
		return json_dump_callback(object, write, ctx, FLAGS) ? -EIO : 0;
	int rc = write(begin, sizeof(begin) - 1, ctx) ? -EIO : write_rows(rows, write, ctx);
	/* The object is not empty, and has no rows itself. */
	rc = rc || !write(end, sizeof(end) - 1, ctx) ? rc : -EIO;
	return rc || !json_dump_callback(object, to_rest, &rest, FLAGS) ? rc : -EIO;
}

int json_print(const json_t *value, const struct json_rows *rows, FILE *f)
{
	int rc = json_write(value, rows, to_file, f);
	return rc || putc('\n', f) != EOF ? rc : -EIO;
}

int json_print_script(const json_t *value, FILE *f)
{
	if (!value)
		return -ENOMEM;
	return json_dump_callback(value, to_script, f, FLAGS) ? -EIO : 0;
}
