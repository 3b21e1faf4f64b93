/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/config.h"

#include "opt/files.h"
#include "util/array.h"
#include "util/buf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#define FILE_MAX (256u << 10)
#define VALUES_MAX 1000

struct reader {
	struct config_file *cfg;
	const char *path;
	const struct opt_command *cmd;
	opt_mask given, seen;
	void *out;
	struct err *err;
	yaml_parser_t yaml;
};

static int complain(struct reader *r, size_t line, const char *key, const char *text)
{
	return err_set(r->err, -EINVAL, "%s:%zu: %s%s%s", r->path, line + 1, key ? key : "",
		       key ? ": " : "", text);
}

static int next(struct reader *r, yaml_event_t *e)
{
	if (yaml_parser_parse(&r->yaml, e)) {
		if (e->type != YAML_ALIAS_EVENT)
			return 0;
		size_t line = e->start_mark.line;
		yaml_event_delete(e);
		return complain(r, line, NULL, "no aliases here");
	}
	return complain(r, r->yaml.problem_mark.line, NULL,
			r->yaml.problem ? r->yaml.problem : "no YAML");
}

static char *keep(struct config_file *cfg, const yaml_event_t *e)
{
	if (ARRAY_RESERVE(cfg->texts, cfg->cap, cfg->n_texts + 1))
		return NULL;
	char *s = strndup((const char *)e->data.scalar.value, e->data.scalar.length);
	if (s)
		cfg->texts[cfg->n_texts++] = s;
	return s;
}

static const struct opt *find_option(const struct opt_command *cmd, const char *name)
{
	for (size_t i = 0; i < cmd->n_opts && i < CONFIG_OPTIONS_MAX; i++)
		if (!strcmp(cmd->opts[i].name, name))
			return &cmd->opts[i];
	return NULL;
}

static bool is_given(const struct reader *r, const struct opt *o)
{
	return r->given >> (o - r->cmd->opts) & 1;
}

/* A scalar, for the option. */
static int set(struct reader *r, const struct opt *o, const yaml_event_t *e)
{
	struct err why = { 0 };
	const char *text = keep(r->cfg, e), *key = o->name;
	if (!text)
		return err_set(r->err, -ENOMEM, "out of memory");
	if (strlen(text) != e->data.scalar.length)
		return complain(r, e->start_mark.line, key, "a NUL byte");
	if (r->cfg->n_texts > VALUES_MAX)
		return complain(r, e->start_mark.line, key, "too many values");
	if (is_given(r, o))
		return 0;
	if (!*text)
		return complain(r, e->start_mark.line, key, "nothing stands behind it");
	int rc = opt_set(r->cmd, key, text, r->out, &why);
	if (!rc)
		return 0;
	size_t n = strlen(key);
	/* The text of a value begins with the key. */
	bool has_key = !strncmp(why.text, key, n) && (why.text[n] == ' ' || why.text[n] == ':');
	return complain(r, e->start_mark.line, key,
			has_key ? why.text + n + 1 + (why.text[n] == ':') : why.text);
}

/* A value of a section, behind the lines that it has. */
static int add_line(struct reader *r, const char *key, const char *name, const yaml_event_t *e,
		    struct buf *lines)
{
	const char *value = (const char *)e->data.scalar.value;
	if (!e->data.scalar.length || strlen(value) != e->data.scalar.length || strchr(value, '\n'))
		return complain(r, e->start_mark.line, key, "a value of one line");
	return buf_printf(lines, "%s %s\n", name, value) ? err_set(r->err, -ENOMEM, "out of memory")
							 : 0;
}

/* What stands behind a name of a section: a value, or a list of them. */
static int read_section_value(struct reader *r, const char *key, const char *name,
			      struct buf *lines)
{
	int depth = 0, rc;
	do {
		yaml_event_t e;
		rc = next(r, &e);
		if (rc)
			return rc;
		depth +=
			(e.type == YAML_SEQUENCE_START_EVENT) - (e.type == YAML_SEQUENCE_END_EVENT);
		if (e.type == YAML_SCALAR_EVENT)
			rc = add_line(r, key, name, &e, lines);
		else if (depth > 1 || e.type == YAML_MAPPING_START_EVENT)
			rc = complain(r, e.start_mark.line, key, "a value or a list of values");
		yaml_event_delete(&e);
	} while (!rc && depth);
	return rc;
}

/* Its names and values as lines. */
static int read_section_lines(struct reader *r, const char *key, struct buf *lines)
{
	for (;;) {
		yaml_event_t e;
		char name[64];
		int rc = next(r, &e);
		if (rc)
			return rc;
		bool end = e.type == YAML_MAPPING_END_EVENT;
		const char *text = e.type == YAML_SCALAR_EVENT ? (char *)e.data.scalar.value : "";
		if (!end && (!*text || strlen(text) >= sizeof(name) || strpbrk(text, " \n")))
			rc = complain(r, e.start_mark.line, key, "a key is one word");
		else if (!end)
			strcpy(name, text);
		yaml_event_delete(&e);
		if (rc || end)
			return rc;
		rc = read_section_value(r, key, name, lines);
		if (rc)
			return rc;
	}
}

static int read_section(struct reader *r, const struct opt *o, size_t line)
{
	struct buf lines = BUF_INIT;
	struct err why = { 0 };
	int rc = read_section_lines(r, o->name, &lines);
	if (!rc && !lines.len)
		rc = complain(r, line, o->name, "nothing stands in it");
	if (!rc && buf_add_u8(&lines, 0))
		rc = err_set(r->err, -ENOMEM, "out of memory");
	if (!rc && !is_given(r, o) &&
	    opt_set(r->cmd, o->name, (const char *)lines.data, r->out, &why))
		rc = complain(r, line, o->name, why.text);
	buf_fini(&lines);
	return rc;
}

