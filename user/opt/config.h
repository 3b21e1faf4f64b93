/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A YAML file of a command's options: one mapping, keys are the long names, values what would stand
 * behind them; a list may be a sequence. An element of sections (OPT_SECTIONS) may be a mapping of
 * values and lists. No anchors, no tags, no further nesting; 256 KiB and 1,000 values at most.
 */
#ifndef ASCRIBE_OPT_CONFIG_H
#define ASCRIBE_OPT_CONFIG_H

#include "opt/options.h"

#define CONFIG_OPTIONS_MAX OPT_MASK_BITS

struct config_file {
	const char *path; /* borrowed */
	char **texts;	  /* what OPT_STRING borrows */
	size_t n_texts, cap;
	/* Of each option that was taken from the file; 0: it was not */
	size_t line[CONFIG_OPTIONS_MAX];
};

/*
 * Set the options that are not in `given` (struct opt_args): the command line has the last word.
 * -EINVAL: the text is "FILE:LINE: KEY: what is wrong". cfg is to be released either way, after
 * `out`.
 */
int config_read(struct config_file *cfg, const char *path, const struct opt_command *cmd,
		opt_mask given, void *out, struct err *err);
void config_fini(struct config_file *cfg);

/* err is about the value of an option: say so, and where it stands. */
void config_blame(const struct config_file *cfg, const struct opt_command *cmd, const char *key,
		  struct err *err);

#endif
