/* SPDX-License-Identifier: Apache-2.0 */
#include "top/screen.h"

#include "terminal.h"

#include <curses.h>
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <term.h>
#include <termios.h>
#include <unistd.h>

#define BUILT_IN "xterm-256color"

static const int crashes[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT };

/*
 * What a crash needs to put the terminal back: made before, since nothing but write() and
 * tcsetattr() is safe then.
 */
static struct {
	struct termios modes;
	char text[256];
	size_t len;
	volatile sig_atomic_t armed;
} rescue;

static void put_back(void)
{
	if (!rescue.armed)
		return;
	rescue.armed = 0;
	tcsetattr(STDIN_FILENO, TCSANOW, &rescue.modes);
	if (write(STDOUT_FILENO, rescue.text, rescue.len) < 0)
		return;
}

/* Of any thread. The default action follows. */
static void on_crash(int sig)
{
	put_back();
	signal(sig, SIG_DFL);
	raise(sig);
}

static void add_text(const char *capability)
{
	const char *s = tigetstr((char *)capability);
	if (!s || s == (char *)-1)
		return;
	size_t len = strcspn(s, "$"); /* without padding, which takes time */
	if (rescue.len + len < sizeof(rescue.text)) {
		memcpy(rescue.text + rescue.len, s, len);
		rescue.len += len;
	}
}

static void arm(void)
{
	static const char *const back[] = { "sgr0", "op", "rmkx", "cnorm", "rmcup" };
	struct sigaction a = { .sa_handler = on_crash, .sa_flags = (int)SA_RESETHAND };
	rescue.len = 0;
	for (size_t i = 0; i < sizeof(back) / sizeof(back[0]); i++)
		add_text(back[i]);
	rescue.armed = 1;
	for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
		sigaction(crashes[i], &a, NULL);
	atexit(put_back);
}

static void make_colors(void)
{
	start_color();
	use_default_colors();
	init_pair(STYLE_BAR, COLOR_BLACK, COLOR_CYAN);
	init_pair(STYLE_MARK, COLOR_BLACK, COLOR_WHITE);
	init_pair(STYLE_HOT, COLOR_RED, -1);
	init_pair(STYLE_WARM, COLOR_YELLOW, -1);
	init_pair(STYLE_GOOD, COLOR_GREEN, -1);
	init_pair(STYLE_KEY, COLOR_CYAN, -1);
	init_pair(STYLE_WARN, COLOR_YELLOW, -1);
}

/*
 * Use the built-in description of xterm-256color (TOP_TERMINFO, from infocmp) where the host has
 * none of its terminal, as an empty root. Terminals of these names understand it.
 */
static bool use_built_in(const char *term)
{
	static const char *const alike[] = { "xterm", "screen", "tmux",	     "rxvt",
					     "vte",   "foot",	"alacritty", "konsole" };
	bool is_alike = false;
	int rc;
	for (size_t i = 0; term && i < sizeof(alike) / sizeof(alike[0]); i++)
		is_alike |= !strncmp(term, alike[i], strlen(alike[i]));
	return is_alike && !setenv("TERMINFO", TOP_TERMINFO, 1) &&
	       setupterm(BUILT_IN, STDOUT_FILENO, &rc) != ERR;
}

int screen_open(struct screen *s, bool color, struct err *err)
{
	const char *term = getenv("TERM"), *name = NULL;
	int rc;
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return err_set(err, -ENOTTY, "this is no terminal: use --once, or --once --json");
	tcgetattr(STDIN_FILENO, &rescue.modes);
	setlocale(LC_CTYPE, "");
	if (setupterm(NULL, STDOUT_FILENO, &rc) == ERR) {
		if (use_built_in(term))
			name = BUILT_IN;
		else
			return err_set(err, -EOPNOTSUPP,
				       "the terminal '%s' (TERM) is not known here: use --once",
				       term ? term : "");
	}
	const char *place = tigetstr((char *)"cup");
	if (!place || place == (char *)-1)
		return err_set(
			err, -EOPNOTSUPP,
			"a terminal of the kind '%s' (TERM) cannot place its cursor: use --once",
			term ? term : "");
	if (!newterm(name, stdout, stdin))
		return err_set(err, -EOPNOTSUPP,
			       "the terminal '%s' (TERM) cannot be used: use --once",
			       term ? term : "");
	arm();
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(50);
	curs_set(0);
	s->utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
	s->color = color && has_colors();
	if (s->color)
		make_colors();
	return 0;
}

void screen_close(struct screen *s)
{
	(void)s;
	if (!rescue.armed)
		return;
	endwin();
	rescue.armed = 0;
}

unsigned long screen_style(const struct screen *s, enum screen_style style)
{
	static const attr_t plain[N_STYLES] = {
		[STYLE_BAR] = A_REVERSE, [STYLE_MARK] = A_REVERSE, [STYLE_HOT] = A_BOLD,
		[STYLE_DIM] = A_DIM,	 [STYLE_KEY] = A_BOLD,	   [STYLE_WARN] = A_BOLD
	};
	if (!s->color || style == STYLE_PLAIN || style == STYLE_DIM)
		return plain[style];
	return COLOR_PAIR(style) | (style == STYLE_HOT || style == STYLE_WARN ? A_BOLD : 0);
}
