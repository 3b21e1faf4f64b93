/* SPDX-License-Identifier: Apache-2.0 */
/*
 * It works in the cache directory and knows no other path of it. Each file is got by a process of
 * its own, which loads libdebuginfod (with curl and TLS, some thirty libraries). It is killed when
 * it takes too long, whatever it hangs in. What it leaves in the cache is opened and handed on
 * unread.
 */
#include "sandbox/downloader.h"

#include "sandbox/anew.h"
#include "sandbox/channel.h"
#include "sandbox/child_end.h"
#include "sandbox/confine.h"
#include "sandbox/download_cache.h"
#include "util/library.h"

#include <elfutils/debuginfod.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME "ascribe-debuginfod"
#define TRUNCATE (1ull << 14) /* LANDLOCK_ACCESS_FS_TRUNCATE, since Linux 6.2 */

struct downloader {
	int fd, files;
	const struct downloads_config *cfg;
};

static void to_hex(const uint8_t *id, size_t len, char out[DOWNLOAD_HEX_MAX])
{
	out[0] = '\0';
	for (size_t i = 0; i < len; i++)
		snprintf(out + 2 * i, 3, "%02x", id[i]);
}

/* ---- the process of one file ---- */

struct library {
	__typeof__(debuginfod_begin) *begin;
	__typeof__(debuginfod_find_debuginfo) *find;
	__typeof__(debuginfod_set_progressfn) *set_progress;
};

static int load_library(struct library *l)
{
	void *lib = library_open(DEBUGINFOD_SONAME);
	if (!lib)
		return -ELIBACC;
	l->begin = (__typeof__(l->begin))library_symbol(lib, "debuginfod_begin");
	l->find = (__typeof__(l->find))library_symbol(lib, "debuginfod_find_debuginfo");
	l->set_progress =
		(__typeof__(l->set_progress))library_symbol(lib, "debuginfod_set_progressfn");
	return l->begin && l->find && l->set_progress ? 0 : -ELIBACC;
}

static uint64_t most_bytes;
static bool over_limit;

/*
 * Not 0: give up. want is 0 as long as there is no answer (have then counts calls), -1 when the
 * server does not say how long the file is (have is bytes then).
 */
static int progress(debuginfod_client *c, long have, long want)
{
	(void)c;
	over_limit |=
		want && ((want > 0 && (uint64_t)want > most_bytes) || (uint64_t)have > most_bytes);
	return over_limit;
}

static void set_environment(const struct downloads_config *cfg)
{
	char number[32];
	setenv(DEBUGINFOD_CACHE_PATH_ENV_VAR, ".", 1);
	setenv(DEBUGINFOD_RETRY_LIMIT_ENV_VAR, "0", 1);
	snprintf(number, sizeof(number), "%u", cfg->file_s);
	setenv(DEBUGINFOD_TIMEOUT_ENV_VAR, number, 1);
	setenv(DEBUGINFOD_MAXTIME_ENV_VAR, number, 1);
	snprintf(number, sizeof(number), "%llu", (unsigned long long)cfg->file_bytes);
	setenv(DEBUGINFOD_MAXSIZE_ENV_VAR, number, 1);
}

/*
 * Whoever was taken over by a server's answer can spoil no other file: those of other programs stay
 * in the cache for days.
 */
int downloader_confine(const char *hex, uint64_t file_bytes)
{
	const uint64_t write = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE |
			       (role_path_file & TRUNCATE),
		       own = write | LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
			     LANDLOCK_ACCESS_FS_REMOVE_FILE;
	struct role_path paths[1 + DOWNLOAD_SETTINGS] = { { hex, own } };
	for (size_t i = 0; i < DOWNLOAD_SETTINGS; i++)
		paths[1 + i] = (struct role_path){ download_settings[i], write };
	const struct confine_given given = { .file_bytes = file_bytes,
					     .paths = paths,
					     .n_paths = sizeof(paths) / sizeof(paths[0]) };
	return confine_reach(ROLE_FETCHER, &given);
}

static int find(const struct downloads_config *cfg, const char *hex, const uint8_t *id, size_t len)
{
	struct library l;
	most_bytes = cfg->file_bytes;
	signal(SIGXFSZ, SIG_IGN); /* writing fails, then */
	set_environment(cfg);
	int rc = downloader_confine(hex, cfg->file_bytes);
	rc = rc ? rc : load_library(&l);
	debuginfod_client *c = rc ? NULL : l.begin();
	if (!rc && !c)
		rc = -ENOMEM;
	if (rc)
		return rc;
	l.set_progress(c, progress);
	rc = l.find(c, id, (int)len, NULL);
	if (over_limit) /* the library says that there is no such file */
		return -EFBIG;
	return rc < 0 ? rc : 0;
}

/* ---- the downloader ---- */

struct under_way {
	const struct downloader *d;
	const char *hex;
};

/* One file that was there, and the one that replaces it. */
static bool fits(const void *ctx)
{
	const struct under_way *u = ctx;
	return download_cache_fits(u->d->files, u->hex, 2 * u->d->cfg->file_bytes);
}

/* 0 or -errno: what the process said as its status, or why it was killed. */
static int wait_for_it(const struct downloader *d, const char *hex, pid_t pid)
{
	const struct under_way u = { d, hex };
	int status = 0;
	int rc = child_end(pid, d->fd, d->cfg->file_s, fits, &u, &status);
	return rc ? rc : WIFEXITED(status) ? -WEXITSTATUS(status) : -EPROTO;
}

