/* SPDX-License-Identifier: Apache-2.0 */
/* Two threads, each with half of the trials. */
#define NO_MAIN
#include "truth.h"

#include <pthread.h>

static NOINLINE void by(part_fn *part, unsigned n)
{
	part(n);
	sink++; /* no tail call */
}

static void *thread(void *argv)
{
	trials(argv);
	sink++;
	return NULL;
}

int main(int argc, char **argv)
{
	char n[2][16], first[2][16];
	char *args[2][4];
	pthread_t t[2];
	if (argc < 4)
		return 2;
	const int all = atoi(argv[1]);
	for (int i = 0; i < 2; i++) {
		snprintf(n[i], sizeof(n[i]), "%d", i ? all - all / 2 : all / 2);
		snprintf(first[i], sizeof(first[i]), "%d", atoi(argv[3]) + (i ? all / 2 : 0));
		args[i][0] = argv[0];
		args[i][1] = n[i];
		args[i][2] = argv[2];
		args[i][3] = first[i];
		pthread_create(&t[i], NULL, thread, args[i]);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	return 0;
}
