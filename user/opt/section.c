/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/section.h"

#include <errno.h>
#include <string.h>

static int set_line(const struct opt_command *cmd, const char *alone, char *line, void *out,
		    struct err *err)
{
	char *value = strchr(line, ' ');
	struct err why = { 0 };
	if (!value)
		return opt_set(cmd, alone, line, out, err);
	*value++ = 0;
	int rc = opt_set(cmd, line, value, out, &why);
	if (!rc)
		return 0;
	bool named = !strncmp(why.text, line, strlen(line));
	return err_set(err, rc == -ENOMEM ? rc : -EINVAL, "%s%s%.400s", named ? "" : line,
		       named ? "" : ": ", why.text);
}

int opt_section_parse(const struct opt_command *cmd, const char *alone, char *text, void *out,
		      struct err *err)
{
	char *rest;
	int rc = 0;
	for (char *l = strtok_r(text, "\n", &rest); !rc && l; l = strtok_r(NULL, "\n", &rest))
		rc = set_line(cmd, alone, l, out, err);
	return rc;
}
