/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/server.h"

#include "export/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* JSON-RPC 2.0, 5.1 */
enum {
	PARSE_ERROR = -32700,
	INVALID_REQUEST = -32600,
	NO_METHOD = -32601,
	INVALID_PARAMS = -32602,
	INTERNAL_ERROR = -32603
};

static const char *const versions[] = { MCP_VERSION, "2025-03-26", "2024-11-05" };

/* ---- answers ---- */

static json_t *answer(const json_t *id, const char *member, json_t *value)
{
	json_t *o = json_object();
	int rc = json_put(o, "jsonrpc", json_string("2.0"));
	rc = rc ? rc : json_put(o, "id", id ? json_deep_copy(id) : json_null());
	if (rc)
		json_decref(value);
	else
		rc = json_put(o, member, value);
	return json_done(o, rc);
}

static json_t *error(const json_t *id, int code, const char *fmt, const char *what)
{
	char text[300];
	json_t *e = json_object();
	snprintf(text, sizeof(text), fmt, what);
	int rc = json_put(e, "code", json_integer(code));
	rc = rc ? rc : json_put(e, "message", json_string_of(text));
	return answer(id, "error", json_done(e, rc));
}

json_t *mcp_answer_too_long(void)
{
	return error(NULL, INVALID_REQUEST, "a message of more than %s bytes was dropped",
		     "262,144");
}
_Static_assert(MCP_LINE_MAX == 262144, "as the message says");

/* ---- methods ---- */

static json_t *initialize(const struct mcp_server *s, const json_t *id, const json_t *params)
{
	const char *wanted = json_string_value(json_object_get(params, "protocolVersion"));
	const char *version = MCP_VERSION;
	json_t *o = json_object(), *capabilities = json_object(), *info = json_object();
	if (!wanted) {
		json_decref(o);
		json_decref(capabilities);
		json_decref(info);
		return error(id, INVALID_PARAMS, "initialize needs %s", "protocolVersion");
	}
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
		if (!strcmp(versions[i], wanted))
			version = versions[i];
	int rc = json_put(capabilities, "tools", json_object());
	rc = rc ? rc : json_put(info, "name", json_string(s->name));
	rc = rc ? rc : json_put(info, "version", json_string(s->version));
	capabilities = json_done(capabilities, rc);
	info = json_done(info, rc);
	rc = json_put(o, "protocolVersion", json_string(version));
	int rc2 = json_put(o, "capabilities", capabilities);
	int rc3 = json_put(o, "serverInfo", info);
	rc = rc ? rc : rc2 ? rc2 : rc3;
	rc = rc ? rc : json_put(o, "instructions", json_string(s->instructions));
	return answer(id, "result", json_done(o, rc));
}

static json_t *texts_schema(void)
{
	json_t *item = json_object(), *o = json_object();
	int rc = json_put(item, "type", json_string("string"));
	rc = rc ? rc : json_put(item, "maxLength", json_integer(MCP_TEXT_MAX));
	int rc2 = json_put(o, "items", json_done(item, rc));
	rc = rc2 ? rc2 : json_put(o, "minItems", json_integer(1));
	rc = rc ? rc : json_put(o, "maxItems", json_integer(MCP_LIST_MAX));
	return json_done(o, rc);
}

static json_t *choices_schema(const char *const *choices)
{
	json_t *all = json_array(), *o = json_object();
	int rc = 0;
	for (size_t i = 0; !rc && choices[i]; i++)
		rc = json_array_append_new(all, json_string_of(choices[i])) ? -ENOMEM : 0;
	return json_done(o, json_put(o, "enum", json_done(all, rc)));
}

static json_t *argument_schema(const struct mcp_argument *a)
{
	static const char *const types[] = { [MCP_TEXT] = "string",
					     [MCP_TEXTS] = "array",
					     [MCP_COUNT] = "integer",
					     [MCP_FLAG] = "boolean",
					     [MCP_CHOICE] = "string" };
	json_t *o = a->type == MCP_TEXTS    ? texts_schema()
		    : a->type == MCP_CHOICE ? choices_schema(a->choices)
					    : json_object();
	int rc = json_put(o, "type", json_string(types[a->type]));
	rc = rc ? rc : json_put(o, "description", json_string(a->help));
	if (!rc && a->type == MCP_TEXT)
		rc = json_put(o, "maxLength", json_integer(MCP_TEXT_MAX));
	if (!rc && a->type == MCP_COUNT)
		rc = json_put(o, "minimum", json_integer(1));
	if (!rc && a->type == MCP_COUNT)
		rc = json_put(o, "maximum", json_count(a->max));
	return json_done(o, rc);
}

static json_t *input_schema(const struct mcp_tool *tool)
{
	json_t *o = json_object(), *all = json_object(), *required = json_array();
	int rc = 0;
	for (const struct mcp_argument *a = tool->arguments; !rc && a->name; a++) {
		rc = json_put(all, a->name, argument_schema(a));
		if (!rc && a->required)
			rc = json_array_append_new(required, json_string(a->name)) ? -ENOMEM : 0;
	}
	int rc2 = json_put(o, "type", json_string("object"));
	int rc3 = json_put(o, "properties", json_done(all, rc));
	int rc4 = json_put(o, "required", required);
	rc = rc2 ? rc2 : rc3 ? rc3 : rc4;
	rc = rc ? rc : json_put(o, "additionalProperties", json_false());
	return json_done(o, rc);
}

