/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shorter names for reading and grouping: what a compiler or the instantiation of a template added
 * goes. Works on the text that is shown (demangled C++, Rust, Go, Java, ...); what does not look
 * like a name with arguments stays as it is.
 */
#ifndef ASCRIBE_SYMBOLS_NAMES_H
#define ASCRIBE_SYMBOLS_NAMES_H

#include <stddef.h>

/*
 * "foo.isra.0", "foo.part.2.cold", "foo(int) [clone .constprop.0]" -> "foo", "foo(int)". Writes at
 * most cap bytes with a NUL.
 */
void name_fold_clones(const char *name, char *out, size_t cap);

/*
 * Clones folded, and template arguments, parameters, return types and qualifiers left out:
 *
 *   std::vector<int, std::allocator<int> >::push_back(int const&)   std::vector::push_back
 *   Foo::Foo(Foo const&)                                            Foo::copy_construct
 *   Foo::Foo(Foo&&)                                                 Foo::move_construct
 *   main::{lambda(int)#1}::operator()(int) const                    main::{lambda#1}::operator()
 *   std::enable_if<(sizeof (Foo))>(4), void>::type f<Foo>(Foo)      f
 *
 * A name whose brackets do not add up stays as it is, but for its clones.
 */
void name_simplify(const char *name, char *out, size_t cap);

#endif
