/* SPDX-License-Identifier: Apache-2.0 */
#include "opt/debuginfod.h"

#include "opt/message.h"
#include "util/buf.h"
#include "util/library.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FROM_ENVIRONMENT "DEBUGINFOD_URLS"

static int add_url(struct buf *out, const char *url, size_t len, const char *from, struct err *err)
{
	bool web = (len > 7 && !strncmp(url, "http://", 7)) ||
		   (len > 8 && !strncmp(url, "https://", 8));
	for (size_t i = 0; i < len; i++)
		web &= url[i] > ' ' && url[i] < 0x7f;
	if (!web)
		return err_set(err, -EINVAL,
			       "%s: '%.*s' is no server: it must begin with http:// or https://",
			       from, (int)len, url);
	return buf_printf(out, "%s%.*s", out->len ? " " : "", (int)len, url);
}

static int add_environment(struct buf *out, struct err *err)
{
	const char *p = getenv(FROM_ENVIRONMENT);
	int rc = 0;
	if (!p || !p[strspn(p, " \t\n")])
		return err_set(err, -EINVAL, "--debuginfod env: " FROM_ENVIRONMENT " is not set");
	for (p += strspn(p, " \t\n"); !rc && *p; p += strspn(p, " \t\n")) {
		size_t len = strcspn(p, " \t\n");
		rc = add_url(out, p, len, FROM_ENVIRONMENT, err);
		p += len;
	}
	return rc;
}

static int default_cache(char *out, size_t cap, struct err *err)
{
	const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	int n;
	if (xdg && xdg[0] == '/')
		n = snprintf(out, cap, "%s/ascribe/debuginfod", xdg);
	else if (geteuid() == 0)
		n = snprintf(out, cap, "/var/cache/ascribe/debuginfod");
	else if (home && home[0] == '/')
		n = snprintf(out, cap, "%s/.cache/ascribe/debuginfod", home);
	else
		return err_set(err, -EINVAL,
			       "no place for downloaded files: give --debuginfod-cache DIR");
	return n < (int)cap ? 0 : err_set(err, -EINVAL, "the path of the cache is too long");
}

/* For tests: limits that are reached soon. */
static unsigned long from_environment(const char *name)
{
	const char *v = getenv(name);
	return v ? strtoul(v, NULL, 10) : 0;
}

static int make_list(const struct opt_list *urls, struct buf *out, struct err *err)
{
	int rc = 0;
	if (!library_any)
		return err_set(err, -ELIBACC, "--debuginfod: %s",
			       library_missing("libdebuginfod.so.1", "libdebuginfod1"));
	for (size_t i = 0; !rc && i < urls->n; i++)
		rc = strcmp(urls->v[i], "env")
			     ? add_url(out, urls->v[i], strlen(urls->v[i]), "--debuginfod", err)
			     : add_environment(out, err);
	return rc ? rc : buf_add_u8(out, 0);
}

int debuginfod_check(const struct opt_list *urls, struct err *err)
{
	struct buf list = BUF_INIT;
	int rc = make_list(urls, &list, err);
	buf_fini(&list);
	return rc;
}

int debuginfod_start(struct downloads **ret, const struct opt_list *urls, const char *cache,
		     struct err *err)
{
	struct buf list = BUF_INIT;
	char dir[PATH_MAX];
	int rc = cache ? 0 : default_cache(dir, sizeof(dir), err);
	rc = rc ? rc : make_list(urls, &list, err);
	struct downloads_config cfg = {
		.urls = (const char *)list.data,
		.cache = cache ? cache : dir,
		.file_bytes = (uint64_t)from_environment("ASCRIBE_DEBUGINFOD_MIB") << 20,
		.file_s = (unsigned)from_environment("ASCRIBE_DEBUGINFOD_S"),
	};
	rc = rc ? rc : downloads_new(ret, &cfg, err);
	buf_fini(&list);
	return rc;
}

void debuginfod_print(const struct downloads *d)
{
	struct downloads_stats s;
	downloads_stats(d, &s);
	if (s.asked)
		fprintf(stderr,
			"ascribe: debuginfod: of %" PRIu64 " build ids %" PRIu64
			" debug files came, %" PRIu64 " are not to be had, %" PRIu64
			" are still waited for\n",
			s.asked, s.came, s.absent, s.waiting);
	if (s.refused)
		cmd_warn("debuginfod: %" PRIu64
			 " files refused: of another build, damaged, or over a limit",
			 s.refused);
	if (s.failed)
		cmd_warn("debuginfod: %" PRIu64
			 " requests without an answer: no server there, or too slow",
			 s.failed);
}