static json_t *tool_entry(const struct mcp_tool *tool)
{
	json_t *o = json_object(), *hints = json_object();
	int rc = json_put(hints, "readOnlyHint", json_true());
	rc = rc ? rc : json_put(hints, "openWorldHint", json_false());
	int rc2 = json_put(o, "name", json_string(tool->name));
	int rc3 = json_put(o, "description", json_string(tool->help));
	int rc4 = json_put(o, "inputSchema", input_schema(tool));
	int rc5 = json_put(o, "annotations", json_done(hints, rc));
	return json_done(o, rc2 ? rc2 : rc3 ? rc3 : rc4 ? rc4 : rc5);
}

static json_t *list_tools(const struct mcp_server *s, const json_t *id, const json_t *params)
{
	if (json_object_get(params, "cursor"))
		return error(id, INVALID_PARAMS, "there is no page behind this %s", "cursor");
	json_t *o = json_object(), *all = json_array();
	int rc = 0;
	for (size_t i = 0; !rc && i < s->n_tools; i++)
		rc = json_array_append_new(all, tool_entry(&s->tools[i])) ? -ENOMEM : 0;
	return answer(id, "result", json_done(o, json_put(o, "tools", json_done(all, rc))));
}

/* What a tool said; an error of its own is for the model to read, not for the protocol. */
static json_t *tool_result(const json_t *id, const char *text, bool failed)
{
	json_t *o = json_object(), *content = json_array(), *part = json_object();
	int rc = json_put(part, "type", json_string("text"));
	rc = rc ? rc : json_put(part, "text", json_string_of(text));
	rc = json_array_append_new(content, json_done(part, rc)) ? -ENOMEM : 0;
	int rc2 = json_put(o, "content", json_done(content, rc));
	int rc3 = json_put(o, "isError", json_boolean(failed));
	return answer(id, "result", json_done(o, rc2 ? rc2 : rc3));
}

static json_t *call_tool(const struct mcp_server *s, const json_t *id, const json_t *params)
{
	const char *name = json_string_value(json_object_get(params, "name"));
	const json_t *given = json_object_get(params, "arguments");
	struct err err = { 0 };
	size_t i = 0;
	if (!name)
		return error(id, INVALID_PARAMS, "tools/call needs a %s", "name");
	while (i < s->n_tools && strcmp(s->tools[i].name, name))
		i++;
	if (i == s->n_tools)
		return error(id, INVALID_PARAMS, "there is no tool %.64s: see tools/list", name);
	if (given && !json_is_object(given))
		return error(id, INVALID_PARAMS, "%s must be an object", "arguments");
	json_t *arguments = given ? json_deep_copy(given) : json_object();
	char *text = NULL;
	bool failed = true;
	json_t *result;
	int rc = arguments ? mcp_check_arguments(&s->tools[i], arguments, &err) : -ENOMEM;
	if (rc == -EINVAL)
		result = tool_result(id, err.text, true);
	else {
		rc = rc ? rc : s->call(s->ctx, &s->tools[i], arguments, &text, &failed);
		result = rc ? error(id, INTERNAL_ERROR, "the tool was not run: %s", strerror(-rc))
			    : tool_result(id, text, failed);
	}
	free(text);
	json_decref(arguments);
	return result;
}

static json_t *run_method(const struct mcp_server *s, const json_t *id, const char *method,
			  const json_t *params)
{
	if (params && !json_is_object(params))
		return error(id, INVALID_PARAMS, "%s must be an object", "params");
	if (!strcmp(method, "initialize"))
		return initialize(s, id, params);
	if (!strcmp(method, "ping"))
		return answer(id, "result", json_object());
	if (!strcmp(method, "tools/list"))
		return list_tools(s, id, params);
	if (!strcmp(method, "tools/call"))
		return call_tool(s, id, params);
	return error(id, NO_METHOD, "there is no method %.64s", method);
}

static bool is_id(const json_t *id)
{
	return json_is_string(id) || json_is_number(id);
}

int mcp_answer(const struct mcp_server *s, const char *text, size_t len, json_t **ret)
{
	json_error_t e = { 0 };
	json_t *message = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
	const json_t *id = json_object_get(message, "id");
	const json_t *method = json_object_get(message, "method");
	const char *version = json_string_value(json_object_get(message, "jsonrpc"));
	const json_t *known = is_id(id) ? id : NULL;
	json_t *o;
	*ret = NULL;
	if (!message && json_error_code(&e) == json_error_unknown) /* jansson had no memory */
		return -ENOMEM;
	if (!message)
		o = error(NULL, PARSE_ERROR, "no JSON: %s", e.text);
	else if (!json_is_object(message))
		o = error(NULL, INVALID_REQUEST, "%s is no request: send one message a line",
			  json_is_array(message) ? "a batch" : "this value");
	else if (!version || strcmp(version, "2.0"))
		o = error(known, INVALID_REQUEST, "%s must be \"2.0\"", "jsonrpc");
	else if (id && !known)
		o = error(NULL, INVALID_REQUEST, "%s must be a text or a number", "id");
	else if (!method &&
		 (json_object_get(message, "result") || json_object_get(message, "error")))
		goto none; /* an answer, to nothing that was asked */
	else if (!json_is_string(method))
		o = error(known, INVALID_REQUEST, "%s must be a text", "method");
	else if (!id)
		goto none; /* a notification */
	else
		o = run_method(s, id, json_string_value(method),
			       json_object_get(message, "params"));
	json_decref(message);
	*ret = o;
	return o ? 0 : -ENOMEM;
none:
	json_decref(message);
	return 0;
}
