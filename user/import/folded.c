/* SPDX-License-Identifier: Apache-2.0 */
#include "import/folded.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Flame graph scripts mark frames behind their names: _[k] of the kernel, _[i] inlined, _[j]
 * compiled at run time.
 */
static struct profile_frame frame_of(char *name)
{
	struct profile_frame f = { .function = name, .module = PROFILE_MODULE, .file = "" };
	size_t n = strlen(name);
	if (n < 5 || name[n - 4] != '_' || name[n - 3] != '[' || name[n - 1] != ']' ||
	    !strchr("kij", name[n - 2]))
		return f;
	f.kernel = name[n - 2] == 'k';
	f.inlined = name[n - 2] == 'i';
	f.module = f.kernel ? "[kernel]" : f.module;
	name[n - 4] = 0;
	return f;
}

/* A name that is too long ends early, but for its mark. */
static void cut(char *name)
{
	if (strlen(name) > PROFILE_TEXT_MAX)
		name[PROFILE_TEXT_MAX] = 0;
}

/* Cut the count off the line. */
static int take_count(char *line, uint64_t *ret)
{
	char *space = strrchr(line, ' '), *end;
	if (!space || space == line)
		return -EINVAL;
	unsigned long long n = strtoull(space + 1, &end, 10);
	if (end == space + 1 || *end || n > UINT32_MAX)
		return -EINVAL;
	*space = 0;
	*ret = n;
	return 0;
}

static int add_line(struct profile *p, char *line, const struct folded_form *form, size_t type,
		    const struct profile_labels *l)
{
	struct profile_sample *s;
	uint64_t n = 1;
	int rc = form->counted ? take_count(line, &n) : 0;
	rc = rc ? rc : profile_new_sample(p, l, &s);
	while (!rc) { /* the leaf is last */
		char *semicolon = strrchr(line, ';');
		char *name = semicolon ? semicolon + 1 : line;
		struct profile_frame f = frame_of(name);
		uint32_t id;
		cut(name);
		rc = profile_new_frame(p, &f, &id);
		rc = rc ? rc : profile_push_frame(p, s, id);
		if (!semicolon)
			break;
		*semicolon = 0;
	}
	if (rc)
		return rc;
	s->value[type] = n * p->type[type].period;
	return 0;
}

int profile_add_folded(struct profile *p, const uint8_t *data, size_t len,
		       const struct folded_form *form, size_t *io_line,
		       const struct profile_labels *l, struct err *err)
{
	char *text = malloc(len + 1);
	size_t type;
	if (profile_own_text(p, text))
		return err_set(err, -ENOMEM, "out of memory");
	memcpy(text, data ? (const char *)data : "", len);
	text[len] = 0;
	int rc = profile_add_type(p, "cpu", "nanoseconds", 1000000000 / form->rate, &type);
	for (char *line; !rc && (line = strsep(&text, "\n"));) {
		size_t n = strlen(line);
		if (n && line[n - 1] == '\r')
			line[n - 1] = 0;
		*io_line += text != NULL || n;
		if (*line)
			rc = add_line(p, line, form, type, l);
	}
	if (rc == -EINVAL)
		return err_set(err, rc, "line %zu is not \"root;leaf count\"", *io_line);
	if (rc == -E2BIG)
		return err_set(err, rc, "the profile has too many samples or frames");
	return rc ? err_set(err, rc, "out of memory") : 0;
}
