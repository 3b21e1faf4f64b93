/* SPDX-License-Identifier: Apache-2.0 */
#include "http/framing.h"

#include <microhttpd.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

struct framing {
	unsigned hosts, lengths, encodings;
	bool bad_name, bad_encoding;
};

/* RFC 9110, 5.6.2: a header's name is a token. */
static bool is_token(const char *s)
{
	static const char marks[] =
		"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	return *s && !s[strspn(s, marks)];
}

static enum MHD_Result add_header(void *ctx, enum MHD_ValueKind kind, const char *name,
				  const char *value)
{
	struct framing *f = ctx;
	(void)kind;
	f->bad_name |= !is_token(name);
	f->hosts += !strcasecmp(name, MHD_HTTP_HEADER_HOST);
	f->lengths += !strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH);
	if (!strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING)) {
		f->encodings++;
		f->bad_encoding |= !value || strcasecmp(value, "chunked");
	}
	return MHD_YES;
}

const char *framing_check(struct MHD_Connection *c, const char *version)
{
	struct framing f = { 0 };
	MHD_get_connection_values(c, MHD_HEADER_KIND, add_header, &f);
	if (f.hosts > 1)
		return "more than one Host header";
	if (f.bad_name)
		return "a header's name has characters that no name has";
	if (f.lengths > 1)
		return "more than one Content-Length header";
	if (f.encodings > 1 || f.bad_encoding)
		return "Transfer-Encoding: chunked alone";
	if (f.encodings && f.lengths)
		return "Content-Length and Transfer-Encoding exclude each other";
	if (f.encodings && strcmp(version, MHD_HTTP_VERSION_1_1))
		return "Transfer-Encoding needs HTTP/1.1";
	return NULL;
}
