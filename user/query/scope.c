/* SPDX-License-Identifier: Apache-2.0 */
#include "query/scope.h"

#include "query/waits.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BY "by."
#define BY_LEN 3

static bool is_by(const char *key, size_t len)
{
	return len > BY_LEN && !memcmp(key, BY, BY_LEN);
}

static int check_keys(const struct scope *s, struct err *err)
{
	struct selector_matcher m;
	if (!s->n_keys)
		return err_set(err, -EINVAL, "the selector names no label");
	if (selector_matcher(s->selector, s->n_keys, &m))
		return err_set(err, -EINVAL, "`event` and `wait` are labels of no set");
	for (size_t i = 0; i < s->n_keys; i++)
		if (!*s->keys[i] || strlen(s->keys[i]) > SCOPE_KEY_MAX ||
		    is_by(s->keys[i], strlen(s->keys[i])))
			return err_set(err, -EINVAL, "'%.60s' is no label to choose sets by",
				       s->keys[i]);
	return 0;
}

int scope_parse(struct scope *s, const char *text, struct err *err)
{
	*s = (struct scope){ .selector = NULL };
	int rc = text ? selector_parse(&s->selector, text, NULL, err) : 0;
	if (rc || !text)
		return rc;
	s->n_keys = selector_keys(s->selector, s->keys, SELECTOR_KEYS_MAX);
	rc = check_keys(s, err);
	s->by = rc ? NULL : calloc(s->n_keys, sizeof(*s->by));
	if (!rc && !s->by)
		rc = err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; !rc && i < s->n_keys; i++)
		snprintf(s->by[i], sizeof(s->by[i]), BY "%s", s->keys[i]);
	return rc;
}

void scope_fini(struct scope *s)
{
	selector_free(s->selector);
	free(s->by);
	*s = (struct scope){ .selector = NULL };
}

/* "!=" admits what has another value, not what has none: that may be anybody's. */
static bool has_keys(const struct scope *s, const struct label *labels, size_t n)
{
	size_t found = 0;
	for (size_t i = 0; i < s->n_keys; i++) {
		const struct label key = { .key = s->keys[i],
					   .key_len = (uint32_t)strlen(s->keys[i]) };
		found += labels_find(labels, n, &key) < n;
	}
	return found == s->n_keys;
}

static int admits(struct scope *s, const struct label *labels, size_t n, bool *ret, struct err *err)
{
	*ret = has_keys(s, labels, n);
	return *ret ? selector_match(s->selector, labels, n, ret, err) : 0;
}

/* Nobody was running, or nobody who could be told. */
static bool is_nobody(const struct label *party, size_t n)
{
	static const char *const names[] = { "(idle)", "(interrupt)", "(other)" };
	for (size_t i = 0; n == 1 && i < sizeof(names) / sizeof(names[0]); i++)
		if (party->key_len == 4 && !memcmp(party->key, "comm", 4) &&
		    party->type == LABEL_STRING && party->str_len == strlen(names[i]) &&
		    !memcmp(party->str, names[i], party->str_len))
			return true;
	return false;
}

/* Sets are sorted, so all labels of the other party stand together. */
static int hide_party(struct scope *s, const struct label **labels, size_t *n, struct label *room,
		      struct err *err)
{
	static const struct label other = { .key = BY "comm",
					    .key_len = BY_LEN + 4,
					    .str = "(other)",
					    .str_len = 7,
					    .type = LABEL_STRING };
	size_t from = 0, to;
	bool seen = false;
	while (from < *n && !is_by((*labels)[from].key, (*labels)[from].key_len))
		from++;
	for (to = from; to < *n && is_by((*labels)[to].key, (*labels)[to].key_len); to++) {
		room[to - from] = (*labels)[to];
		room[to - from].key += BY_LEN;
		room[to - from].key_len -= BY_LEN;
	}
	if (from == to || is_nobody(room, to - from))
		return 0;
	int rc = admits(s, room, to - from, &seen, err);
	if (rc || seen)
		return rc;
	memcpy(room, *labels, from * sizeof(*room));
	room[from] = other;
	memcpy(room + from + 1, *labels + to, (*n - to) * sizeof(*room));
	*n -= to - from - 1;
	*labels = room;
	return 0;
}

int scope_admit(struct scope *s, const struct label **labels, size_t *n,
		struct label room[static STORE_SET_MAX], bool *ret, struct err *err)
{
	*ret = true;
	if (!s->selector)
		return 0;
	int rc = admits(s, *labels, *n, ret, err);
	return rc || !*ret ? rc : hide_party(s, labels, n, room, err);
}

bool scope_has_wakers(const struct store *s)
{
	for (uint32_t i = 0; !store_scope(s) && i < store_n_events(s); i++)
		if (!strcmp(store_event(s, i)->name, WAKER_EVENT))
			return true;
	return false;
}
