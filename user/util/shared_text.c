/* SPDX-License-Identifier: Apache-2.0 */
#include "util/shared_text.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct shared_text {
	uint32_t refs;
	char text[];
};

static struct shared_text *owner(char *t)
{
	return (struct shared_text *)(void *)(t - offsetof(struct shared_text, text));
}

char *shared_text_new(const char *s)
{
	size_t size = strlen(s) + 1;
	struct shared_text *o = malloc(sizeof(*o) + size);
	if (!o)
		return NULL;
	o->refs = 1;
	return memcpy(o->text, s, size);
}

char *shared_text_get(char *t)
{
	if (t)
		owner(t)->refs++;
	return t;
}

void shared_text_put(char *t)
{
	if (t && !--owner(t)->refs)
		free(owner(t));
}
