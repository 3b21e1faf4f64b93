/* SPDX-License-Identifier: Apache-2.0 */
/*
 * webask SOCKET PATH <BODY: call by gRPC, write the answer, and its status to standard error.
 * webask -t TOKEN -c CA|- URL PATH: GET. "-": any certificate.
 */
#include "client/web.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	uint8_t body[65536];
	struct web *w;
	struct buf out = BUF_INIT;
	struct err err = { 0 };
	struct web_place at = { .base = "http://localhost" };
	struct web_request q = { .max_bytes = 64u << 20, .deadline_ms = 20000, .stop_fd = -1 };
	unsigned status;
	int o;
	while ((o = getopt(argc, argv, "t:c:")) > 0) {
		if (o == 't')
			at.token = optarg;
		else if (o == 'c' && strcmp(optarg, "-"))
			at.authority = optarg;
		else
			at.any_certificate = true;
	}
	if (argc != optind + 2)
		return 2;
	q.path = argv[optind + 1];
	if (argv[optind][0] == '/') {
		at.socket = argv[optind];
		q.grpc = true;
		q.body = body;
		q.body_len = fread(body, 1, sizeof(body), stdin);
	} else {
		at.base = argv[optind];
	}
	int rc = web_new(&w, &err);
	rc = rc ? rc : web_ask(w, &at, &q, &status, &out, &err);
	if (rc) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	fprintf(stderr, "%u\n", status);
	fwrite(out.data, 1, out.len, stdout);
	buf_fini(&out);
	web_free(w);
	return 0;
}
