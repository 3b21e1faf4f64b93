/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What gRPC adds to HTTP/2 in a call with one message each way (github.com/grpc/grpc,
 * doc/PROTOCOL-HTTP2.md). A message is framed by a byte that says whether it is compressed and by
 * its length, 4 bytes, big-endian. How the call ended stands in the trailers, or, where no message
 * comes, in the headers.
 */
#ifndef ASCRIBE_CLIENT_GRPC_H
#define ASCRIBE_CLIENT_GRPC_H

#include "util/buf.h"

#define GRPC_FRAME 5u
#define GRPC_STATUS_MAX 99 /* 16 are defined */

struct grpc_end {
	int status; /* -1: none came */
	char message[256];
};

/* Replace what b holds by the framed message. 0 or -ENOMEM. */
int grpc_wrap(struct buf *b, const void *message, size_t len);

/* Replace the one frame in b by its message. 0, or -EBADMSG: *ret_why says what it is instead. */
int grpc_unwrap(struct buf *b, const char **ret_why);

/* Look at a line of headers or trailers. */
void grpc_header(struct grpc_end *e, const char *line, size_t len);

#endif
