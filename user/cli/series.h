/* SPDX-License-Identifier: Apache-2.0 */
/* ascribe report --step: samples over time. */
#ifndef ASCRIBE_CLI_SERIES_H
#define ASCRIBE_CLI_SERIES_H

#include "cli/cmd.h"

/*
 * The whole command behind its options; exact: as query_series_spec says. Returns the exit status.
 * The caller closes r.
 */
int series_report(struct reading *r, const struct opt_args *args, const struct filter *f,
		  const struct opt_list *by, int64_t step_ns, bool exact);

#endif
