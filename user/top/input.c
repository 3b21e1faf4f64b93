/* SPDX-License-Identifier: Apache-2.0 */
/* What the keys of ascribe top do. */
#include "top/ui.h"

#include <curses.h>
#include <stdlib.h>
#include <string.h>

#define ESCAPE 27
#define CTRL(c) ((c) & 0x1f)
#define SECOND 1000000000ll

const struct opt_note top_help[] = {
	{ "Up Down j k", "move; PgUp PgDn Home End by pages and to the ends" },
	{ "Enter", "go into a value: its functions; into a function: its callers" },
	{ "Esc Backspace", "back" },
	{ "f", "by function" },
	{ "l", "by a label key, chosen from a list" },
	{ "c", "in a tree: callees instead of callers, and back" },
	{ "+ - Left Right", "in a tree: open, close a branch" },
	{ "/", "only rows whose name or module has a text" },
	{ "s", "sort by the next column; r turns the order" },
	{ "t", "show a longer time: 2 s, 10 s, 1 min, 5 min; T a shorter one" },
	{ "space", "freeze what is shown; recording goes on" },
	{ "n", "names in full, without marks of clones, simple" },
	{ "i", "idle CPUs and idle waits too, or not" },
	{ "? h", "this page" },
	{ "q Ctrl-C", "quit" },
	{ NULL, NULL },
};

static void say(struct top_ui *ui, const char *text)
{
	snprintf(ui->message, sizeof(ui->message), "%s", text);
}

static void freeze(struct top_ui *ui)
{
	struct top_view *v = &ui->view;
	v->frozen_ns = v->frozen_ns || !v->store ? 0 : v->head.to_ns;
	ui->stale |= !v->frozen_ns;
}

static void change_span(struct top_ui *ui, int step)
{
	static const int64_t spans[] = { 2, 10, 60, 300, 3600, 86400 };
	int64_t now = ui->view.span_ns, best = now;
	for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++) {
		int64_t s = spans[i] * SECOND;
		bool further = step > 0 ? s > now && (best == now || s < best)
					: s < now && (best == now || s > best);
		if (further && s <= ui->span_max_ns && s >= ui->interval_s * SECOND)
			best = s;
	}
	ui->stale |= best != now;
	ui->view.span_ns = best;
}

/* What is chosen stays chosen. */
void top_list_keys(struct top_ui *ui)
{
	struct top_keys fresh = { 0 };
	struct err err = { 0 };
	const struct top_key *now = top_choice(ui, ui->key_at);
	char *chosen = now ? strdup(now->key) : NULL;
	if (view_keys(&ui->view, &fresh, &err)) {
		view_keys_fini(&fresh);
		say(ui, err.text);
	} else {
		view_keys_fini(&ui->keys);
		ui->keys = fresh;
	}
	for (size_t i = 0; chosen && (now = top_choice(ui, i)); i++)
		if (!strcmp(now->key, chosen))
			ui->key_at = i;
	free(chosen);
}

static void choose_key(struct top_ui *ui)
{
	view_keys_fini(&ui->keys);
	ui->input[0] = 0;
	ui->key_at = 0;
	top_list_keys(ui);
	if (ui->keys.n)
		ui->mode = TOP_CHOOSE;
}

static void enter(struct top_ui *ui)
{
	struct top_view *v = &ui->view;
	struct top_level *l = view_level(v);
	if (l->at >= v->n_rows)
		return;
	if (l->kind == TOP_CALLERS || l->kind == TOP_CALLEES)
		view_open(v, l->at, !v->rows[l->at].open);
	else if (view_enter(v, l->at))
		ui->stale = true;
	else
		say(ui, "this is as far as it goes");
}

static void leave(struct top_ui *ui)
{
	struct top_level *l = view_level(&ui->view);
	if (l->filter[0]) {
		l->filter[0] = 0;
		view_arrange(&ui->view);
	} else if (view_leave(&ui->view)) {
		ui->stale = true;
	}
}

static void regroup(struct top_ui *ui, const char *key)
{
	if (view_regroup(&ui->view, key))
		say(ui, "out of memory");
	ui->stale = true;
}

static void branch(struct top_ui *ui, bool open)
{
	view_open(&ui->view, view_level(&ui->view)->at, open);
}

static void step(struct top_ui *ui, long by)
{
	view_mark(&ui->view, (long)view_level(&ui->view)->at + by);
}

