/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a request ends. libmicrohttpd 0.9.75 takes heads that say it twice or unclearly, and goes
 * on with what it holds for the next request. A proxy before us may see another end, and so another
 * next request.
 */
#ifndef ASCRIBE_HTTP_FRAMING_H
#define ASCRIBE_HTTP_FRAMING_H

struct MHD_Connection;

/*
 * A static text of why the head must be refused, NULL: it need not. version: as it came,
 * "HTTP/1.1".
 */
const char *framing_check(struct MHD_Connection *c, const char *version);

#endif
