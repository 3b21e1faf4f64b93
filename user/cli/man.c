/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/man.h"

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

void man_command(const struct opt_command *cmd, FILE *f)
{
	fprintf(f, ".SS ascribe %s ", cmd->name);
	put(cmd->usage, f);
	putc('\n', f);
	put(cmd->about, f);
	for (size_t i = 0; i < cmd->n_opts; i++)
		put_option(&cmd->opts[i], f);
	if (!cmd->examples)
		return;
	fputs(".PP\nExamples:\n.PP\n.nf\n", f);
	put(cmd->examples, f);
	fputs(".fi\n", f);
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
	".SH EXIT STATUS\n"
	"0: done. 1: something that was asked for was not done. 2: the command line makes no sense. \\fBrecord\n"
	"\\-\\- COMMAND\\fR passes the command's status through.\n"
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
	".SH OVERHEAD\n"
	"The cost is the sampling rate times the cost of a sample, on every CPU; \\fBascribe stat\\fR prints what\n"
	"the recorder itself used.\n"
	".SH SEE ALSO\n"
	"\\fBperf\\fR(1)\n";

void man_begin(const char *version, FILE *f)
{
	fprintf(f, ".TH ASCRIBE 1 \"\" \"ascribe %s\" \"User Commands\"\n", version);
	fputs(before, f);
}

void man_end(FILE *f)
{
	fputs(after, f);
}
