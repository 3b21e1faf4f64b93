/* SPDX-License-Identifier: Apache-2.0 */
/* What a gate found, for CI servers (JUnit's XML) and for pull requests (Markdown). */
#include "cli/gate.h"
#include "opt/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* U+FFFE and U+FFFF, which XML does not allow (XML 1.0, 2.2). */
static bool is_no_character(const char *p)
{
	return !strncmp(p, "\xef\xbf\xbe", 3) || !strncmp(p, "\xef\xbf\xbf", 3);
}

/* Foreign bytes: hidden characters show as \xNN, which XML could not carry either. */
static void put_xml(const char *text)
{
	char *shown = text_printable(text, strlen(text));
	for (const char *p = shown; p && *p; p++) {
		if (is_no_character(p)) {
			putchar('?');
			p += 2;
			continue;
		}
		switch (*p) {
		case '<':
			fputs("&lt;", stdout);
			break;
		case '>':
			fputs("&gt;", stdout);
			break;
		case '&':
			fputs("&amp;", stdout);
			break;
		case '"':
			fputs("&quot;", stdout);
			break;
		default:
			putchar(*p);
		}
	}
	free(shown);
}

static void put_attribute(const char *name, const char *text)
{
	printf(" %s=\"", name);
	put_xml(text);
	putchar('"');
}

static size_t count_verdicts(const struct gate *g, enum gate_verdict verdict)
{
	size_t n = 0;
	for (size_t i = 0; i < g->n_results; i++)
		n += g->result[i].verdict == verdict;
	return n;
}

static void print_failure(const struct gate_result *r)
{
	const char *element = r->verdict == GATE_BROKEN ? "failure" : "error";
	printf("\n      <%s", element);
	put_attribute("message", r->n_lines ? r->line[0] : "");
	put_attribute("type", r->verdict == GATE_BROKEN ? "broken" : "unknown");
	putchar('>');
	for (size_t i = 0; i < r->n_lines; i++) {
		put_xml(r->line[i]);
		putchar('\n');
	}
	if (r->n_broken > r->n_lines && r->n_lines == GATE_LINES_MAX)
		printf("and %zu more\n", r->n_broken - r->n_lines);
	printf("</%s>\n    ", element);
}

void gate_print_junit(const struct gate *g, const struct gate_origin *o)
{
	char at[40];
	struct tm tm;
	time_t s = (time_t)(o->at_ns / 1000000000);
	strftime(at, sizeof(at), "%Y-%m-%dT%H:%M:%S", gmtime_r(&s, &tm));
	printf("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite");
	char name[64];
	snprintf(name, sizeof(name), "ascribe.%s", g->command);
	put_attribute("package", "ascribe");
	put_attribute("id", "0");
	put_attribute("name", name);
	put_attribute("timestamp", at);
	put_attribute("hostname", *o->host ? o->host : "unknown");
	printf(" tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" time=\"0\">\n    <properties/>\n",
	       g->n_results, count_verdicts(g, GATE_BROKEN), count_verdicts(g, GATE_UNKNOWN));
	for (size_t i = 0; i < g->n_results; i++) {
		const struct gate_result *r = &g->result[i];
		fputs("    <testcase", stdout);
		put_attribute("name", r->rule->text);
		put_attribute("classname", name);
		fputs(" time=\"0\">", stdout);
		if (r->verdict != GATE_HOLDS)
			print_failure(r);
		puts("</testcase>");
	}
	puts("    <system-out/>\n    <system-err/>\n  </testsuite>\n</testsuites>");
}

void markdown_cell(FILE *f, const char *text)
{
	char *shown = text_printable(text, strlen(text));
	for (const char *p = shown; p && *p; p++) {
		if (*p == '<' || *p == '>' || *p == '&')
			fputs(*p == '<' ? "&lt;" : *p == '>' ? "&gt;" : "&amp;", f);
		else if (ispunct((unsigned char)*p) && !strchr("%.,:;/()+='\"", *p))
			fprintf(f, "\\%c", *p);
		else if (*p == '\n')
			fputc(' ', f);
		else
			fputc(*p, f);
	}
	free(shown);
}

static void print_cell_of(const struct gate_result *r)
{
	for (size_t i = 0; i < r->n_lines; i++) {
		fputs(i ? "<br>" : "", stdout);
		markdown_cell(stdout, r->line[i]);
	}
	if (r->n_broken > r->n_lines && r->n_lines == GATE_LINES_MAX)
		printf("<br>and %zu more", r->n_broken - r->n_lines);
	if (r->verdict == GATE_HOLDS && r->n_unsure)
		printf("%zu over the limit, but not certainly", r->n_unsure);
}

void gate_print_markdown(const struct gate *g)
{
	static const char *const marks[] = {
		[GATE_HOLDS] = "holds", [GATE_BROKEN] = "**broken**", [GATE_UNKNOWN] = "**unknown**"
	};
	if (!g->n)
		return;
	printf("### ascribe %s: %s\n\n| rule | verdict | what |\n|---|---|---|\n", g->command,
	       gate_holds(g) ? "the gate holds" : "the gate does not hold");
	for (size_t i = 0; i < g->n_results; i++) {
		fputs("| ", stdout);
		markdown_cell(stdout, g->result[i].rule->text);
		printf(" | %s | ", marks[g->result[i].verdict]);
		print_cell_of(&g->result[i]);
		puts(" |");
	}
	putchar('\n');
}
