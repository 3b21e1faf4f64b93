/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/man.h"

#include <ctype.h>
#include <string.h>

/* Text for roff: nothing of it may be taken for a request or an escape. */
static void put(const char *text, FILE *f)
{
	bool start = true;
	for (const char *p = text; *p; p++) {
		if (start && (*p == '.' || *p == '\''))
			fputs("\\&", f);
		start = *p == '\n';
		if (*p == '\\')
			fputs("\\e", f);
		else if (*p == '-')
			fputs("\\-", f);
		else
			putc(*p, f);
	}
}

static void put_option(const struct opt *o, FILE *f)
{
	if (!o->help)
		return;
	fputs(".TP\n", f);
	if (o->letter)
		fprintf(f, "\\fB\\-%c\\fR, ", o->letter);
	fputs("\\fB\\-\\-", f);
	put(o->name, f);
	fputs("\\fR", f);
	if (o->arg) {
		fputs(" \\fI", f);
		put(o->arg, f);
		fputs("\\fR", f);
	}
	putc('\n', f);
	put(o->help, f);
	putc('\n', f);
}

/* What a command may end with: the one list of them. */
static const struct opt_note exits[] = {
	{ "0", "Done." },
	{ "1",
	  "Something that was asked for was not done; standard error says what. check: this host cannot be recorded. store verify: damage was found." },
	{ "2", "The command line, or a selector in it, makes no sense; nothing was done." },
	{ "126, 127", "record \\-\\- COMMAND: the command cannot be run; it was not found." },
	{ "of COMMAND",
	  "record \\-\\- COMMAND passes the command\\(aqs own status through; 128 and the number of the signal that ended it." },
	{ "128+N",
	  "Ended by signal N: 130 by Ctrl\\-C, where that is no way to finish (record and top finish by it); 141 when whoever read the output "
	  "went away, which is no error and not spoken of." },
	{ NULL, NULL },
};

static void put_notes(const struct opt_note *n, bool roff, FILE *f)
{
	for (; n->term; n++) {
		fputs(".TP\n\\fB", f);
		put(n->term, f);
		fputs("\\fR\n", f);
		if (roff)
			fputs(n->text, f);
		else
			put(n->text, f);
		putc('\n', f);
	}
}

static void put_exits(FILE *f)
{
	fputs(".SH EXIT STATUS\n", f);
	put_notes(exits, true, f);
}

static void put_title(const char *command, const struct man_source *m, FILE *f)
{
	fputs(".TH ASCRIBE", f);
	if (command)
		putc('-', f);
	for (const char *p = command; p && *p; p++)
		putc(toupper((unsigned char)*p), f);
	fprintf(f, " 1 \"%s\" \"ascribe %s\" \"User Commands\"\n", m->date, m->version);
}

void man_command(const struct man_source *m, const struct opt_command *cmd, const char *summary,
		 FILE *f)
{
	put_title(cmd->name, m, f);
	fprintf(f, ".SH NAME\nascribe\\-%s \\- ", cmd->name);
	put(summary, f);
	fprintf(f, "\n.SH SYNOPSIS\n\\fBascribe %s\\fR ", cmd->name);
	put(cmd->usage, f);
	fputs("\n.SH DESCRIPTION\n", f);
	put(cmd->about, f);
	putc('\n', f);
	if (cmd->notes) {
		fputs(".SH ", f);
		for (const char *c = cmd->notes_title; *c; c++)
			putc(toupper((unsigned char)*c), f);
		putc('\n', f);
		put_notes(cmd->notes, false, f);
	}
	fputs(".SH OPTIONS\n", f);
	for (size_t i = 0; i < cmd->n_opts; i++)
		put_option(&cmd->opts[i], f);
	for (size_t i = 0; i < opt_common_n; i++)
		put_option(&opt_common_table[i], f);
	if (cmd->examples) {
		fputs(".SH EXAMPLES\n.nf\n", f);
		put(cmd->examples, f);
		fputs(".fi\n", f);
	}
	put_exits(f);
	fputs(".SH SEE ALSO\n\\fBascribe\\fR(1): selectors, times, environment, files\n", f);
}

static const char before[] =
	".SH NAME\n"
	"ascribe \\- a system-wide profiler that says for whom the CPU worked\n"
	".SH SYNOPSIS\n"
	"\\fBascribe\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n"
	".br\n"
	"\\fBascribe help\\fR [\\fICOMMAND\\fR]\n"
	".SH DESCRIPTION\n"
	"ascribe samples every CPU of a Linux host from BPF and stores, for each sample, the stack and the labels\n"
	"(tenant, query, trace, ...) of the work that the thread was doing at that instant, read from the thread's\n"
	"own memory. The other commands answer who used the CPU, and in which code. Data goes to standard output,\n"
	"messages and the accounting to standard error.\n"
	".SH COMMANDS\n";

