/* SPDX-License-Identifier: Apache-2.0 */
/* Text files that the commands read: configuration, tokens, certificates and keys. */
#include "opt/files.h"
#include "util/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#define TOKEN_FILE_MAX 4096
#define TOKEN_BYTES 24 /* of randomness; the token has two hexadecimal digits for each */

/* The number of the line that a text ends in. */
static size_t line_of(const char *text)
{
	size_t n = 1;
	for (; *text; text++)
		n += *text == '\n';
	return n;
}

int cmd_open_text(const char *path, int *ret_fd, struct err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return err_sys(err, -errno, "cannot read %s", path);
	int rc = trust_check(fd, path, err);
	if (rc)
		close(fd);
	else
		*ret_fd = fd;
	return rc;
}

int cmd_read_open_text(int fd, const char *path, size_t max, char **ret, struct err *err)
{
	char *text = malloc(max + 1);
	size_t n = 0;
	ssize_t got = 0;
	if (!text)
		return err_set(err, -ENOMEM, "out of memory");
	while (n < max && (got = pread(fd, text + n, max - n, (off_t)n)) > 0)
		n += (size_t)got;
	if (got < 0 && errno == ESPIPE) /* a pipe or a terminal has no places */
		while (n < max && (got = read(fd, text + n, max - n)) > 0)
			n += (size_t)got;
	int rc = got < 0 ? -errno : 0;
	text[n] = 0;
	if (rc)
		err_sys(err, rc, "cannot read %s", path);
	else if (n == max)
		rc = err_set(err, -EINVAL, "%s: longer than %zu KiB", path, max >> 10);
	else if (memchr(text, 0, n))
		rc = err_set(err, -EINVAL, "%s:%zu: a NUL byte", path, line_of(text));
	if (rc) {
		cmd_wipe_text(text);
		return rc;
	}
	*ret = text;
	return 0;
}

int cmd_read_open_token(int fd, const char *path, char **ret, struct err *err)
{
	int rc = cmd_read_open_text(fd, path, TOKEN_FILE_MAX, ret, err);
	if (!rc)
		(*ret)[strcspn(*ret, " \t\r\n")] = 0;
	return rc;
}

void cmd_wipe_text(char *text)
{
	if (text)
		explicit_bzero(text, malloc_usable_size(text));
	free(text);
}

int cmd_read_text(const char *path, size_t max, char **ret, struct err *err)
{
	int fd;
	int rc = cmd_open_text(path, &fd, err);
	if (rc)
		return rc;
	rc = cmd_read_open_text(fd, path, max, ret, err);
	close(fd);
	return rc;
}

int cmd_read_token(const char *path, char **ret, struct err *err)
{
	int fd;
	int rc = cmd_open_text(path, &fd, err);
	if (rc)
		return rc;
	rc = cmd_read_open_token(fd, path, ret, err);
	close(fd);
	return rc;
}

int cmd_make_token(char **ret, struct err *err)
{
	unsigned char random[TOKEN_BYTES];
	char *text = malloc(2 * TOKEN_BYTES + 1);
	if (!text)
		return err_set(err, -ENOMEM, "out of memory");
	if (getrandom(random, sizeof(random), 0) != sizeof(random)) {
		free(text);
		return err_sys(err, -errno, "no randomness for a token");
	}
	for (size_t i = 0; i < TOKEN_BYTES; i++)
		snprintf(text + 2 * i, 3, "%02x", random[i]);
	explicit_bzero(random, sizeof(random));
	*ret = text;
	return 0;
}

static int write_token(const char *path, const char *token, struct err *err)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(err, -errno, "cannot write the token into %s", path);
	const struct iovec v[2] = { { (char *)(uintptr_t)token, strlen(token) },
				    { (char *)"\n", 1 } };
	int rc = writev(fd, v, 2) == (ssize_t)strlen(token) + 1 ? 0 : -EIO;
	close(fd);
	if (rc) {
		unlink(path);
		err_sys(err, rc, "cannot write the token into %s", path);
	}
	return rc;
}

int cmd_keep_token(const char *path, struct err *err)
{
	char *token;
	if (!access(path, F_OK))
		return 0;
	int rc = cmd_make_token(&token, err);
	if (rc)
		return rc;
	rc = write_token(path, token, err);
	cmd_wipe_text(token);
	return rc;
}
