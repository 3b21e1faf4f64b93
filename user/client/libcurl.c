/* SPDX-License-Identifier: Apache-2.0 */
#include "client/libcurl.h"

#include "util/library.h"

#include <errno.h>
#include <string.h>

/* Debian's two flavours: their functions are the same, what they need is not. */
static void *open_library(void)
{
	void *lib = library_open("libcurl.so.4");
	return lib ? lib : library_open("libcurl-gnutls.so.4");
}

int libcurl_load(struct libcurl *ret, struct err *err)
{
	struct libcurl l;
	const struct {
		const char *name;
		void *to;
	} names[] = {
		{ "curl_global_init", &l.global_init },
		{ "curl_easy_init", &l.easy_init },
		{ "curl_easy_cleanup", &l.easy_cleanup },
		{ "curl_easy_reset", &l.easy_reset },
		{ "curl_easy_setopt", &l.easy_setopt },
		{ "curl_easy_getinfo", &l.easy_getinfo },
		{ "curl_easy_strerror", &l.easy_strerror },
		{ "curl_multi_init", &l.multi_init },
		{ "curl_multi_cleanup", &l.multi_cleanup },
		{ "curl_multi_setopt", &l.multi_setopt },
		{ "curl_multi_add_handle", &l.multi_add },
		{ "curl_multi_remove_handle", &l.multi_remove },
		{ "curl_multi_perform", &l.multi_perform },
		{ "curl_multi_poll", &l.multi_poll },
		{ "curl_multi_info_read", &l.multi_info_read },
	};
	void *lib = open_library();
	for (size_t i = 0; lib && i < sizeof(names) / sizeof(names[0]); i++) {
		void *f = library_symbol(lib, names[i].name);
		memcpy(names[i].to, &f, sizeof(f));
		if (!f)
			return err_set(err, -ELIBACC, "libcurl has no %s: install 7.66 or later",
				       names[i].name);
	}
	if (!lib)
		return err_set(err, -ELIBACC, "%s", library_missing("libcurl.so.4", "libcurl4"));
	if (l.global_init(CURL_GLOBAL_DEFAULT))
		return err_set(err, -ELIBACC,
			       "libcurl cannot be initialized: is its TLS library "
			       "complete?");
	*ret = l;
	return 0;
}
