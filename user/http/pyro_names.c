/* SPDX-License-Identifier: Apache-2.0 */
#include "http/pyro_names.h"

#include "import/profile.h"
#include "util/array.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

static bool has(const struct pyro_names *n, const char *key)
{
	for (size_t i = 0; i < n->n; i++)
		if (!strcmp(n->keys[i], key))
			return true;
	return false;
}

static int add_key(void *ctx, const char *key, uint32_t sets)
{
	struct pyro_names *n = ctx;
	(void)sets;
	if (ARRAY_RESERVE(n->keys, n->cap, n->n + 1))
		return -ENOMEM;
	n->keys[n->n] = strdup(key);
	return n->keys[n->n++] ? 0 : -ENOMEM;
}

static char *make_name(const struct pyro_names *n, const char *key)
{
	char *name = strdup(key);
	for (char *c = name; c && *c; c++)
		if (!isalnum((unsigned char)*c) || (c == name && isdigit((unsigned char)*c)))
			*c = '_';
	/* Of two keys that would have one name the one that is this name has it. */
	if (name && strcmp(name, key) && has(n, name))
		strcpy(name, key);
	return name;
}

static int read_keys(struct pyro_names *n, struct store *s, struct err *err)
{
	struct store_wide_key k;
	int rc = store_narrow_keys(s, add_key, n, err);
	for (size_t i = 0; !rc && store_wide_key(s, i, &k); i++)
		if (k.to_ns == INT64_MAX)
			rc = add_key(n, k.key, 0);
	return rc;
}

static int take_keys(struct pyro_names *n, const struct fleet_result *listed)
{
	int rc = 0;
	for (size_t i = 0; !rc && i < listed->n_keys; i++)
		rc = add_key(n, listed->keys[i].name, 0);
	return rc;
}

int pyro_names_read(struct pyro_names *n, const struct request *r, struct store *s, struct err *err)
{
	int rc = r->filled ? take_keys(n, r->filled) : read_keys(n, s, err);
	n->names = calloc(n->n + 1, sizeof(*n->names));
	for (size_t i = 0; !rc && n->names && i < n->n; i++) {
		n->names[i] = make_name(n, n->keys[i]);
		rc = n->names[i] ? 0 : -ENOMEM;
	}
	rc = n->names ? rc : -ENOMEM;
	return rc == -ENOMEM ? err_set(err, rc, "out of memory") : rc;
}

void pyro_names_fini(struct pyro_names *n)
{
	for (size_t i = 0; i < n->n; i++) {
		free(n->keys[i]);
		free(n->names ? n->names[i] : NULL);
	}
	free(n->keys);
	free(n->names);
	*n = (struct pyro_names){ 0 };
}

static const char *service_key(const struct pyro_names *n, const struct store_event *e)
{
	bool sent = e && !strncmp(e->name, PROFILE_SENT, strlen(PROFILE_SENT));
	return sent		   ? PYRO_SERVICE
	       : has(n, "service") ? "service"
	       : has(n, "comm")	   ? "comm"
				   : PYRO_SERVICE;
}

const char *pyro_names_key(const struct pyro_names *n, const struct store_event *e,
			   const char *name)
{
	if (!strcmp(name, PYRO_SERVICE))
		return service_key(n, e);
	for (size_t i = 0; i < n->n; i++)
		if (!strcmp(n->names[i], name))
			return n->keys[i];
	return name;
}
