/* SPDX-License-Identifier: Apache-2.0 */
/* Two interpreters, each in a thread, that run App::main of load.pl: embed load.pl SECONDS */
#include <EXTERN.h>
#include <perl.h>

#include <pthread.h>

EXTERN_C void boot_DynaLoader(pTHX_ CV *cv);

static void with_modules(pTHX)
{
	newXS("DynaLoader::boot_DynaLoader", boot_DynaLoader, __FILE__);
}

static char **arguments;
static PerlInterpreter *interpreters[2];

__attribute__((noinline)) static void *start(void *perl)
{
	pTHX = perl;
	PERL_SET_CONTEXT(aTHX);
	dSP;
	ENTER;
	SAVETMPS;
	PUSHMARK(SP);
	XPUSHs(sv_2mortal(newSVpv(arguments[2], 0)));
	PUTBACK;
	call_pv("App::main", G_DISCARD);
	FREETMPS;
	LEAVE;
	return NULL;
}

int main(int argc, char **argv, char **env)
{
	pthread_t threads[2];
	pTHX;
	char *of[] = { "", argv[1], "load_only", "0", NULL };
	PERL_SYS_INIT3(&argc, &argv, &env);
	arguments = argv;
	for (int i = 0; i < 2; i++) {
		my_perl = interpreters[i] = perl_alloc();
		PERL_SET_CONTEXT(my_perl);
		perl_construct(my_perl);
		PL_exit_flags |= PERL_EXIT_DESTRUCT_END;
		perl_parse(my_perl, with_modules, 4, of, NULL);
		perl_run(my_perl);
	}
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, start, interpreters[i]);
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], NULL);
		my_perl = interpreters[i];
		PERL_SET_CONTEXT(my_perl);
		call_pv("App::print_times", G_DISCARD | G_NOARGS);
	}
	return 0;
}
