/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause */
/*
 * libascribe-label.so as an addon of Node-API: what node/ascribe.js calls. Node has the napi
 * functions; elsewhere they are not there, and nobody calls this. Declared here, as their ABI is
 * stable by Node's promise, so that building needs no headers of Node.
 */
#include <ascribe/label_thread.h>

#include <errno.h>
#include <stdbool.h>

#define EXPORTED __attribute__((visibility("default")))
#define WEAK __attribute__((weak))
#define NAPI_AUTO_LENGTH ((size_t)-1)
#define KEY_ROOM 65    /* with the zero that napi writes; a key of 64 bytes is refused */
#define VALUE_ROOM 261 /* more than a value may have, so that it is cut between characters */

typedef struct napi_env_ *napi_env;
typedef struct napi_value_ *napi_value;
typedef struct napi_info_ *napi_info;
typedef napi_value (*napi_call)(napi_env, napi_info);

/* Each returns 0, or what went wrong. */
WEAK int napi_get_cb_info(napi_env, napi_info, size_t *, napi_value *, napi_value *, void **);
WEAK int napi_get_value_string_utf8(napi_env, napi_value, char *, size_t, size_t *);
WEAK int napi_get_value_int64(napi_env, napi_value, int64_t *);
WEAK int napi_get_buffer_info(napi_env, napi_value, void **, size_t *);
WEAK int napi_create_buffer_copy(napi_env, size_t, const void *, void **, napi_value *);
WEAK int napi_create_int32(napi_env, int32_t, napi_value *);
WEAK int napi_create_function(napi_env, const char *, size_t, napi_call, void *, napi_value *);
WEAK int napi_set_named_property(napi_env, napi_value, const char *, napi_value);

/* At most n arguments; those that are not there are undefined. */
static void arguments(napi_env env, napi_info info, size_t n, napi_value *ret)
{
	napi_get_cb_info(env, info, &n, ret, NULL, NULL);
}

static napi_value number(napi_env env, int n)
{
	napi_value v = NULL;
	napi_create_int32(env, n, &v);
	return v;
}

static napi_value node_set(napi_env env, napi_info info)
{
	napi_value arg[2] = { NULL, NULL };
	char key[KEY_ROOM], value[VALUE_ROOM];
	size_t key_len, len;
	arguments(env, info, 2, arg);
	if (napi_get_value_string_utf8(env, arg[0], key, sizeof(key), &key_len))
		return number(env, -EINVAL);
	bool is_text = !napi_get_value_string_utf8(env, arg[1], value, sizeof(value), &len);
	return number(env,
		      ascribe_thread_set(key, key_len, is_text ? value : NULL, is_text ? len : 0));
}

static napi_value node_set_int(napi_env env, napi_info info)
{
	napi_value arg[2] = { NULL, NULL };
	char key[KEY_ROOM];
	size_t key_len;
	int64_t value;
	arguments(env, info, 2, arg);
	if (napi_get_value_string_utf8(env, arg[0], key, sizeof(key), &key_len) ||
	    napi_get_value_int64(env, arg[1], &value))
		return number(env, -EINVAL);
	return number(env, ascribe_thread_set_int(key, key_len, value));
}

/* (trace id, span id, flags): buffers of 16 and 8 bytes, and a number. */
static napi_value node_set_trace(napi_env env, napi_info info)
{
	napi_value arg[3] = { NULL, NULL, NULL };
	void *trace, *span;
	size_t trace_size, span_size;
	int64_t flags;
	arguments(env, info, 3, arg);
	if (napi_get_buffer_info(env, arg[0], &trace, &trace_size) || trace_size != 16 ||
	    napi_get_buffer_info(env, arg[1], &span, &span_size) || span_size != 8 ||
	    napi_get_value_int64(env, arg[2], &flags))
		return number(env, -EINVAL);
	return number(env, ascribe_thread_set_trace(trace, span, (unsigned int)flags));
}

static napi_value node_save(napi_env env, napi_info info)
{
	char saved[ASCRIBE_THREAD_SAVED_MAX];
	napi_value v = NULL;
	int n = ascribe_thread_save(saved, sizeof(saved));
	(void)info;
	napi_create_buffer_copy(env, (size_t)n, saved, NULL, &v);
	return v;
}

/* (buffer); anything else takes all labels away. */
static napi_value node_restore(napi_env env, napi_info info)
{
	napi_value arg = NULL;
	void *saved = NULL;
	size_t size = 0;
	arguments(env, info, 1, &arg);
	if (napi_get_buffer_info(env, arg, &saved, &size))
		size = 0;
	return number(env, ascribe_thread_restore(saved, size));
}

EXPORTED napi_value napi_register_module_v1(napi_env env, napi_value exports);
EXPORTED napi_value napi_register_module_v1(napi_env env, napi_value exports)
{
	static const struct {
		const char *name;
		napi_call call;
	} calls[] = {
		{ "set", node_set },   { "setInt", node_set_int },  { "setTrace", node_set_trace },
		{ "save", node_save }, { "restore", node_restore },
	};
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		napi_value f;
		if (!napi_create_function(env, calls[i].name, NAPI_AUTO_LENGTH, calls[i].call, NULL,
					  &f))
			napi_set_named_property(env, exports, calls[i].name, f);
	}
	return exports;
}