static const char after[] =
	".SH SELECTORS\n"
	"A selector is a list of matchers, as in Prometheus: \\fB{tenant=\"a\",query_id=~\"4.*\",comm!=\"sh\"}\\fR.\n"
	"The operators are = != =~ !~; regular expressions match the whole value; all matchers must hold; a label\n"
	"that is missing counts as the empty text. Integers are compared as decimal text.\n"
	".SH TIMES\n"
	"A time is RFC 3339 (2026\\-05\\-01T10:00:00Z, with an offset, or local time without a zone), epoch\n"
	"seconds, \\fBnow\\fR, or \\fBnow\\-1h\\fR. A duration is a number with a unit: ns us ms s m h d w; parts\n"
	"may be joined (1h30m).\n"
	".SH ACCOUNTING\n"
	"Every sample that fired was stored or is counted as lost under a name: fired = stored + each loss,\n"
	"exactly; \\fBascribe stat\\fR prints them. A share comes with its 95% interval (Wilson score): with few\n"
	"samples it is wide.\n"
	".SH SERIES\n"
	"\\fBreport \\-\\-step\\fR counts a window in the step in which it begins; steps lie on multiples of the step since\n"
	"1970 and are multiples of 10 s. The step and the range that were used are printed. A blank, or a missing point,\n"
	"is a time in which nothing was recorded.\n"
	".SH DIFFERENCES\n"
	"\\fBdiff\\fR tests each row: shares by Fisher's exact test, amounts per time (\\fB\\-\\-absolute\\fR) by the exact\n"
	"binomial test, both by the normal distribution where all expected counts are 10,000 and more. Q is the p\\-value\n"
	"adjusted for the number of rows (Benjamini and Hochberg); below 0.05 a row is \\fBmore\\fR or \\fBless\\fR, else \\fBnoise\\fR.\n"
	"Samples are taken as independent: bursts make changes look surer than they are.\n"
	".SH JSON\n"
	"Every command that reads a store prints one object with \\fB\\-\\-json\\fR; its members are described in\n"
	"\\fIdocs/json.md\\fR: report has rows, report \\-\\-step has series with points [time, samples], labels has keys or\n"
	"values, diff has rows with pairs [A, B]. Every one has fired, stored and lost.\n"
	".SH FILES\n"
	"\\fI./ascribe.data\\fR: the store, a directory, when none is named.\n"
	".SH ENVIRONMENT\n"
	".TP\n\\fBNO_COLOR\\fR\nNot empty: no colour, unless \\fB\\-\\-color=always\\fR asks for it.\n"
	".TP\n\\fBASCRIBE_PAGER\\fR, \\fBPAGER\\fR\nThe pager for what is longer than the screen, run by sh; empty or cat: none (default: less \\-FRX).\n"
	".TP\n\\fBTERM\\fR\ndumb: no colour, no pager, no line that is written over.\n"
	".TP\n\\fBDEBUGINFOD_URLS\\fR\nRead by \\fBrecord \\-\\-debuginfod env\\fR alone.\n"
	".SH OVERHEAD\n"
	"The cost is the sampling rate times the cost of a sample, on every CPU; \\fBascribe stat\\fR prints what\n"
	"the recorder itself used.\n"
	".SH SEE ALSO\n"
	"\\fBperf\\fR(1)\n";

void man_begin(const struct man_source *m, FILE *f)
{
	put_title(NULL, m, f);
	fputs(before, f);
}

void man_entry(const char *name, const char *summary, FILE *f)
{
	fprintf(f, ".TP\n\\fBascribe\\-%s\\fR(1)\n", name);
	put(summary, f);
	putc('\n', f);
}

void man_end(FILE *f)
{
	put_exits(f);
	fputs(after, f);
}

#define LINE_MAX_COLUMNS 78

/*
 * Where a line of text may go on in the next one: behind a space, and nothing there that roff takes
 * for a request.
 */
static size_t break_at(const char *line, size_t len)
{
	size_t best = 0;
	for (size_t i = 1; i + 1 < len && (i < LINE_MAX_COLUMNS || !best); i++)
		if (line[i] == ' ' && line[i - 1] != '\\' && !strchr(" .'", line[i + 1]))
			best = i;
	return best;
}

void man_put(const char *page, FILE *f)
{
	bool as_it_is = false;
	for (size_t len; *page; page += len + (page[len] == '\n')) {
		len = strcspn(page, "\n");
		as_it_is = !strncmp(page, ".nf", 3) || (as_it_is && strncmp(page, ".fi", 3) != 0);
		while (len > LINE_MAX_COLUMNS && !as_it_is && *page != '.') {
			size_t at = break_at(page, len);
			if (!at)
				break;
			fprintf(f, "%.*s\n", (int)at, page);
			page += at + 1;
			len -= at + 1;
		}
		fprintf(f, "%.*s\n", (int)len, page);
	}
}
