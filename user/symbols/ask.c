/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/parser.h"
#include "symbols/symbols.h"

#include <errno.h>
#include <string.h>

#define READ_MS 2000
#define WORKER_BYTES (64u << 20)

static int ask(int fd, struct buf *reply)
{
	static const sandbox_op ops[] = { parser_op_open };
	const struct sandbox_config cfg = {
		.ops = ops, .n_ops = 1, .memory = WORKER_BYTES, .serves = 1
	};
	const struct sandbox_call call = {
		.fds = &fd, .n_fds = 1, .deadline_ms = READ_MS, .max_reply = PARSER_FACTS_MAX
	};
	struct sandbox *s = NULL;
	struct err err = { 0 };
	int rc = sandbox_new(&s, &cfg, &err);
	rc = rc ? rc : sandbox_ask(s, &call, reply);
	sandbox_free(s);
	return rc;
}

int binary_runtime_of(int fd, uint64_t start, uint64_t pgoff, struct binary_runtime *ret)
{
	struct buf reply = BUF_INIT;
	struct facts f;
	int rc = ask(fd, &reply);
	rc = rc ? rc : facts_decode(&f, &reply);
	if (!rc) {
		*ret = (struct binary_runtime){ f.script, f.hotspot, f.v8, 0 };
		if (f.hotspot.at[0])
			rc = elf_image_bias(&f.img, start, pgoff, &ret->bias);
		facts_fini(&f);
	}
	buf_fini(&reply);
	return rc;
}
