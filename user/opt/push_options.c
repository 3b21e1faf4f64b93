/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/push_options.h"

#include "opt/section.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int add_label(struct push_receiver *r, bool otlp, const char *text, struct err *err)
{
	static const char cluster[] = "k8s.cluster.name";
	const char *eq = strchr(text, '=');
	if (r->c.n_external == PUSH_LABELS_MAX)
		return err_set(err, -EINVAL, "label: more than %d", PUSH_LABELS_MAX);
	if (!eq || eq == text || !eq[1])
		return err_set(err, -EINVAL, "label: '%s' is no KEY=VALUE", text);
	struct label *l = &r->labels[r->c.n_external++];
	*l = (struct label){ .key = text,
			     .key_len = (uint32_t)(eq - text),
			     .str = eq + 1,
			     .str_len = (uint32_t)strlen(eq + 1),
			     .type = LABEL_STRING };
	if (otlp && l->key_len == 7 && !memcmp(text, "cluster", 7)) {
		l->key = cluster;
		l->key_len = sizeof(cluster) - 1;
	}
	return 0;
}

int push_options_config(const struct push_options *o, struct push_receiver *ret, struct err *err)
{
	*ret = (struct push_receiver){ .c = {
					       .url = o->url,
					       .format = o->format,
					       .cursor = o->cursor,
					       .tenant = o->tenant,
					       .user = o->user,
					       .token = o->token_file,
					       .authority = o->ca_file,
					       .certificate = o->cert_file,
					       .key = o->key_file,
					       .compression = o->compression,
					       .where = o->where,
					       .keys = (const char *const *)o->keys.v,
					       .n_keys = o->keys.n,
					       .headers = (const char *const *)o->headers.v,
					       .n_headers = o->headers.n,
					       .external = ret->labels,
					       .idle = o->idle,
					       .create_tables = o->create_tables,
					       .follow = o->follow,
					       .from_ns = o->from_ns,
					       .to_ns = o->to_ns,
					       .max_age_ns = o->max_age_ns,
					       .max_bytes = o->max_bytes,
					       .memory = o->memory,
					       .timeout_ms = (unsigned)(o->timeout_ns / 1000000),
					       .give_up_ns = o->give_up_ns,
					       .stop_fd = -1,
				       } };
	bool otlp = !o->format || !strcmp(o->format, "otlp");
	int rc = 0;
	for (size_t i = 0; !rc && i < o->labels.n; i++)
		rc = add_label(ret, otlp, o->labels.v[i], err);
	return rc ? rc : push_check(&ret->c, err);
}

static const struct opt section_options[] = {
	{ "url", 0, OPT_STRING, "URL", "where to", offsetof(struct push_options, url), 0, 0 },
	PUSH_TARGET_OPTIONS(struct push_options),
};

static const struct opt_command section = {
	.name = "push",
	.opts = section_options,
	.n_opts = sizeof(section_options) / sizeof(section_options[0]),
};

int push_section_parse(struct push_section *s, const char *text, struct err *err)
{
	*s = (struct push_section){ .o = PUSH_OPTIONS_INIT, .text = strdup(text) };
	if (!s->text)
		return err_sys(err, -ENOMEM, "push");
	int rc = opt_section_parse(&section, "url", s->text, &s->o, err);
	s->o.follow = true;
	rc = rc ? rc : push_options_config(&s->o, &s->r, err);
	s->r.c.newest = s->o.from_ns == INT64_MIN;
	return rc;
}

void push_section_fini(struct push_section *s)
{
	opt_release(&section, &s->o);
	free(s->text);
	*s = (struct push_section){ 0 };
}
