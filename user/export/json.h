/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON from bytes that other programs chose. jansson takes UTF-8 only: what is not becomes U+FFFD.
 */
#ifndef ASCRIBE_EXPORT_JSON_H
#define ASCRIBE_EXPORT_JSON_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A string value; NULL when out of memory. */
json_t *json_text(const char *s, size_t len);

/* The same of a C string; NULL is "". */
json_t *json_string_of(const char *s);

/* Seconds since 1970. */
json_t *json_time(int64_t ns);

/*
 * Set key (made UTF-8 like json_text), taking over the value; -ENOMEM when either is NULL or the
 * object cannot grow.
 */
int json_put(json_t *object, const char *key, json_t *value);

/* Return o, or release it and return NULL when a part of it could not be made (rc). */
json_t *json_done(json_t *o, int rc);

/* A count; what does not fit in a JSON integer is cut to INT64_MAX. */
json_t *json_count(uint64_t n);

/*
 * The list `rows` of an object. Its rows are made one by one while it is written: all of them at
 * once would take some ten times what they are made of.
 */
struct json_rows {
	size_t n;
	json_t *(*row)(const void *ctx, size_t i); /* NULL: out of memory */
	const void *ctx;
};

/* Write an object, with rows (NULL: none) as its first member. -EIO, -ENOMEM. */
int json_write(const json_t *object, const struct json_rows *rows, json_dump_callback_t write,
	       void *ctx);

/* One line and a newline, keys in the order they were set. -EIO, -ENOMEM. */
int json_print(const json_t *value, const struct json_rows *rows, FILE *f);

/*
 * The same without a newline, safe inside <script>: no '<' at all (\u003c). -EIO, -ENOMEM.
 */
int json_print_script(const json_t *value, FILE *f);

#endif
