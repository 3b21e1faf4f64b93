/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The screen of ascribe top: what is shown (view.h), how it is drawn (draw.c), what keys do
 * (input.c). cli/cmd_top.c records and runs the loop.
 */
#ifndef ASCRIBE_TOP_UI_H
#define ASCRIBE_TOP_UI_H

#include "opt/options.h"
#include "top/screen.h"
#include "top/view.h"

#include <stdio.h>

enum top_mode {
	TOP_ROWS,
	TOP_FILTER, /* what is searched for is being typed */
	TOP_CHOOSE, /* a label key is being chosen */
	TOP_HELP,
};

#define TOP_INPUT_MAX 100

struct top_ui {
	struct screen screen;
	struct top_view view;
	enum top_mode mode;
	bool quit;
	bool live; /* recording, not looking at somebody's store */
	unsigned hz, interval_s;
	uint64_t started_ns; /* BOOTTIME */
	uint64_t processes;
	bool stale; /* load again */
	int64_t span_max_ns;
	char message[500];	     /* in the last line, until the next key */
	char before[TOP_FILTER_MAX]; /* the filter that Esc brings back */
	struct top_keys keys;	     /* of TOP_CHOOSE */
	char input[TOP_INPUT_MAX];   /* narrows them */
	size_t key_at;
};

void top_draw(struct top_ui *ui);
/* Of TOP_CHOOSE: the i-th key that has the input in it, NULL: there are fewer. */
const struct top_key *top_choice(const struct top_ui *ui, size_t i);
/* Read the keys of TOP_CHOOSE (again). */
void top_list_keys(struct top_ui *ui);
/* How many rows fit. */
size_t top_page(const struct top_ui *ui);

void top_key(struct top_ui *ui, int key);

/*
 * The keys and what they do, for the help on the screen and the manual. The list ends with a NULL.
 */
extern const struct opt_note top_help[];

#endif
