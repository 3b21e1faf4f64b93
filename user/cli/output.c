/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static mode_t umask_now(void)
{
	mode_t m = umask(022);
	umask(m);
	return m;
}

static int open_in_place(struct output *o)
{
	int fd = open(o->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return -errno;
	o->f = fdopen(fd, "w");
	if (o->f)
		return 0;
	close(fd);
	return -ENOMEM;
}

static int open_temp(struct output *o, mode_t mode)
{
	if (asprintf(&o->temp, "%s.XXXXXX", o->path) < 0) {
		o->temp = NULL;
		return -ENOMEM;
	}
	int fd = mkostemp(o->temp, O_CLOEXEC);
	if (fd < 0) {
		int rc = -errno;
		free(o->temp);
		o->temp = NULL;
		return rc;
	}
	if (fchmod(fd, mode) < 0) {
		int rc = -errno;
		close(fd);
		return rc;
	}
	o->f = fdopen(fd, "w");
	if (o->f)
		return 0;
	close(fd);
	return -ENOMEM;
}

int output_open(struct output *o, const char *path, struct err *err)
{
	struct stat st;
	int rc;
	*o = (struct output)OUTPUT_INIT;
	if (!path || !strcmp(path, "-")) {
		o->f = stdout;
		return 0;
	}
	int exists = !stat(path, &st);
	/* Through a symbolic link the file it points to is replaced, not the link. */
	o->path = exists ? realpath(path, NULL) : strdup(path);
	if (!o->path)
		rc = -errno;
	else if (exists && S_ISDIR(st.st_mode))
		rc = -EISDIR;
	else if (exists && !S_ISREG(st.st_mode))
		rc = open_in_place(o);
	else if (exists && access(path, W_OK))
		rc = -errno;
	else
		rc = open_temp(o, exists ? st.st_mode & 0777 : 0666 & ~umask_now());
	if (!rc)
		return 0;
	output_close(o);
	return err_sys(err, rc, "cannot write %s", path);
}

int output_commit(struct output *o, struct err *err)
{
	int rc = 0;
	errno = EIO;
	if (ferror(o->f) || fflush(o->f))
		rc = -errno;
	if (o->f != stdout && fclose(o->f) && !rc)
		rc = -errno;
	o->f = NULL;
	if (!rc && o->temp && rename(o->temp, o->path))
		rc = -errno;
	if (rc)
		return err_sys(err, rc, "writing %s failed", o->path ? o->path : "the output");
	free(o->temp);
	o->temp = NULL;
	return 0;
}

void output_close(struct output *o)
{
	if (o->f && o->f != stdout)
		fclose(o->f);
	if (o->temp)
		unlink(o->temp);
	free(o->temp);
	free(o->path);
	*o = (struct output)OUTPUT_INIT;
}
