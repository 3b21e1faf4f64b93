/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/names_files.h"

#include <stdlib.h>
#include <sys/stat.h>

#define KEPT_MAX 64

static struct kept {
	const char *path;
	dev_t dev;
	ino_t ino; /* 0: there is none */
} kept[KEPT_MAX];
static size_t n_kept;

static struct kept look(const char *path)
{
	struct stat st;
	if (stat(path, &st))
		return (struct kept){ .path = path };
	return (struct kept){ path, st.st_dev, st.st_ino };
}

void names_files_keep(const struct role_paths *p)
{
	n_kept = 0;
	for (size_t i = 0; i < p->n && n_kept < KEPT_MAX; i++)
		if (p->v[i].path[0] == '/')
			kept[n_kept++] = look(p->v[i].path);
}

size_t names_files_given(struct role_path *ret)
{
	static const char *const names[NAMES_FILES_GIVEN] = { "SSL_CERT_FILE", "SSL_CERT_DIR" };
	size_t n = 0;
	for (size_t i = 0; i < NAMES_FILES_GIVEN; i++) {
		const char *path = getenv(names[i]);
		if (path && path[0] == '/')
			ret[n++] = (struct role_path){ path, role_path_read };
	}
	return n;
}

bool names_files_changed(void)
{
	bool changed = false;
	for (size_t i = 0; i < n_kept; i++) {
		const struct kept now = look(kept[i].path);
		changed |= now.ino != kept[i].ino || now.dev != kept[i].dev;
	}
	return changed;
}
