/* SPDX-License-Identifier: Apache-2.0 */
/* The page: the files of web/, compressed at build time and inside the program. */
#ifndef ASCRIBE_HTTP_ASSETS_H
#define ASCRIBE_HTTP_ASSETS_H

#include <stddef.h>

struct asset {
	const char *path; /* "/app.js"; "/" is index.html */
	const char *type;
	const char *etag; /* with its quotes */
	const unsigned char *gz;
	size_t gz_len;
};

extern const struct asset assets[];
extern const size_t n_assets;

#endif
