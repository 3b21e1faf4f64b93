/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: headers that say who asks: lines of Host, Origin, Authorization, a password, a token
 * and the name of a certificate; empty ones are not there. The first byte says how the server is
 * set up. Nobody comes in without a token, nor by a name that the server does not have.
 *
 * Covers: http/guard.c http/access.c
 */
#include "fuzz/input.h"
#include "http/guard.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const hosts[] = { "profiles.example" };
	struct input in = { data, size };
	uint8_t how = take_byte(&in);
	static char reads[] = "0123456789abcdef", captures[] = "fedcba9876543210";
	struct access_grant grants[] = {
		{ .name = "reads", .may = ACCESS_READ, .token = reads },
		{ .name = "captures", .may = ACCESS_READ | ACCESS_CAPTURE, .token = captures },
		{ .name = "proxy", .may = ACCESS_READ },
	};
	char *line[6];
	for (size_t i = 0; i < 6; i++)
		line[i] = take_line(&in);
	const bool certified = *line[5] && how & 2;
	const struct http_config cfg = {
		.access = { grants + !(how & 1), (size_t)((how & 1) + (how >> 1 & 1)) + certified },
		.token_tcp_only = how & 4,
		.anonymous = how & 8,
		.hosts = hosts,
		.n_hosts = 1
	};
	const struct guard g = { .cfg = &cfg,
				 .listen = how & 16 ? "[::1]:4041" : "192.0.2.7:4041",
				 .unix_socket = how & 32,
				 .tls = how & 64 };
	const struct guard_asker a = { .host = *line[0] ? line[0] : NULL,
				       .origin = *line[1] ? line[1] : NULL,
				       .authorization = *line[2] ? line[2] : NULL,
				       .password = *line[3] ? line[3] : NULL,
				       .token = *line[4] ? line[4] : NULL,
				       .certificate = *line[5] ? line[5] : NULL,
				       .member = how & 8 };
	const char *why = NULL;
	const struct access_grant *grant = NULL;
	unsigned status = guard_check(&g, &a, how & 128, &grant, &why);
	require(!status == !why);
	require(status || grant);
	const bool none = (how & 128) || !cfg.access.n || (g.unix_socket && cfg.token_tcp_only);
	for (size_t i = 0; i < 2; i++)
		if (!status && grant == &grants[i])
			require((a.authorization && strstr(a.authorization, grants[i].token)) ||
				(a.password && !strcmp(a.password, grants[i].token)) ||
				(a.token && !strcmp(a.token, grants[i].token)));
	require(status || none || (grant >= grants && grant < grants + 3));
	require(status || grant != &grants[2] || !strcmp(a.certificate, "proxy"));
	require(status || !access_may(grant, ACCESS_CAPTURE) || grant == &grants[1] ||
		(none && a.member));
	for (size_t i = 0; i < 6; i++)
		free(line[i]);
	return 0;
}
