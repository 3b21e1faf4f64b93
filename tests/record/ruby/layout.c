/* SPDX-License-Identifier: Apache-2.0 */
/*
 * include/ruby_wire.h against the headers of a Ruby. 77: of an unknown version. Ruby 3.1's
 * development package has them all in one file: -DRUBY_HEADER='"rb_mjit_min_header-3.1.2.h"', and
 * -D for the API's version. Of others the source has them: -I of its folder and its include/, by
 * absolute paths, and of where config.h is.
 */
#ifdef RUBY_HEADER
#include RUBY_HEADER
#else
#include "vm_core.h"
#include "internal/class.h"
#include "internal/imemo.h"
#include "iseq.h"
#include "method.h"
#include "ruby/version.h"
#include "vm_debug.h"
#endif

#include <stddef.h>
#include <stdio.h>
#define __u16 uint16_t
#define __u32 uint32_t
#define __u64 uint64_t
#include "ruby_wire.h"

#define SAME(ours, theirs) \
	((ours) == (theirs) \
		 ? 0 \
		 : printf("%s is %zu, not %zu\n", #theirs, (size_t)(theirs), (size_t)(ours)))
#define FIELD(ours, o, theirs, t) \
	(SAME(offsetof(struct ours, o), offsetof(theirs, t)) | \
	 SAME(sizeof(((struct ours *)0)->o), sizeof(((theirs *)0)->t)))

static int frames(const struct ruby_layout *l)
{
	int bad = 0;
	bad |= FIELD(ruby_context, stack, rb_execution_context_t, vm_stack);
	bad |= FIELD(ruby_context, words, rb_execution_context_t, vm_stack_size);
	bad |= FIELD(ruby_context, frame, rb_execution_context_t, cfp);
	bad |= SAME(l->frame_size, sizeof(rb_control_frame_t));
	bad |= FIELD(ruby_frame, iseq, rb_control_frame_t, iseq);
	bad |= FIELD(ruby_frame, env, rb_control_frame_t, ep);
	bad |= SAME(RUBY_ISEQ_BODY, offsetof(rb_iseq_t, body));
	bad |= SAME(l->location, offsetof(struct rb_iseq_constant_body, location));
	bad |= FIELD(ruby_location, path, rb_iseq_location_t, pathobj);
	bad |= FIELD(ruby_location, label, rb_iseq_location_t, label);
	bad |= SAME(offsetof(struct ruby_location, line),
		    offsetof(rb_iseq_location_t, first_lineno));
	bad |= SAME(l->line_shift ? sizeof(VALUE) : sizeof(int),
		    sizeof(((rb_iseq_location_t *)0)->first_lineno));
	bad |= SAME(RUBY_FRAME_MASK, VM_FRAME_MAGIC_MASK);
	bad |= SAME(RUBY_FRAME_DUMMY, VM_FRAME_MAGIC_DUMMY);
	bad |= SAME(RUBY_FRAME_FINISH, VM_FRAME_FLAG_FINISH);
	bad |= SAME(RUBY_FRAME_C, VM_FRAME_FLAG_CFRAME);
	bad |= SAME(RUBY_ENV_LOCAL, VM_ENV_FLAG_LOCAL);
	bad |= SAME(-(int)RUBY_ENV_METHOD / 8, VM_ENV_DATA_INDEX_ME_CREF);
	bad |= SAME(-(int)RUBY_ENV_OUTER / 8, VM_ENV_DATA_INDEX_SPECVAL);
	bad |= SAME(0, VM_ENV_DATA_INDEX_FLAGS);
	return bad;
}

static int objects(const struct ruby_layout *l)
{
	const VALUE imemo = IMEMO_MASK << FL_USHIFT | RUBY_T_MASK;
	int bad = 0;
	bad |= SAME(RUBY_TYPE(~0u), RUBY_T_MASK);
	bad |= SAME(RUBY_CLASS, T_CLASS) | SAME(RUBY_MODULE, T_MODULE);
	bad |= SAME(RUBY_STRING, T_STRING) | SAME(RUBY_ARRAY, T_ARRAY);
	bad |= SAME(RUBY_IMEMO_MASK, imemo);
	bad |= SAME(RUBY_IMEMO_HOLDER, imemo_svar << FL_USHIFT | T_IMEMO);
	bad |= SAME(RUBY_IMEMO_METHOD, imemo_ment << FL_USHIFT | T_IMEMO);
	bad |= SAME(RUBY_SINGLETON, FL_SINGLETON);
	bad |= SAME(RUBY_EMBEDDED, RARRAY_EMBED_FLAG) | SAME(RUBY_EMBEDDED, RSTRING_NOEMBED);
	bad |= SAME(RUBY_HOLDER_METHOD, offsetof(struct vm_svar, cref_or_me));
	bad |= SAME(RUBY_METHOD_OWNER, offsetof(rb_callable_method_entry_t, owner));
	bad |= SAME(offsetof(struct ruby_object, length), offsetof(struct RArray, as.ary));
	bad |= SAME(offsetof(struct ruby_object, elements), offsetof(struct RArray, as.heap.ptr));
	bad |= SAME(offsetof(struct ruby_object, bytes), offsetof(struct RString, as.heap.ptr));
#if RUBY_API_VERSION_MAJOR == 3 && RUBY_API_VERSION_MINOR < 2
	bad |= SAME(offsetof(struct ruby_object, length), offsetof(struct RString, as.heap.len));
	bad |= SAME(l->embedded, offsetof(struct RString, as.embed.ary));
	bad |= SAME(RUBY_LENGTH(~0u), RSTRING_EMBED_LEN_MASK >> RSTRING_EMBED_LEN_SHIFT);
	bad |= SAME(RUBY_LENGTH(1u << RSTRING_EMBED_LEN_SHIFT), 1);
	bad |= SAME(l->class_name, 0);
#else
	bad |= SAME(offsetof(struct ruby_object, length), offsetof(struct RString, len));
	bad |= SAME(l->embedded, offsetof(struct RString, as.embed.ary));
	bad |= SAME(l->class_name, offsetof(struct RClass_and_rb_classext_t, classext.classpath));
	bad |= SAME(l->class_attached, offsetof(struct RClass_and_rb_classext_t,
						classext.as.singleton_class.attached_object));
#endif
	return bad;
}

int main(void)
{
	const struct ruby_layout *l = ruby_layouts;
	const __u32 version = RUBY_API_VERSION_MAJOR << 8 | RUBY_API_VERSION_MINOR;
	while (l < ruby_layouts + RUBY_LAYOUTS && l->version != version)
		l++;
	printf("Ruby %d.%d\n", RUBY_API_VERSION_MAJOR, RUBY_API_VERSION_MINOR);
	if (l == ruby_layouts + RUBY_LAYOUTS || VM_DEBUG_BP_CHECK)
		return 77;
	return frames(l) || objects(l);
}
