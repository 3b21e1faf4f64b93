/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's options, from its command line and its file, and what they mean. */
#ifndef ASCRIBE_DAEMON_SETTINGS_H
#define ASCRIBE_DAEMON_SETTINGS_H

#include "collect/collector.h"
#include "daemon/freeze_rules.h"
#include "daemon/pushing.h"
#include "http/http.h"
#include "opt/config.h"
#include "opt/label_rules.h"
#include "opt/options.h"
#include "opt/pod_options.h"
#include "opt/push_options.h"
#include "opt/rule_options.h"
#include "opt/selection_options.h"
#include "opt/target.h"
#include "store/writer.h"

#define DAEMON_STORE "/var/lib/ascribe"
#define DAEMON_WINDOW_S 10
#define DAEMON_KEEPER "keeper" /* the option of whoever is the keeper (keeper_unit.h) */

struct daemon_options {
	const char *store, *config;
	bool check_config, print_token, keeper, anonymous, plain, no_recipes, wall, waker,
		jvm_attach, cmdline, stand_by;
	uint64_t hz, wide_values, max_bytes, reserve_bytes, memory_max, unwind_max;
	struct opt_list freeze_when, events, keep, listen, hosts, debuginfod, push, metrics;
	struct label_rules labels;
	struct pod_options pods;
	struct target_options target; /* cgroups alone */
	struct selection_options selection;
	const char *token_file, *capture_token_file, *tokens_file, *tls_cert, *tls_key,
		*tls_client_ca, *latency, *cpu_max, *kill_switch, *socket_mode, *recipes,
		*debuginfod_cache, *postgres;
	uint64_t tracks_min, tracks_max, freeze_keep, freeze_max;
	uint64_t workers, connections, quota_cpu_s, quota_bytes, quota_memory, audit_max;
	int64_t freeze_every_ns;
	int64_t capture_ns;  /* not 0: a capture for a daemon (capture.h): record for so long */
	uint64_t claim_cpus; /* for tests: tables as of a host with so many */
};

/* All of it, made sense of. */
struct daemon_settings {
	struct daemon_options o;
	struct config_file config;
	struct store_options store;
	struct event event[MAX_EVENTS]; /* at the highest rate */
	unsigned n_events;
	struct label_filter *filter; /* NULL: all labels */
	struct http_config http;     /* without tokens, certificate and key */
	/* Files of these, open for the process that serves; -1: none */
	int token, capture_token, tokens, cert, key, client_ca;
	bool captures; /* a token allows them */
	/* No token was configured: http.token in the store has it (daemon_settings_keep_token) */
	bool own_token;
	struct pods_config pods;
	struct push_section *push; /* [n_push]; they refer to themselves */
	size_t n_push;
	struct rule_section *rules; /* [n_rules]; they refer to themselves */
	size_t n_rules;
	struct freeze_rule freeze[FREEZE_RULES_MAX];
	size_t n_freeze;
	struct target target;
	struct selection_rules selection;
	const char *blamed; /* the option of the selection that is wrong */
	double cpu_max;	    /* share of all CPUs; 0: no limit */
	char what[256];
};

extern const struct opt_command daemon_command;

/*
 * From argv and the file that it names. 0; -EINVAL and others with the text. False in *ret_go:
 * --help was asked for, with its exit status. To be released either way.
 */
int daemon_settings_read(struct daemon_settings *s, int argc, char **argv, bool *ret_help,
			 struct err *err);
/* err is about the value of that option. */
void daemon_settings_blame(const struct daemon_settings *s, const char *key, struct err *err);
/* The name of http.token in the store. -ENAMETOOLONG. */
int daemon_settings_token_path(const struct daemon_settings *s, char ret_path[static 512],
			       struct err *err);
/*
 * Open the token of http.token in the store, which exists by now, or write one there. *ret_path:
 * its name.
 */
int daemon_settings_keep_token(struct daemon_settings *s, char ret_path[static 512],
			       struct err *err);
/* The highest rate that is asked for: that of the events. */
unsigned daemon_settings_hz(const struct daemon_settings *s);
void daemon_settings_fini(struct daemon_settings *s);

#endif
