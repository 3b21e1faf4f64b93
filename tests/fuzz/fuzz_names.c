/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: names of functions made shorter, and text for people.
 *
 * Covers: symbols/names.c util/utf8.c
 */
#include "fuzz/input.h"
#include "opt/text.h"
#include "symbols/names.h"
#include "util/buf.h"
#include "util/utf8.h"

/* What is repaired is whole; what is whole stays. */
static void check_utf8(const char *s, size_t len)
{
	struct buf to = BUF_INIT;
	if (len && well(utf8_repair(&to, s, len))) {
		require(utf8_is_whole((const char *)to.data, to.len));
		require(!utf8_is_whole(s, len) || (to.len == len && !memcmp(to.data, s, len)));
	}
	buf_fini(&to);
}

/* A character is the one that its code makes. */
static void check_code(const char *s, size_t n)
{
	char made[4];
	require(utf8_put(made, utf8_code(s, n)) == n && !memcmp(made, s, n));
}

/* What is shown is whole, has nothing hidden but newlines, and stays when it is shown again. */
static void check_shown(const char *name)
{
	char *shown = strdup(name), *again;
	require(shown != NULL);
	utf8_show(shown, "\n");
	require(strlen(shown) <= strlen(name) && utf8_is_whole(shown, strlen(shown)));
	for (size_t i = 0, n; shown[i]; i += n) {
		n = utf8_char(shown + i, strlen(shown + i));
		require(shown[i] == '\n' || !utf8_is_hidden(shown + i, n));
		check_code(shown + i, n);
	}
	again = strdup(shown);
	require(again != NULL);
	utf8_show(again, "\n");
	require(!strcmp(shown, again));
	free(again);
	free(shown);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const size_t rooms[] = { 1, 2, 17, 300, 8192 };
	char *name = copy_of(data, size);
	for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
		char *out = malloc(rooms[i]);
		require(out != NULL);
		name_fold_clones(name, out, rooms[i]);
		require(memchr(out, '\0', rooms[i]) != NULL);
		name_simplify(name, out, rooms[i]);
		require(memchr(out, '\0', rooms[i]) != NULL);
		free(out);
	}
	check_utf8(name, size);
	check_shown(name);
	char *shown = text_printable(name, size);
	if (well(!shown)) {
		size_t width = text_width(shown);
		text_cut(shown, width / 2 + 1);
		require(text_width(shown) <= width / 2 + 1);
	}
	free(shown);
	free(name);
	return 0;
}
