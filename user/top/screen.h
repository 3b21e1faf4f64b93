/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The terminal as a screen, and back: whatever ends the process but SIGKILL, the terminal is left
 * as it was found. Signals that ask to end are not taken here: they are blocked, and come as a
 * descriptor.
 */
#ifndef ASCRIBE_TOP_SCREEN_H
#define ASCRIBE_TOP_SCREEN_H

#include "util/err.h"

#include <stdbool.h>

struct screen {
	bool color, utf8;
};

enum screen_style { /* color pairs, with what stands for them where there is no colour */
		    STYLE_PLAIN,
		    STYLE_BAR,	/* the line of column names */
		    STYLE_MARK, /* the cursor's row */
		    STYLE_HOT,
		    STYLE_WARM,
		    STYLE_GOOD,
		    STYLE_DIM,
		    STYLE_KEY, /* a key to press */
		    STYLE_WARN,
		    N_STYLES,
};

/* -ENOTTY: no terminal; -EOPNOTSUPP: one that cannot place the cursor. */
int screen_open(struct screen *s, bool color, struct err *err);
void screen_close(struct screen *s);

/* For attrset(). */
unsigned long screen_style(const struct screen *s, enum screen_style style);

#endif
