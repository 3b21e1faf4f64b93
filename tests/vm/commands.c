/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int run(char *text, size_t size, const char *fmt, ...)
{
	char command[512], line[2000];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(command, sizeof(command), fmt, ap);
	va_end(ap);
	FILE *p = popen(command, "r");
	size_t n = 0;
	if (!p)
		return -1;
	while (fgets(line, sizeof(line), p)) {
		if (text && n < size)
			n += (size_t)snprintf(text + n, size - n, "%s", line);
	}
	int status = pclose(p);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

pid_t spawn(const char *a, const char *b, const char *c, const char *d)
{
	pid_t child = fork();
	if (child)
		return child;
	execlp(a, a, b, c, d, NULL);
	_exit(127);
}

int finish(pid_t child)
{
	int status;
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

void rest(int ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000l };
	nanosleep(&t, NULL);
}

void end_child(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

pid_t record(const char *fmt, ...)
{
	char args[200], command[300], text[200];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(args, sizeof(args), fmt, ap);
	va_end(ap);
	snprintf(command, sizeof(command), "exec ascribe record -F 99 %s 2>/tmp/recorder", args);
	unlink("/tmp/recorder");
	pid_t child = spawn("sh", "-c", command, NULL);
	for (int i = 0; i < 300; i++) {
		rest(100);
		FILE *f = fopen("/tmp/recorder", "re");
		bool ready =
			f && fgets(text, sizeof(text), f) && strstr(text, "ascribe: recording ");
		if (f)
			fclose(f);
		if (ready)
			break;
	}
	return child;
}

int stop(pid_t recorder)
{
	kill(recorder, SIGINT);
	return finish(recorder);
}

bool put(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");
	if (!f)
		return false;
	bool ok = fputs(text, f) >= 0;
	return !fclose(f) && ok;
}
