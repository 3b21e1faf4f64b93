/* SPDX-License-Identifier: Apache-2.0 */
#include "util/library.h"

#include <stdio.h>

#ifdef ASCRIBE_STATIC

#include <nss.h>

const bool library_any = false;

/*
 * Users and groups come from /etc/passwd and /etc/group alone: other sources are libraries of the
 * host (nsswitch.conf), which need the C library that they were built with.
 */
__attribute__((constructor)) static void read_names_from_files(void)
{
	__nss_configure_lookup("passwd", "files");
	__nss_configure_lookup("group", "files");
}

void *library_open(const char *soname)
{
	(void)soname;
	return NULL;
}

void *library_symbol(void *library, const char *name)
{
	(void)library;
	(void)name;
	return NULL;
}

const char *library_missing(const char *soname, const char *package)
{
	static char text[160];
	(void)package;
	snprintf(text, sizeof(text),
		 "this is the static program, which loads no %s: install the package of ascribe",
		 soname);
	return text;
}

#else

#include <dlfcn.h>

const bool library_any = true;

void *library_open(const char *soname)
{
	return dlopen(soname, RTLD_NOW | RTLD_LOCAL);
}

void *library_symbol(void *library, const char *name)
{
	return dlsym(library, name);
}

const char *library_missing(const char *soname, const char *package)
{
	static char text[160];
	snprintf(text, sizeof(text), "cannot load %s: install %s", soname, package);
	return text;
}

#endif
