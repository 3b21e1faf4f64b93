/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The screen of ascribe top: three lines that say what is shown and what it is worth, names of
 * columns, rows, and what keys do. All text that others chose goes through cells_fit.
 */
#include "proc/proc.h"
#include "top/cells.h"
#include "top/numbers.h"
#include "top/ui.h"

#include <curses.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HEAD_LINES 3
#define NAME_ROOM 4096
#define NAME_LEAST 16 /* columns: numbers give way to names */
#define MODULE_MOST 28
#define BAR_CELLS 10

/* ---- cells ---- */

static void style(const struct top_ui *ui, enum screen_style s)
{
	attrset((attr_t)screen_style(&ui->screen, s));
}

/* At most width columns at the place of the cursor; returns how many. */
static int put(const struct top_ui *ui, const char *text, int width)
{
	char out[NAME_ROOM];
	if (width <= 0)
		return 0;
	size_t n = cells_fit(out, sizeof(out), text, (size_t)width, ui->screen.utf8);
	addstr(out);
	return (int)n;
}

/* Never the last column: behind it the cursor is on the next line. */
static int left(void)
{
	return COLS - 1 - getcurx(stdscr);
}

static void say(const struct top_ui *ui, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static void say(const struct top_ui *ui, const char *fmt, ...)
{
	char text[NAME_ROOM];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	put(ui, text, left());
}

static void begin_line(const struct top_ui *ui, int y, enum screen_style s)
{
	move(y, 0);
	style(ui, s);
	if (s == STYLE_BAR || s == STYLE_MARK)
		hline(' ' | (chtype)screen_style(&ui->screen, s), COLS);
	else
		clrtoeol();
}

/* A part of a line that is only there when it fits. */
static void part(const struct top_ui *ui, enum screen_style s, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void part(const struct top_ui *ui, enum screen_style s, const char *fmt, ...)
{
	char text[256];
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n > left())
		return;
	style(ui, s);
	addstr(text);
	style(ui, STYLE_PLAIN);
}

static double percent(uint64_t of, uint64_t all)
{
	return all ? 100.0 * (double)of / (double)all : 0;
}

static void bar(const struct top_ui *ui, double share, int cells)
{
	static const char *const eighths[] = { " ",
					       "\xe2\x96\x8f",
					       "\xe2\x96\x8e",
					       "\xe2\x96\x8d",
					       "\xe2\x96\x8c",
					       "\xe2\x96\x8b",
					       "\xe2\x96\x8a",
					       "\xe2\x96\x89",
					       "\xe2\x96\x88" };
	int filled = (int)(share * cells * 8 + 0.5);
	for (int i = 0; i < cells; i++, filled -= 8) {
		int n = filled < 0 ? 0 : filled > 8 ? 8 : filled;
		addstr(ui->screen.utf8 ? eighths[n] : n >= 4 ? "|" : " ");
	}
}

/* ---- the head ---- */

static void span_text(int64_t ns, char out[16])
{
	long s = (long)(ns / 1000000000);
	snprintf(out, 16,
		 s >= 3600 && s % 3600 == 0 ? "%ld h"
		 : s >= 60 && s % 60 == 0   ? "%ld min"
					    : "%ld s",
		 s >= 3600 && s % 3600 == 0 ? s / 3600
		 : s >= 60 && s % 60 == 0   ? s / 60
					    : s);
}

static void title_line(const struct top_ui *ui)
{
	const struct top_view *v = &ui->view;
	const struct top_head *h = &v->head;
	char span[16], clock[16] = "";
	time_t t = (time_t)(h->to_ns / 1000000000);
	struct tm tm;
	span_text(v->span_ns, span);
	begin_line(ui, 0, STYLE_PLAIN);
	attron(A_BOLD);
	addstr("ascribe top");
	style(ui, STYLE_PLAIN);
	say(ui, "  %s", h->event && v->store ? h->event : "");
	if (ui->live)
		part(ui, STYLE_PLAIN, " %u Hz", ui->hz);
	part(ui, STYLE_PLAIN, "  last %s", span);
	if (v->frozen_ns)
		part(ui, STYLE_WARN, "  FROZEN");
	if (v->idle)
		part(ui, STYLE_WARN, "  with idle");
	if (v->names)
		part(ui, STYLE_PLAIN, "  names %s",
		     v->names == QUERY_NAMES_FOLDED ? "folded" : "simple");
	if (ui->live) {
		uint64_t s = (proc_now_ns() - ui->started_ns) / 1000000000;
		part(ui, STYLE_DIM, "  up %" PRIu64 ":%02" PRIu64 ":%02" PRIu64, s / 3600,
		     s / 60 % 60, s % 60);
		part(ui, STYLE_DIM, "  %" PRIu64 " processes", ui->processes);
	}
	if (!v->store || !localtime_r(&t, &tm) ||
	    !strftime(clock, sizeof(clock), "%H:%M:%S", &tm) || left() < 10)
		return;
	move(0, COLS - 8);
	addstr(clock);
}

/* Else it stands in the third line, before the way. */
static bool own_fits(void)
{
	return COLS >= 120;
}

static void cpu_line(const struct top_ui *ui)
{
	const struct top_head *h = &ui->view.head;
	begin_line(ui, 1, STYLE_PLAIN);
	if (!ui->view.store)
		return;
	char rate[2 * NUMBER_MAX];
	const double share = h->unit == TOP_CPUS ? h->busy / h->n_cpus : 0;
	const enum screen_style heat = share > 0.9	     ? STYLE_HOT
				       : share > 0.5	     ? STYLE_WARM
				       : h->unit == TOP_CPUS ? STYLE_GOOD
							     : STYLE_PLAIN;
	part(ui, heat, "%s ", numbers_all(h, rate));
	if (h->unit == TOP_CPUS && left() > 70) {
		addstr("[");
		style(ui, heat);
		bar(ui, share, BAR_CELLS);
		style(ui, STYLE_PLAIN);
		addstr("]");
	}
	part(ui, STYLE_PLAIN, " %s %s", numbers_samples(h, h->samples, rate),
	     h->amounts ? h->unit == TOP_TIME || h->unit == TOP_CPUS ? "s" : "" : "samples");
	part(ui, h->lost ? STYLE_WARN : STYLE_PLAIN, "  lost %" PRIu64 " (%.2f%%)", h->lost,
	     percent(h->lost, h->fired));
	part(ui, STYLE_PLAIN, "  unlabelled %.1f%%", percent(h->unlabelled, h->sampled));
	part(ui, STYLE_PLAIN, "  truncated %.1f%%", percent(h->truncated, h->sampled));
	if (own_fits())
		part(ui, STYLE_DIM, "  own %.2f%% CPU, %.0f MiB", 100 * h->own_cpu,
		     (double)h->own_rss / 1048576);
}

static void way_line(const struct top_ui *ui)
{
	const struct top_view *v = &ui->view;
	const struct top_head *h = &v->head;
	begin_line(ui, 2, STYLE_PLAIN);
	if (v->store && !own_fits())
		part(ui, STYLE_DIM, "own %.2f%% CPU, %.0f MiB  ", 100 * h->own_cpu,
		     (double)h->own_rss / 1048576);
	if (v->level[0].where)
		say(ui, "%s", v->level[0].where);
	for (size_t i = 1; i < v->n_levels; i++) {
		style(ui, STYLE_DIM);
		say(ui, "%s", i > 1 || v->level[0].where ? " > " : "> ");
		style(ui, i + 1 == v->n_levels ? STYLE_KEY : STYLE_PLAIN);
		say(ui, "%s", v->level[i].title);
		style(ui, STYLE_PLAIN);
	}
}

/* ---- columns ---- */

enum column { C_RATE, C_INTERVAL, C_TOTAL, C_SHARE, C_SAMPLES, C_BAR, N_COLUMNS };

static const int widths[N_COLUMNS] = { 7, 14, 8, 8, 9, BAR_CELLS + 2 };
static const int byte_widths[N_COLUMNS] = { 10, 19, 10, 8, 10, BAR_CELLS + 2 };

static const int *widths_of(const struct top_ui *ui)
{
	return ui->view.head.unit == TOP_BYTES ? byte_widths : widths;
}

/* In the order in which they give way. */
static const enum column giving_way[] = { C_BAR, C_INTERVAL, C_SAMPLES, C_TOTAL, C_SHARE };

static bool is_tree(const struct top_level *l)
{
	return l->kind == TOP_CALLERS || l->kind == TOP_CALLEES;
}

static bool belongs(const struct top_level *l, enum column c)
{
	switch (c) {
	case C_TOTAL:
		return l->kind == TOP_FUNCTION;
	case C_SHARE:
		return l->kind != TOP_FUNCTION;
	case C_BAR:
		return l->kind == TOP_KEY;
	default:
		return true;
	}
}

struct columns {
	const int *width;
	bool has[N_COLUMNS];
	int name, module; /* their widths */
};

static struct columns lay_out(const struct top_ui *ui)
{
	const struct top_level *l = &ui->view.level[ui->view.n_levels - 1];
	struct columns c = { .name = COLS - 1, .width = widths_of(ui) };
	for (int i = 0; i < N_COLUMNS; i++) {
		c.has[i] = belongs(l, i);
		c.name -= c.has[i] ? c.width[i] : 0;
	}
	int least = l->kind == TOP_KEY ? NAME_LEAST : 2 * NAME_LEAST;
	for (size_t i = 0; i < sizeof(giving_way) / sizeof(giving_way[0]) && c.name < least; i++) {
		if (!c.has[giving_way[i]])
			continue;
		c.has[giving_way[i]] = false;
		c.name += c.width[giving_way[i]];
	}
	c.module = l->kind == TOP_KEY || c.name < 40 ? 0
		   : c.name / 3 < MODULE_MOST	     ? c.name / 3
						     : MODULE_MOST;
	c.name -= c.module ? c.module + 1 : 0;
	return c;
}

static void heading(const struct top_ui *ui, const char *text, int width, bool sorted, bool reverse)
{
	char out[64];
	snprintf(out, sizeof(out), "%s%s", text,
		 !sorted	   ? ""
		 : ui->screen.utf8 ? reverse ? "\xe2\x96\xb2" : "\xe2\x96\xbc"
		 : reverse	   ? "^"
				   : "v");
	int n = (int)cells_width(out, ui->screen.utf8);
	move(HEAD_LINES, getcurx(stdscr) + (width - 1 > n ? width - 1 - n : 0));
	addstr(out);
	addstr(" ");
}

static void name_heading(const struct top_ui *ui, const struct columns *c)
{
	const struct top_view *v = &ui->view;
	const struct top_level *l = &v->level[v->n_levels - 1];
	char text[300];
	const char *name = l->kind == TOP_KEY	     ? l->key
			   : l->kind == TOP_FUNCTION ? "FUNCTION"
			   : l->kind == TOP_CALLERS  ? "CALLERS OF IT"
						     : "WHAT IT CALLS";
	const char *sorted = l->sort != TOP_BY_NAME || is_tree(l) ? ""
			     : ui->screen.utf8			  ? "\xe2\x96\xbc"
								  : "v";
	int x = getcurx(stdscr);
	if (l->filter[0] || ui->mode == TOP_FILTER)
		snprintf(text, sizeof(text), "%s%s  /%s: %zu of %" PRIu64, name, sorted, l->filter,
			 v->n_rows, v->head.matching);
	else
		snprintf(text, sizeof(text), "%s%s  %zu", name, sorted, v->n_rows);
	put(ui, text, c->name);
	if (!c->module)
		return;
	move(HEAD_LINES, x + c->name + 1);
	put(ui, l->sort == TOP_BY_MODULE && !is_tree(l) ? "MODULE*" : "MODULE", c->module);
}

static void headings(const struct top_ui *ui, const struct columns *c)
{
	const struct top_level *l = &ui->view.level[ui->view.n_levels - 1];
	const struct top_head *h = &ui->view.head;
	bool sorted = !is_tree(l) && l->sort == TOP_BY_SELF;
	begin_line(ui, HEAD_LINES, STYLE_BAR);
	move(HEAD_LINES, 0);
	heading(ui, numbers_rate_head(h), c->width[C_RATE], sorted, l->reverse);
	if (c->has[C_INTERVAL])
		heading(ui, "95%", c->width[C_INTERVAL], false, false);
	if (c->has[C_TOTAL])
		heading(ui, numbers_total_head(h), c->width[C_TOTAL], l->sort == TOP_BY_TOTAL,
			l->reverse);
	if (c->has[C_SHARE])
		heading(ui, "SHARE", c->width[C_SHARE], false, false);
	if (c->has[C_SAMPLES])
		heading(ui, numbers_samples_head(h), c->width[C_SAMPLES], false, false);
	if (c->has[C_BAR])
		move(HEAD_LINES, getcurx(stdscr) + c->width[C_BAR]);
	name_heading(ui, c);
}

/* ---- rows ---- */

static enum screen_style heat(double rate, double all)
{
	double share = all > 0 ? rate / all : 0;
	return share >= 0.2	? STYLE_HOT
	       : share >= 0.05	? STYLE_WARM
	       : share >= 0.005 ? STYLE_PLAIN
				: STYLE_DIM;
}

static void numbers(const struct top_ui *ui, const struct top_row *r, const struct columns *c,
		    bool marked)
{
	const struct top_view *v = &ui->view;
	const struct top_level *l = &v->level[v->n_levels - 1];
	uint64_t n = view_row_samples(v, r),
		 of = is_tree(l) ? v->calls.v[0].samples : v->head.samples;
	double low, high, rate = view_rate(v, n);
	char text[NUMBER_MAX];
	if (!marked)
		style(ui, heat(rate, v->head.busy));
	printw("%*s ", c->width[C_RATE] - 1, numbers_rate(&v->head, rate, text));
	if (c->has[C_INTERVAL]) {
		view_interval(v, n, &low, &high);
		if (!marked)
			style(ui, STYLE_DIM);
		printw("%*s ", c->width[C_INTERVAL] - 1,
		       numbers_interval(&v->head, low, high, text));
	}
	if (!marked)
		style(ui, STYLE_PLAIN);
	if (c->has[C_TOTAL])
		printw("%*s ", c->width[C_TOTAL] - 1,
		       numbers_rate(&v->head, view_rate(v, r->samples), text));
	if (c->has[C_SHARE])
		printw("%*.1f%% ", c->width[C_SHARE] - 2, percent(n, of));
	if (c->has[C_SAMPLES])
		printw("%*s ", c->width[C_SAMPLES] - 1, numbers_samples(&v->head, n, text));
	if (c->has[C_BAR]) {
		if (!marked)
			style(ui, heat(rate, v->head.busy));
		bar(ui, of ? (double)n / (double)of : 0, BAR_CELLS);
		addstr("  ");
		if (!marked)
			style(ui, STYLE_PLAIN);
	}
}

/* The lines of a tree, from the left: which of the branches above go on below this row. */
static size_t tree_lines(const struct top_ui *ui, const struct top_row *r, char *out, size_t cap)
{
	const struct calls *c = &ui->view.calls;
	const char *on = ui->screen.utf8 ? "\xe2\x94\x82 " : "| ",
		   *last = ui->screen.utf8 ? "\xe2\x94\x94\xe2\x94\x80" : "`-",
		   *more = ui->screen.utf8 ? "\xe2\x94\x9c\xe2\x94\x80" : "|-";
	const char *part_of[256];
	size_t n = 0, at = 0;
	out[0] = 0;
	if (!r->node)
		return 0;
	for (uint32_t node = r->node; node && n < 256; node = c->v[node].parent) {
		const struct calls_node *x = &c->v[node];
		bool branch = c->v[c->v[x->parent].first_child].next_sibling, own = node == r->node;
		if (branch)
			part_of[n++] = own		 ? x->next_sibling ? more : last
				       : x->next_sibling ? on
							 : "  ";
	}
	while (n-- && at + 8 < cap)
		at = (size_t)(stpcpy(out + at, part_of[n]) - out);
	return cells_width(out, ui->screen.utf8);
}

static void name_cell(const struct top_ui *ui, const struct top_row *r, const struct columns *c,
		      bool marked)
{
	const struct top_view *v = &ui->view;
	const struct top_level *l = &v->level[v->n_levels - 1];
	char name[NAME_ROOM], lines[1024];
	int x = getcurx(stdscr), y = getcury(stdscr), room = c->name;
	if (is_tree(l)) {
		int n = (int)tree_lines(ui, r, lines, sizeof(lines));
		int most = room > 12 ? room - 10 : 2; /* a name is worth more than where it hangs */
		if (!marked)
			style(ui, STYLE_DIM);
		if (n > most)
			put(ui, lines, most);
		else
			addstr(lines);
		if (!marked)
			style(ui, r->has_children && !r->open ? STYLE_KEY : STYLE_PLAIN);
		addstr(r->has_children ? r->open ? "- " : "+ " : "  ");
		if (!marked)
			style(ui, STYLE_PLAIN);
		room = c->name - (getcurx(stdscr) - x);
	}
	if (r->missing && !marked)
		style(ui, STYLE_DIM);
	const char *text = r->missing ? "(none)" : view_row_text(v, r, name, sizeof(name));
	int n = put(ui, *text ? text : "\"\"", room);
	if (r->inlined && room - n > 10)
		addstr(" (inlined)");
	if (!c->module)
		return;
	const char *module = r->module ? r->module : "", *slash = strrchr(module, '/');
	move(y, x + c->name + 1);
	if (!marked)
		style(ui, STYLE_DIM);
	put(ui, slash ? slash + 1 : module, c->module);
}

size_t top_page(const struct top_ui *ui)
{
	(void)ui;
	return LINES > HEAD_LINES + 2 ? (size_t)(LINES - HEAD_LINES - 2) : 1;
}

static void rows(struct top_ui *ui, const struct columns *c)
{
	struct top_view *v = &ui->view;
	struct top_level *l = view_level(v);
	size_t page = top_page(ui);
	if (l->at < l->first)
		l->first = l->at;
	if (l->at >= l->first + page)
		l->first = l->at - page + 1;
	if (l->first && l->first + page > v->n_rows)
		l->first = v->n_rows > page ? v->n_rows - page : 0;
	for (size_t i = 0; i < page; i++) {
		int y = HEAD_LINES + 1 + (int)i;
		size_t row = l->first + i;
		bool marked = row == l->at && row < v->n_rows;
		if (y >= LINES)
			break;
		begin_line(ui, y, marked ? STYLE_MARK : STYLE_PLAIN);
		if (row >= v->n_rows)
			continue;
		move(y, 0);
		numbers(ui, &v->rows[row], c, marked);
		name_cell(ui, &v->rows[row], c, marked);
	}
	style(ui, STYLE_PLAIN);
	if (v->n_rows || LINES <= HEAD_LINES + 2)
		return;
	move(HEAD_LINES + 2, 0);
	say(ui, "%s",
	    !v->store	    ? "  waiting for the first samples ..."
	    : l->filter[0]  ? "  no row has this text; Esc shows all"
	    : v->head.fired ? "  no sample matches"
			    : "  nothing was sampled in this time");
}

/* ---- the last line, and what lies over the rows ---- */

static void keys_line(const struct top_ui *ui)
{
	static const struct {
		const char *key, *what;
	} keys[] = { { "f", "function" }, { "l", "label" },	 { "Enter", "into" },
		     { "Esc", "back" },	  { "/", "search" },	 { "s", "sort" },
		     { "t", "time" },	  { "space", "freeze" }, { "c", "callers/callees" },
		     { "?", "help" },	  { "q", "quit" } };
	const struct top_level *l = &ui->view.level[ui->view.n_levels - 1];
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (keys[i].key[0] == 'c' ? !is_tree(l)
					  : keys[i].key[0] == 's' && !keys[i].key[1] && is_tree(l))
			continue;
		if ((int)(strlen(keys[i].key) + strlen(keys[i].what) + 3) > left())
			break;
		style(ui, STYLE_KEY);
		printw("%s", keys[i].key);
		style(ui, STYLE_PLAIN);
		printw(" %s  ", keys[i].what);
	}
}

