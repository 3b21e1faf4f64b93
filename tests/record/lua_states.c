/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that embeds LuaJIT by its C library: lua_states FILE ARGUMENT... runs the file in a
 * state of its own in each of two threads. The library is loaded at run time, so this needs no
 * headers of it.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct lua_State lua_State;
#define GLOBALS (-10002) /* LUA_GLOBALSINDEX */

static void *library;
static int n_args;
static char **args;

#define CALL(type, name, ...) ((type)dlsym(library, name))(__VA_ARGS__)

static void *run(void *unused)
{
	lua_State *l = CALL(lua_State * (*)(void), "luaL_newstate");
	(void)unused;
	CALL(void (*)(lua_State *), "luaL_openlibs", l);
	CALL(void (*)(lua_State *, int, int), "lua_createtable", l, 0, 0);
	for (int i = 0; i < n_args; i++) {
		CALL(void (*)(lua_State *, const char *), "lua_pushstring", l, args[i]);
		CALL(void (*)(lua_State *, int, int), "lua_rawseti", l, -2, i);
	}
	CALL(void (*)(lua_State *, int, const char *), "lua_setfield", l, GLOBALS, "arg");
	if (CALL(int (*)(lua_State *, const char *), "luaL_loadfile", l, args[0]) ||
	    CALL(int (*)(lua_State *, int, int, int), "lua_pcall", l, 0, 0, 0))
		fprintf(stderr, "%s\n",
			CALL(const char *(*)(lua_State *, int, void *), "lua_tolstring", l, -1,
			     NULL));
	CALL(void (*)(lua_State *), "lua_close", l);
	return NULL;
}

int main(int n, char **v)
{
	pthread_t thread[2];
	library = dlopen("libluajit-5.1.so.2", RTLD_NOW);
	if (!library || n < 2) {
		fprintf(stderr, "%s\n", library ? "no file" : dlerror());
		return 77;
	}
	args = v + 1;
	n_args = n - 1;
	for (int i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, run, NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	return 0;
}
