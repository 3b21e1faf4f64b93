/* SPDX-License-Identifier: Apache-2.0 */
/* Recipes from files and directories. */
#include "labels/recipe.h"
#include "util/trust.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int load_file(struct recipes *r, const char *path, struct err *err)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st)) {
		int rc = err_sys(err, -errno, "recipes %s", path);
		if (fd >= 0)
			close(fd);
		return rc;
	}
	int rc = trust_check(fd, path, err);
	if (rc) {
		close(fd);
		return rc;
	}
	char *text = S_ISREG(st.st_mode) && st.st_size <= RECIPE_TEXT_MAX
			     ? malloc((size_t)st.st_size + 1)
			     : NULL;
	ssize_t n = text ? read(fd, text, (size_t)st.st_size) : -1;
	close(fd);
	rc = n < 0 ? err_set(err, -EINVAL, "recipes %s: not a file of at most %u bytes", path,
			     RECIPE_TEXT_MAX)
		   : recipes_parse(r, text, (size_t)n, path, err);
	free(text);
	return rc;
}

static int is_recipe(const struct dirent *e)
{
	size_t n = strlen(e->d_name);
	return e->d_name[0] != '.' && n > 7 && !strcmp(e->d_name + n - 7, ".recipe");
}

int recipes_load(struct recipes *r, const char *path, struct err *err)
{
	struct dirent **list;
	struct stat st;
	if (stat(path, &st))
		return err_sys(err, -errno, "recipes %s", path);
	if (!S_ISDIR(st.st_mode))
		return load_file(r, path, err);
	int n = scandir(path, &list, is_recipe, alphasort), rc = 0;
	if (n < 0)
		return err_sys(err, -errno, "recipes %s", path);
	for (int i = 0; i < n; i++) {
		char file[4096];
		if (!rc && snprintf(file, sizeof(file), "%s/%s", path, list[i]->d_name) <
				   (int)sizeof(file))
			rc = load_file(r, file, err);
		free(list[i]);
	}
	free(list);
	return rc;
}
