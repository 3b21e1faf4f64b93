/* SPDX-License-Identifier: Apache-2.0 */
/* What other.c calls in OCaml. */
#include <caml/callback.h>
#include <caml/mlvalues.h>
#include <stddef.h>

void call_three(unsigned n);
void call_one(unsigned n);
void start_ocaml(void);

static const value *three, *one;

void start_ocaml(void)
{
	static char name[] = "truth";
	static char *argv[] = { name, NULL };
	caml_startup(argv);
	three = caml_named_value("three");
	one = caml_named_value("one");
}

void call_three(unsigned n)
{
	caml_callback(*three, Val_int(n));
}

void call_one(unsigned n)
{
	caml_callback(*one, Val_int(n));
}
