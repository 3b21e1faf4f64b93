/* SPDX-License-Identifier: Apache-2.0 */
/* The part of libcurl that is used, loaded when it is first needed. */
#ifndef ASCRIBE_CLIENT_LIBCURL_H
#define ASCRIBE_CLIENT_LIBCURL_H

#include "util/err.h"

#include <curl/curl.h>

struct libcurl {
	__typeof__(curl_global_init) *global_init;
	__typeof__(curl_easy_init) *easy_init;
	__typeof__(curl_easy_cleanup) *easy_cleanup;
	__typeof__(curl_easy_reset) *easy_reset;
	__typeof__(curl_easy_setopt) *easy_setopt;
	__typeof__(curl_easy_getinfo) *easy_getinfo;
	__typeof__(curl_easy_strerror) *easy_strerror;
	__typeof__(curl_multi_init) *multi_init;
	__typeof__(curl_multi_cleanup) *multi_cleanup;
	__typeof__(curl_multi_setopt) *multi_setopt;
	__typeof__(curl_multi_add_handle) *multi_add;
	__typeof__(curl_multi_remove_handle) *multi_remove;
	__typeof__(curl_multi_perform) *multi_perform;
	__typeof__(curl_multi_poll) *multi_poll; /* since 7.66 */
	__typeof__(curl_multi_info_read) *multi_info_read;
};

/* Load it, for good. 0, or -ELIBACC: it is not installed, or too old. */
int libcurl_load(struct libcurl *ret, struct err *err);

#endif