static void last_line(const struct top_ui *ui)
{
	begin_line(ui, LINES - 1, STYLE_PLAIN);
	if (ui->mode == TOP_FILTER) {
		say(ui, "/%s_", ui->view.level[ui->view.n_levels - 1].filter);
		part(ui, STYLE_DIM, "   Enter keeps it, Esc gives it up");
	} else if (ui->message[0]) {
		style(ui, STYLE_WARN);
		say(ui, "%s", ui->message);
	} else {
		keys_line(ui);
	}
	style(ui, STYLE_PLAIN);
}

static void help(const struct top_ui *ui)
{
	for (int y = HEAD_LINES + 1; y < LINES - 1; y++)
		begin_line(ui, y, STYLE_PLAIN);
	for (int i = 0; top_help[i].term && HEAD_LINES + 1 + i < LINES - 1; i++) {
		move(HEAD_LINES + 1 + i, 2);
		style(ui, STYLE_KEY);
		put(ui, top_help[i].term, COLS - 2);
		style(ui, STYLE_PLAIN);
		if (COLS > 40)
			move(HEAD_LINES + 1 + i, 20);
		say(ui, " %s", top_help[i].text);
	}
}

static void choices(const struct top_ui *ui)
{
	int y = HEAD_LINES + 1, page = LINES - HEAD_LINES - 3;
	size_t first = (int)ui->key_at >= page && page > 0 ? ui->key_at - (size_t)page + 1 : 0;
	begin_line(ui, y++, STYLE_PLAIN);
	say(ui, "  which label? %s_", ui->input);
	part(ui, STYLE_DIM, "   type to narrow, arrows, Enter");
	if (!top_choice(ui, 0) && y < LINES - 1) {
		begin_line(ui, y++, STYLE_PLAIN);
		say(ui, "    no sample that is shown has such a label");
	}
	for (size_t i = first; y < LINES - 1; i++, y++) {
		const struct top_key *k = top_choice(ui, i);
		begin_line(ui, y, k && i == ui->key_at ? STYLE_MARK : STYLE_PLAIN);
		if (!k)
			continue;
		move(y, 4);
		int n = put(ui, k->key, COLS > 50 ? 24 : COLS - 4);
		if (COLS > 50)
			printw("%*s%8" PRIu64 " value%s  %5.1f%% of samples", 24 - n, "", k->values,
			       k->values == 1 ? " " : "s", percent(k->samples, ui->keys.samples));
	}
	style(ui, STYLE_PLAIN);
}

void top_draw(struct top_ui *ui)
{
	erase();
	title_line(ui);
	if (LINES > 1)
		cpu_line(ui);
	if (LINES > 2)
		way_line(ui);
	if (LINES > HEAD_LINES) {
		struct columns c = lay_out(ui);
		headings(ui, &c);
		rows(ui, &c);
	}
	if (ui->mode == TOP_HELP)
		help(ui);
	if (ui->mode == TOP_CHOOSE)
		choices(ui);
	if (LINES > HEAD_LINES + 1)
		last_line(ui);
	refresh();
}
