/* SPDX-License-Identifier: Apache-2.0 */
/* What `ascribe record` may be asked for on its command line. */
#ifndef ASCRIBE_CLI_RECORD_OPTIONS_H
#define ASCRIBE_CLI_RECORD_OPTIONS_H

#include "opt/label_rules.h"
#include "opt/options.h"
#include "opt/target.h"

struct record_options {
	uint64_t hz, period;
	int64_t duration_ns;
	bool all, append, quiet, explain, wall, waker, jvm_attach;
	struct target_options target;
	struct opt_list events, debuginfod;
	struct label_rules labels;
	const char *latency;
	const char *out, *recipes, *debuginfod_cache, *host, *where, *token_file, *ca_file;
	bool no_recipes, tracks;
};

extern const struct opt_command record_command; /* its options are a struct record_options */

#endif
