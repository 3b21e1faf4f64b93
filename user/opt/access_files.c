/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/access_files.h"

#include "opt/files.h"

static int read_one(struct access *a, int fd, const char *name, unsigned may, struct err *err)
{
	char *token = NULL;
	int rc = fd >= 0 ? cmd_read_open_token(fd, name, &token, err) : 0;
	if (!rc && fd >= 0)
		rc = access_add(a, name, token, may, err);
	cmd_wipe_text(token);
	return rc;
}

int access_read(struct access *a, const struct access_files *files, struct err *err)
{
	const int *fd = files->fd;
	const unsigned usual = ACCESS_READ | ACCESS_INGEST;
	char *text = NULL;
	*a = (struct access){ .v = NULL };
	int rc = read_one(a, fd[ACCESS_FILE_TOKEN], "token", usual, err);
	rc = rc ? rc
		: read_one(a, fd[ACCESS_FILE_CAPTURE], "capture-token", usual | ACCESS_CAPTURE,
			   err);
	if (!rc && fd[ACCESS_FILE_TOKENS] >= 0)
		rc = cmd_read_open_text(fd[ACCESS_FILE_TOKENS], "tokens-file", ACCESS_FILE_MAX,
					&text, err);
	if (!rc && text)
		rc = access_parse(a, text, err);
	cmd_wipe_text(text);
	return rc;
}
