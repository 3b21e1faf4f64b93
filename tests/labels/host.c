/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host PLUGIN.so ...: runs plugins, loaded or linked (-DLINKED), with labels of its own
 * (-DLABELLED) or none.
 */
#include "linkage.h"

#include <ascribe/label_abi.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

struct ascribe_label_set;
#ifdef LABELLED
#include <ascribe/label.h>

#include "reader.h"
#endif

C_LINKAGE int plugin_run(const struct ascribe_label_set *foreign);

typedef int (*plugin_fn)(const struct ascribe_label_set *);

static const struct ascribe_label_set *foreign;

static void *run(void *fn)
{
	return ((plugin_fn)fn)(foreign) ? fn : NULL;
}

int main(int argc, char **argv)
{
	int bad = 0;
	pthread_t thread;
	void *failed;
#ifdef LABELLED
	struct ascribe_label_set set;
	struct reading r;
	ascribe_key("number 0 is another key here", 28, ASCRIBE_KEY_STRING);
	ascribe_set_init(&set);
	ascribe_set_add_string(&set, "tenant", "host");
	ascribe_set_add_int(&set, "n", 1);
	foreign = &set;
	ASCRIBE_LABEL_SCOPE("host", 1);
#endif
	for (int i = 1; i < argc; i++) {
		void *lib = dlopen(argv[i], RTLD_NOW);
		void *fn = lib ? dlsym(lib, "plugin_run") : NULL;
		if (!fn) {
			printf("%s\n", dlerror());
			bad++;
			continue;
		}
		bad += run(fn) != NULL;
		pthread_create(&thread, NULL, run, fn);
		pthread_join(thread, &failed);
		bad += failed != NULL;
	}
#ifdef LINKED
	bad += plugin_run(foreign);
#endif
#ifdef LABELLED
	const char *wrong = reader_read("/host", &r);
	if (wrong || r.modules != 1 || strcmp(r.text, "host=#1")) {
		printf("host: %s \"%s\"\n", wrong ? wrong : "", r.text);
		bad++;
	}
#endif
	puts(bad ? "FAIL" : "PASS");
	return bad != 0;
}