static void on_rows(struct top_ui *ui, int key)
{
	struct top_view *v = &ui->view;
	long page = (long)top_page(ui);
	switch (key) {
	case KEY_UP:
	case 'k':
	case CTRL('p'):
		step(ui, -1);
		break;
	case KEY_DOWN:
	case 'j':
	case CTRL('n'):
		step(ui, 1);
		break;
	case KEY_PPAGE:
	case CTRL('b'):
		step(ui, -page);
		break;
	case KEY_NPAGE:
	case CTRL('f'):
		step(ui, page);
		break;
	case KEY_HOME:
	case 'g':
		view_mark(v, 0);
		break;
	case KEY_END:
	case 'G':
		view_mark(v, (long)v->n_rows);
		break;
	case KEY_ENTER:
	case '\r':
	case '\n':
		enter(ui);
		break;
	case ESCAPE:
	case KEY_BACKSPACE:
	case 127:
	case CTRL('h'):
		leave(ui);
		break;
	case KEY_LEFT:
	case '-':
		branch(ui, false);
		break;
	case KEY_RIGHT:
	case '+':
	case '=':
		branch(ui, true);
		break;
	case 'f':
		regroup(ui, NULL);
		break;
	case 'l':
		choose_key(ui);
		break;
	case 'c':
		ui->stale |= view_turn(v);
		break;
	case 's':
		view_sort_next(v);
		view_arrange(v);
		break;
	case 'r':
		view_level(v)->reverse ^= true;
		view_arrange(v);
		break;
	case 't':
		change_span(ui, 1);
		break;
	case 'T':
		change_span(ui, -1);
		break;
	case 'n':
		v->names = (v->names + 1) % 3;
		ui->stale = true;
		break;
	case 'i':
		v->idle ^= true;
		ui->stale = true;
		break;
	case ' ':
		freeze(ui);
		break;
	case '/':
		ui->mode = TOP_FILTER;
		strcpy(ui->before, view_level(v)->filter);
		break;
	case '?':
	case 'h':
	case KEY_F(1):
		ui->mode = TOP_HELP;
		break;
	case 'q':
	case KEY_F(10):
		ui->quit = true;
		break;
	default:
		break;
	}
}

/* A line that is typed: true when it has changed. */
static bool edit(char *text, size_t cap, int key)
{
	size_t len = strlen(text);
	if (key == KEY_BACKSPACE || key == 127 || key == CTRL('h')) {
		while (len && (text[--len] & 0xc0) == 0x80)
			;
		text[len] = 0;
		return true;
	}
	if (key == CTRL('u')) {
		text[0] = 0;
		return true;
	}
	if (key < 0x20 || key > 0xff || key == 127 || len + 1 >= cap)
		return false;
	text[len] = (char)key;
	text[len + 1] = 0;
	return true;
}

static void on_filter(struct top_ui *ui, int key)
{
	struct top_level *l = view_level(&ui->view);
	if (key == ESCAPE)
		strcpy(l->filter, ui->before);
	if (key == ESCAPE || key == '\r' || key == '\n' || key == KEY_ENTER)
		ui->mode = TOP_ROWS;
	else if (!edit(l->filter, sizeof(l->filter), key))
		return;
	view_arrange(&ui->view);
}

static void on_choose(struct top_ui *ui, int key)
{
	const struct top_key *k = top_choice(ui, ui->key_at);
	if (key == KEY_UP && ui->key_at)
		ui->key_at--;
	else if (key == KEY_DOWN && top_choice(ui, ui->key_at + 1))
		ui->key_at++;
	else if (key == ESCAPE)
		ui->mode = TOP_ROWS;
	else if ((key == '\r' || key == '\n' || key == KEY_ENTER) && k) {
		regroup(ui, k->key);
		ui->mode = TOP_ROWS;
	} else if (edit(ui->input, sizeof(ui->input), key))
		ui->key_at = 0;
}

const struct top_key *top_choice(const struct top_ui *ui, size_t i)
{
	for (size_t k = 0; k < ui->keys.n; k++)
		if (strcasestr(ui->keys.v[k].key, ui->input) && !i--)
			return &ui->keys.v[k];
	return NULL;
}

void top_key(struct top_ui *ui, int key)
{
	ui->message[0] = 0;
	if (key == CTRL('l')) {
		clearok(curscr, TRUE);
		return;
	}
	switch (ui->mode) {
	case TOP_ROWS:
		on_rows(ui, key);
		break;
	case TOP_FILTER:
		on_filter(ui, key);
		break;
	case TOP_CHOOSE:
		on_choose(ui, key);
		break;
	case TOP_HELP:
		ui->mode = TOP_ROWS;
		break;
	}
}
