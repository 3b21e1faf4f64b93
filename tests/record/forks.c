/* SPDX-License-Identifier: Apache-2.0 */
/* forks fork|vfork N: make N children, one after the other, which end at once. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static bool child_lives_and_ends(bool by_vfork)
{
	pid_t child = by_vfork ? vfork() : fork();
	if (!child)
		_exit(0);
	return child > 0 && waitpid(child, NULL, 0) == child;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	for (long left = atol(argv[2]); left; left--)
		if (!child_lives_and_ends(!strcmp(argv[1], "vfork")))
			return 1;
	return 0;
}
