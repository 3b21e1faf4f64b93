/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: headers that say who asks: lines of Host, Origin, Authorization and a password; empty
 * ones are not there. The first byte says how the server is set up. Nobody comes in without the
 * token, nor by a name that the server does not have.
 *
 * Covers: http/guard.c
 */
#include "fuzz/input.h"
#include "http/guard.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const hosts[] = { "profiles.example" };
	struct input in = { data, size };
	uint8_t how = take_byte(&in);
	const struct http_config cfg = { .token = how & 1 ? "0123456789abcdef" : NULL,
					 .capture_token = how & 2 ? "fedcba9876543210" : NULL,
					 .token_tcp_only = how & 4,
					 .anonymous = how & 8,
					 .hosts = hosts,
					 .n_hosts = 1 };
	const struct guard g = { .cfg = &cfg,
				 .listen = how & 16 ? "[::1]:4041" : "127.0.0.1:4041",
				 .unix_socket = how & 32,
				 .tls = how & 64 };
	char *line[4];
	for (size_t i = 0; i < 4; i++)
		line[i] = take_line(&in);
	const struct guard_asker a = { .host = *line[0] ? line[0] : NULL,
				       .origin = *line[1] ? line[1] : NULL,
				       .authorization = *line[2] ? line[2] : NULL,
				       .password = *line[3] ? line[3] : NULL };
	const char *why = NULL;
	unsigned status = guard_check(&g, &a, how & 128, &why);
	require(!status == !why);
	if (!status && cfg.token && !(how & 128) && !(g.unix_socket && cfg.token_tcp_only))
		require((a.authorization && (strstr(a.authorization, "0123456789abcdef") ||
					     strstr(a.authorization, "fedcba9876543210"))) ||
			(a.password && (!strcmp(a.password, "0123456789abcdef") ||
					!strcmp(a.password, "fedcba9876543210"))));
	if (guard_may_capture(&g, &a) && cfg.capture_token)
		require((a.authorization && strstr(a.authorization, "fedcba9876543210")) ||
			(a.password && !strcmp(a.password, "fedcba9876543210")));
	for (size_t i = 0; i < 4; i++)
		free(line[i]);
	return 0;
}
