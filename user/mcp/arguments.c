/* SPDX-License-Identifier: Apache-2.0 */
/* Check the arguments of a call against what the tool says that it takes. */
#include "mcp/server.h"

#include <errno.h>
#include <string.h>

static const struct mcp_argument *find_argument(const struct mcp_tool *tool, const char *name)
{
	for (const struct mcp_argument *a = tool->arguments; a->name; a++)
		if (!strcmp(a->name, name))
			return a;
	return NULL;
}

static bool is_text(const json_t *value)
{
	return json_is_string(value) && json_string_length(value) &&
	       json_string_length(value) <= MCP_TEXT_MAX;
}

static int check_texts(const struct mcp_argument *a, const json_t *value, struct err *err)
{
	size_t n = json_array_size(value);
	bool good = json_is_array(value) && n >= 1 && n <= MCP_LIST_MAX;
	for (size_t i = 0; good && i < n; i++)
		good = is_text(json_array_get(value, i)) &&
		       !strchr(json_string_value(json_array_get(value, i)), ',');
	return good ? 0
		    : err_set(err, -EINVAL, "%s: expected a list of 1 to %d texts without commas",
			      a->name, MCP_LIST_MAX);
}

static int check_choice(const struct mcp_argument *a, const json_t *value, struct err *err)
{
	char all[300] = "";
	for (size_t i = 0; a->choices[i]; i++) {
		if (json_is_string(value) && !strcmp(a->choices[i], json_string_value(value)))
			return 0;
		snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", i ? ", " : "",
			 a->choices[i]);
	}
	return err_set(err, -EINVAL, "%s: expected one of %s", a->name, all);
}

static int check_value(const struct mcp_argument *a, const json_t *value, struct err *err)
{
	switch (a->type) {
	case MCP_TEXT:
		if (is_text(value))
			return 0;
		return err_set(err, -EINVAL, "%s: expected a text of 1 to %d bytes", a->name,
			       MCP_TEXT_MAX);
	case MCP_TEXTS:
		return check_texts(a, value, err);
	case MCP_COUNT:
		if (json_is_integer(value) && json_integer_value(value) >= 1 &&
		    (uint64_t)json_integer_value(value) <= a->max)
			return 0;
		return err_set(err, -EINVAL, "%s: expected a whole number of 1 to %llu", a->name,
			       (unsigned long long)a->max);
	case MCP_FLAG:
		if (json_is_boolean(value))
			return 0;
		return err_set(err, -EINVAL, "%s: expected true or false", a->name);
	case MCP_CHOICE:
		return check_choice(a, value, err);
	}
	return -EINVAL;
}

static int unknown_argument(const struct mcp_tool *tool, const char *name, struct err *err)
{
	char all[300] = "";
	for (const struct mcp_argument *a = tool->arguments; a->name; a++)
		snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s",
			 a == tool->arguments ? "" : ", ", a->name);
	return err_set(err, -EINVAL, "%s has no argument %.64s; it takes: %s", tool->name, name,
		       all);
}

int mcp_check_arguments(const struct mcp_tool *tool, const json_t *arguments, struct err *err)
{
	const char *name;
	json_t *value;
	json_object_foreach((json_t *)arguments, name, value)
	{
		const struct mcp_argument *a = find_argument(tool, name);
		int rc = a ? check_value(a, value, err) : unknown_argument(tool, name, err);
		if (rc)
			return rc;
	}
	for (const struct mcp_argument *a = tool->arguments; a->name; a++)
		if (a->required && !json_object_get(arguments, a->name))
			return err_set(err, -EINVAL, "%s needs the argument %s: %s", tool->name,
				       a->name, a->help);
	return 0;
}
