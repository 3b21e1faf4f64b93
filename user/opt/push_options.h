/* SPDX-License-Identifier: Apache-2.0 */
/* What the options of `ascribe push`, and the members of `push:` in the daemon's file, mean. */
#ifndef ASCRIBE_OPT_PUSH_OPTIONS_H
#define ASCRIBE_OPT_PUSH_OPTIONS_H

#include "opt/options.h"
#include "push/push.h"

struct push_options {
	const char *format, *cursor, *tenant, *user, *token_file, *ca_file, *cert_file, *key_file,
		*compression, *where, *url, *keeper;
	struct opt_list keys, headers, labels;
	bool idle, create_tables, follow;
	int64_t from_ns, to_ns, max_age_ns, timeout_ns, give_up_ns;
	uint64_t max_bytes, memory;
};

#define PUSH_OPTIONS_INIT { .from_ns = INT64_MIN }

/* What both have; `push` alone has more. */
#define PUSH_TARGET_OPTIONS(type) \
	{ "format", \
	  'f', \
	  OPT_STRING, \
	  "FORMAT", \
	  "otlp: OpenTelemetry profiles over HTTP, of opentelemetry-proto 1.10 (default); " \
	  "pyroscope; parca; pprof: each message is a gzipped profile; clickhouse: rows of " \
	  "ascribe's tables, the database is in the URL: ?database=NAME; clickhouse-otel: rows of " \
	  "the table otel_profiles there", \
	  offsetof(type, format), \
	  0, \
	  0 }, \
		{ "where", \
		  'w', \
		  OPT_STRING, \
		  "SELECTOR", \
		  "only samples with these labels: {namespace=\"shop\",comm!=\"sh\"}", \
		  offsetof(type, where), \
		  0, \
		  0 }, \
		{ "from", \
		  0, \
		  OPT_TIME, \
		  "T", \
		  "begin with windows that end behind this, where there is no cursor yet (default: the " \
		  "oldest; of the daemon: now)", \
		  offsetof(type, from_ns), \
		  0, \
		  0 }, \
		{ "keys", \
		  0, \
		  OPT_LIST, \
		  "KEY,..", \
		  "labels that are sent (default: all; to pyroscope and parca service, service_name, " \
		  "namespace, pod, container, workload, node, comm)", \
		  offsetof(type, keys), \
		  0, \
		  0 }, \
		{ "label", \
		  'l', \
		  OPT_LIST, \
		  "KEY=VALUE,..", \
		  "labels of all that is sent: cluster=prod (otlp: k8s.cluster.name)", \
		  offsetof(type, labels), \
		  0, \
		  0 }, \
		{ "idle", \
		  'i', \
		  OPT_FLAG, \
		  NULL, \
		  "with the samples of idle CPUs, and idle waits", \
		  offsetof(type, idle), \
		  0, \
		  0 }, \
		{ "tenant", \
		  0, \
		  OPT_STRING, \
		  "NAME", \
		  "of Pyroscope and others: sent in the header X-Scope-OrgID", \
		  offsetof(type, tenant), \
		  0, \
		  0 }, \
		{ "user", \
		  0, \
		  OPT_STRING, \
		  "NAME", \
		  "clickhouse: its user; the password is in --token-file", \
		  offsetof(type, user), \
		  0, \
		  0 }, \
		{ "create-tables", \
		  0, \
		  OPT_FLAG, \
		  NULL, \
		  "clickhouse: make ascribe's tables where they are missing, or migrate them", \
		  offsetof(type, create_tables), \
		  0, \
		  0 }, \
		{ "header", \
		  0, \
		  OPT_TEXTS, \
		  "LINE", \
		  "a further header, \"Name: value\"", \
		  offsetof(type, headers), \
		  0, \
		  0 }, \
		{ "token-file", \
		  0, \
		  OPT_STRING, \
		  "FILE", \
		  "a bearer token, or the password of ClickHouse's user, is in this file, which is read for " \
		  "each message", \
		  offsetof(type, token_file), \
		  0, \
		  0 }, \
		{ "ca-file", \
		  0, \
		  OPT_STRING, \
		  "FILE", \
		  "certificates of the CA, PEM (default: those of the system)", \
		  offsetof(type, ca_file), \
		  0, \
		  0 }, \
		{ "cert-file", \
		  0, \
		  OPT_STRING, \
		  "FILE", \
		  "a client's certificate, PEM", \
		  offsetof(type, cert_file), \
		  0, \
		  0 }, \
		{ "key-file", \
		  0, \
		  OPT_STRING, \
		  "FILE", \
		  "the key of that certificate, PEM, without a password", \
		  offsetof(type, key_file), \
		  0, \
		  0 }, \
		{ "compression", \
		  0, \
		  OPT_STRING, \
		  "HOW", \
		  "of messages: gzip, zstd, none (default: gzip for otlp, zstd for clickhouse; the " \
		  "others hold gzipped profiles). Where the receiver does not know it (415), none", \
		  offsetof(type, compression), \
		  0, \
		  0 }, \
		{ "max-bytes", \
		  0, \
		  OPT_SIZE, \
		  "SIZE", \
		  "of a message before compression (default: 2MiB, pyroscope 1MiB, pprof 4MiB); halved " \
		  "where the receiver says 413", \
		  offsetof(type, max_bytes), \
		  1 << 16, \
		  64 << 20 }, \
		{ "max-age", \
		  0, \
		  OPT_DURATION, \
		  "TIME", \
		  "windows that are older are counted and not sent (default: none are; pyroscope 1h, as " \
		  "it refuses them; clickhouse 400d)", \
		  offsetof(type, max_age_ns), \
		  0, \
		  0 }, \
		{ "memory", \
		  0, \
		  OPT_SIZE, \
		  "SIZE", \
		  "memory for the rows of a window: what does not fit is sent in up to 32 shares, " \
		  "beyond that the smallest rows are summed as (other) (default 32MiB)", \
		  offsetof(type, memory), \
		  1 << 20, \
		  0 }, \
		{ "timeout", \
		  0, \
		  OPT_DURATION, \
		  "TIME", \
		  "of one try (default 30s)", \
		  offsetof(type, timeout_ns), \
		  0, \
		  0 }, \
		{ "cursor", \
		  0, \
		  OPT_STRING, \
		  "FILE", \
		  "remember there what was sent (default: a file for each receiver in the directory push " \
		  "of the store)", \
		  offsetof(type, cursor), \
		  0, \
		  0 }

/* A receiver: what its options mean, with room for it. Texts are borrowed from the options. */
struct push_receiver {
	struct push_config c;
	struct label labels[PUSH_LABELS_MAX];
};

/* *ret refers to itself. -EINVAL: the text begins with the option's name. */
int push_options_config(const struct push_options *o, struct push_receiver *ret, struct err *err);

/* A receiver of the daemon's file. */
struct push_section {
	char *text; /* what the options borrow */
	struct push_options o;
	struct push_receiver r;
};

/*
 * Parse a section (OPT_SECTIONS): a line "name value" for each option and `url`, or a URL alone.
 * *ret refers to itself. -EINVAL; to be released either way.
 */
int push_section_parse(struct push_section *ret, const char *text, struct err *err);
void push_section_fini(struct push_section *s);

#endif
