/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/gate.h"

#include "cli/cmd.h"
#include "export/json.h"
#include "opt/term.h"
#include "opt/text.h"

#include <errno.h>
#include <string.h>

static const char *const verdicts[] = {
	[GATE_HOLDS] = "holds", [GATE_BROKEN] = "broken", [GATE_UNKNOWN] = "unknown"
};

static int choose_format(struct gate *g, const char *format, bool json)
{
	static const char *const names[] = { "text", "json", "junit", "markdown", NULL };
	g->format = json ? GATE_JSON : GATE_TEXT;
	if (!format)
		return EXIT_OK;
	for (int i = 0; names[i]; i++) {
		if (strcmp(names[i], format))
			continue;
		if (json && i != GATE_JSON) {
			cmd_error("%s: --json and --format %s exclude each other", g->command,
				  format);
			return EXIT_USAGE;
		}
		g->format = (enum gate_format)i;
		return EXIT_OK;
	}
	const char *near = opt_suggest(format, names);
	cmd_error("%s: --format: %s is none of text, json, junit, markdown%s%s%s", g->command,
		  format, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
	return EXIT_USAGE;
}

int gate_open(struct gate *g, const struct opt_list *rules, const char *format, bool json)
{
	int status = choose_format(g, format, json);
	if (!status && rules->n > GATE_RULES_MAX) {
		cmd_error("%s: %s: at most %d rules", g->command, g->option, GATE_RULES_MAX);
		status = EXIT_USAGE;
	}
	for (size_t i = 0; !status && i < rules->n; i++) {
		struct err err = { 0 };
		size_t at = 0;
		int rc = gate_rule_parse(&g->rule[i], rules->v[i], &at, &err);
		if (!rc) {
			g->n++;
			continue;
		}
		cmd_error("%s: %s: %s", g->command, g->option, err.text);
		if (rc == -EINVAL)
			reading_show_place(rules->v[i], at);
		status = rc == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
	}
	if (!status && g->format == GATE_JUNIT && !g->n) {
		cmd_error("%s: --format junit needs a rule: %s RULE", g->command, g->option);
		status = EXIT_USAGE;
	}
	return status;
}

int gate_refuse(const struct gate *g, size_t rule, const struct err *err)
{
	cmd_error("%s: %s '%s': %s", g->command, g->option, g->rule[rule].text, err->text);
	return EXIT_USAGE;
}

void gate_close(struct gate *g)
{
	for (size_t i = 0; i < g->n_results; i++)
		gate_result_fini(&g->result[i]);
	for (size_t i = 0; i < g->n; i++)
		gate_rule_fini(&g->rule[i]);
	g->n = g->n_results = 0;
}

bool gate_holds(const struct gate *g)
{
	bool holds = g->n == g->n_results;
	for (size_t i = 0; i < g->n_results; i++)
		holds &= g->result[i].verdict == GATE_HOLDS;
	return holds;
}

static void print_lines(const struct gate_result *r)
{
	for (size_t i = 0; i < r->n_lines; i++) {
		fputs("         ", stdout);
		text_put(stdout, r->line[i], 0);
		putchar('\n');
	}
	if (r->n_broken > r->n_lines && r->n_lines == GATE_LINES_MAX)
		printf("         and %zu more\n", r->n_broken - r->n_lines);
	if (r->verdict == GATE_HOLDS && r->n_unsure)
		printf("         over the limit, but not certainly: %zu\n", r->n_unsure);
	if (r->note)
		printf("         %s\n", r->note);
}

void gate_print_text(const struct gate *g)
{
	if (g->n)
		puts("\nGATE");
	for (size_t i = 0; i < g->n_results; i++) {
		const struct gate_result *r = &g->result[i];
		term_begin(stdout, r->verdict == GATE_HOLDS ? TERM_GOOD : TERM_BAD);
		printf("%-7s", verdicts[r->verdict]);
		term_end(stdout);
		fputs("  ", stdout);
		text_put(stdout, r->rule->text, 0);
		putchar('\n');
		print_lines(r);
	}
}

static json_t *result_json(const struct gate_result *r)
{
	json_t *o = json_object(), *lines = json_array();
	int rc = json_put(o, "rule", json_string_of(r->rule->text));
	rc = rc ? rc : json_put(o, "verdict", json_string(verdicts[r->verdict]));
	for (size_t i = 0; !rc && i < r->n_lines; i++)
		rc = json_array_append_new(lines, json_string_of(r->line[i])) ? -ENOMEM : 0;
	if (rc)
		json_decref(lines);
	rc = rc ? rc : json_put(o, "why", lines);
	rc = rc ? rc : json_put(o, "broken", json_count(r->n_broken));
	rc = rc ? rc : json_put(o, "unsure", json_count(r->n_unsure));
	if (!rc && r->note)
		rc = json_put(o, "note", json_string_of(r->note));
	return json_done(o, rc);
}

int gate_put_json(const struct gate *g, json_t *answer)
{
	json_t *gate, *rules;
	if (!g->n)
		return 0;
	gate = json_object();
	rules = json_array();
	int rc = json_put(gate, "holds", json_boolean(gate_holds(g)));
	for (size_t i = 0; !rc && i < g->n_results; i++)
		rc = json_array_append_new(rules, result_json(&g->result[i])) ? -ENOMEM : 0;
	if (rc)
		json_decref(rules);
	rc = rc ? rc : json_put(gate, "rules", rules);
	return json_put(answer, "gate", json_done(gate, rc));
}
