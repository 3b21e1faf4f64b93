/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protobuf messages as the connect protocol carries them: binary (application/proto) or JSON
 * (application/json) with the names in lower camel case and 64-bit numbers as text. Works from the
 * descriptors that protoc-c makes. What a message may take in memory is bounded, whatever its bytes
 * say.
 */
#ifndef ASCRIBE_HTTP_MESSAGE_H
#define ASCRIBE_HTTP_MESSAGE_H

#include "http/request.h"
#include "import/message_memory.h"

/*
 * The body of a request; to be freed with message_free. -EINVAL with the text; *ret_json: it came
 * as JSON.
 */
int message_read(const struct request *r, const ProtobufCMessageDescriptor *d,
		 struct message_memory *m, ProtobufCMessage **ret, bool *ret_json, struct err *err);

/*
 * The answer, as the question came; its strings may be any bytes. msg is changed meanwhile, and is
 * as it was at the end. 0 or -ENOMEM with the text.
 */
int message_write(struct request *r, ProtobufCMessage *msg, bool json, struct err *err);

#endif