static int read_sequence(struct reader *r, const struct opt *o)
{
	yaml_event_t e;
	int rc;
	for (;;) {
		rc = next(r, &e);
		if (rc)
			return rc;
		if (e.type == YAML_SEQUENCE_END_EVENT)
			break;
		if (e.type == YAML_MAPPING_START_EVENT && o->type == OPT_SECTIONS)
			rc = read_section(r, o, e.start_mark.line);
		else if (e.type != YAML_SCALAR_EVENT)
			rc = complain(r, e.start_mark.line, o->name, "a list of plain values");
		else if (!opt_is_list(o->type))
			rc = complain(r, e.start_mark.line, o->name, "one value, not a list");
		else
			rc = set(r, o, &e);
		yaml_event_delete(&e);
		if (rc)
			return rc;
	}
	yaml_event_delete(&e);
	return 0;
}

static int read_value(struct reader *r, const char *key, size_t line)
{
	yaml_event_t e;
	const struct opt *o = find_option(r->cmd, key);
	if (!o) {
		struct err why = { 0 };
		opt_set(r->cmd, key, "", r->out, &why);
		return complain(r, line, key, why.text);
	}
	const size_t i = (size_t)(o - r->cmd->opts);
	if (r->seen >> i & 1)
		return complain(r, line, key, "is there twice");
	r->seen |= (opt_mask)1 << i;
	if (!strcmp(key, "config") || !strcmp(key, "check-config") || !strcmp(key, "print-token"))
		return complain(r, line, key, "goes on the command line");
	r->cfg->line[i] = is_given(r, o) ? 0 : line + 1;
	int rc = next(r, &e);
	if (rc)
		return rc;
	if (e.type == YAML_SCALAR_EVENT)
		rc = set(r, o, &e);
	else if (e.type == YAML_SEQUENCE_START_EVENT)
		rc = read_sequence(r, o);
	else
		rc = complain(r, line, key, "a value or a list of values");
	yaml_event_delete(&e);
	return rc;
}

static int read_mapping(struct reader *r)
{
	for (;;) {
		yaml_event_t e;
		char key[64];
		int rc = next(r, &e);
		if (rc)
			return rc;
		size_t line = e.start_mark.line;
		bool end = e.type == YAML_MAPPING_END_EVENT;
		if (!end && (e.type != YAML_SCALAR_EVENT || e.data.scalar.length >= sizeof(key)))
			rc = complain(r, line, NULL, "a key is one word");
		else if (!end)
			snprintf(key, sizeof(key), "%s", (const char *)e.data.scalar.value);
		yaml_event_delete(&e);
		if (rc || end)
			return rc;
		rc = read_value(r, key, line);
		if (rc)
			return rc;
	}
}

static int read_document(struct reader *r)
{
	yaml_event_t e;
	int rc, depth = 0;
	for (;;) {
		rc = next(r, &e);
		if (rc)
			return rc;
		yaml_event_type_t type = e.type;
		size_t line = e.start_mark.line;
		/* An empty file is an empty document is an empty scalar. */
		bool nothing = type == YAML_SCALAR_EVENT && !e.data.scalar.length;
		yaml_event_delete(&e);
		if (type == YAML_STREAM_END_EVENT)
			return 0;
		if (type == YAML_DOCUMENT_START_EVENT && depth++)
			return complain(r, line, NULL, "one document only");
		if (type == YAML_MAPPING_START_EVENT) {
			rc = read_mapping(r);
			if (rc)
				return rc;
		} else if ((type == YAML_SCALAR_EVENT && !nothing) ||
			   type == YAML_SEQUENCE_START_EVENT) {
			return complain(r, line, NULL, "`key: value` lines, no list and no text");
		}
	}
}

int config_read(struct config_file *cfg, const char *path, const struct opt_command *cmd,
		opt_mask given, void *out, struct err *err)
{
	cfg->path = path;
	struct reader r = {
		.cfg = cfg, .path = path, .cmd = cmd, .given = given, .out = out, .err = err
	};
	char *text;
	int rc = cmd_read_text(path, FILE_MAX, &text, err);
	if (rc)
		return rc;
	if (!yaml_parser_initialize(&r.yaml)) {
		free(text);
		return err_set(err, -ENOMEM, "out of memory");
	}
	yaml_parser_set_input_string(&r.yaml, (const unsigned char *)text, strlen(text));
	rc = read_document(&r);
	yaml_parser_delete(&r.yaml);
	free(text);
	return rc;
}

void config_blame(const struct config_file *cfg, const struct opt_command *cmd, const char *key,
		  struct err *err)
{
	struct err why = *err;
	const char *text = why.text;
	const struct opt *o = find_option(cmd, key);
	const size_t line = o ? cfg->line[o - cmd->opts] : 0, n = strlen(key);
	text += strncmp(text, "--", 2) ? 0 : 2;
	text += strncmp(text, key, n) || text[n] != ':' ? 0 : n + 2;
	if (line)
		err_set(err, why.code, "%s:%zu: %s: %s", cfg->path, line, key, text);
	else
		err_set(err, why.code, "%s: %s", key, text);
}

void config_fini(struct config_file *cfg)
{
	for (size_t i = 0; i < cfg->n_texts; i++)
		free(cfg->texts[i]);
	free(cfg->texts);
	*cfg = (struct config_file){ 0 };
}