static int get(struct downloader *d, const uint8_t *id, size_t len, int *ret_fd)
{
	char hex[DOWNLOAD_HEX_MAX];
	to_hex(id, len, hex);
	int rc = download_cache_begin(d->files, hex);
	if (rc)
		return rc;
	pid_t parent = getpid(), pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, roles[ROLE_FETCHER].name);
		close(d->fd);
		if (getppid() != parent)
			_exit(0);
		_exit(-find(d->cfg, hex, id, len) & 0xff);
	}
	rc = wait_for_it(d, hex, pid);
	download_cache_end(d->files, hex);
	rc = rc ? rc : download_cache_file(d->files, hex, ret_fd);
	download_cache_trim(d->files, d->cfg->cache_bytes, d->cfg->cache_age_s);
	return rc;
}

static int obey(struct downloader *d)
{
	uint8_t id[DOWNLOADS_ID_MAX];
	char hex[DOWNLOAD_HEX_MAX];
	struct channel_head h, answer = { 0 };
	size_t none;
	int file = -1;
	int rc = channel_recv_head(d->fd, &h, NULL, 0, &none, CHANNEL_FOREVER);
	if (rc || h.len > sizeof(id))
		return -EBADMSG;
	rc = channel_recv(d->fd, id, h.len, CHANNEL_FOREVER);
	if (rc)
		return rc;
	if (h.what == DOWNLOADER_DISCARD) {
		to_hex(id, h.len, hex);
		download_cache_remove(d->files, hex);
		return 0;
	}
	if (h.what == DOWNLOADER_LOOK) {
		to_hex(id, h.len, hex);
		answer.what = download_cache_file(d->files, hex, &file) ? -ENODATA : 0;
	} else {
		answer.what = get(d, id, h.len, &file);
	}
	rc = channel_send(d->fd, &answer, NULL, &file, file >= 0, CHANNEL_FOREVER);
	if (file >= 0)
		close(file);
	return rc;
}

static _Noreturn void run(int fd, int cache, const struct downloads_config *cfg)
{
	struct downloader d = { .fd = fd, .cfg = cfg };
	confine_signals();
	umask(077);
	if (fchdir(cache) || confine_rights(ROLE_DOWNLOADER, fd))
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* becoming somebody else has cleared it */
	d.files = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (d.files < 0)
		_exit(1);
	while (!obey(&d))
		;
	_exit(0);
}

/* ---- executed anew ---- */

#define ARGUMENTS 4 /* the numbers of the configuration */

/*
 * What it may know of the recorder's environment: the servers, and how to get out of this network.
 * Not among the arguments: other users can see those.
 */
static const char *const kept[] = { "http_proxy", "https_proxy",   "HTTPS_PROXY",
				    "all_proxy",  "ALL_PROXY",	   "no_proxy",
				    "NO_PROXY",	  "SSL_CERT_FILE", "SSL_CERT_DIR" };
#define N_KEPT (sizeof(kept) / sizeof(kept[0]))

/* Free each of envp, which ends with NULL. */
static void free_environment(char **envp)
{
	for (; *envp; envp++)
		free(*envp);
}

static int make_environment(const char *urls, char *envp[N_KEPT + 2])
{
	size_t n = 0;
	bool full = asprintf(&envp[n], "%s=%s", DEBUGINFOD_URLS_ENV_VAR, urls) >= 0;
	n += full;
	for (size_t i = 0; full && i < N_KEPT; i++) {
		const char *value = getenv(kept[i]);
		if (!value)
			continue;
		full = asprintf(&envp[n], "%s=%s", kept[i], value) >= 0;
		n += full;
	}
	envp[n] = NULL;
	return full ? 0 : -ENOMEM;
}

/* Become the downloader before main(), as in nursery.c. */
__attribute__((constructor)) static void downloader_main(int argc, char **argv)
{
	if (argc != 1 + ARGUMENTS || strcmp(argv[0], NAME) != 0 || anew_gains_rights())
		return;
	const struct downloads_config cfg = {
		.file_bytes = strtoull(argv[1], NULL, 10),
		.file_s = (unsigned)strtoul(argv[2], NULL, 10),
		.cache_bytes = strtoull(argv[3], NULL, 10),
		.cache_age_s = (unsigned)strtoul(argv[4], NULL, 10),
	};
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	run(ANEW_FD, ANEW_FD + 1, &cfg);
}

static int fork_downloader(const struct downloads_config *cfg, int fd, int cache, char **envp,
			   pid_t *ret_pid)
{
	pid_t pid = fork();
	if (pid == 0) {
		environ = envp;
		run(fd, cache, cfg);
	}
	if (pid < 0)
		return -errno;
	*ret_pid = pid;
	return 0;
}

int downloader_start(const struct downloads_config *cfg, int fd, int cache, pid_t *ret_pid)
{
	char number[ARGUMENTS][24], *envp[N_KEPT + 2];
	char *argv[] = { (char *)NAME, number[0], number[1], number[2], number[3], NULL };
	const int fds[] = { fd, cache };
	snprintf(number[0], sizeof(number[0]), "%llu", (unsigned long long)cfg->file_bytes);
	snprintf(number[1], sizeof(number[1]), "%u", cfg->file_s);
	snprintf(number[2], sizeof(number[2]), "%llu", (unsigned long long)cfg->cache_bytes);
	snprintf(number[3], sizeof(number[3]), "%u", cfg->cache_age_s);
	int rc = make_environment(cfg->urls, envp);
	rc = rc			   ? rc
	     : anew_gains_rights() ? fork_downloader(cfg, fd, cache, envp, ret_pid)
				   : anew_spawn(argv, envp, fds, 2, ret_pid);
	free_environment(envp);
	return rc;
}
