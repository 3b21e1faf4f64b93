/* SPDX-License-Identifier: Apache-2.0 */
/*
 * include/perl_wire.h against the headers of a Perl (Debian: libperl5.36). 77: another version.
 */
#include <EXTERN.h>
#include <perl.h>

#include <stddef.h>
#include <stdio.h>
#include <linux/types.h>
#include "perl_wire.h"

#define SAME(ours, theirs) \
	((ours) == (theirs) \
		 ? 0 \
		 : printf("%s is %zu, not %zu\n", #theirs, (size_t)(theirs), (size_t)(ours)))
#define FIELD(ours, o, at, theirs, t) \
	(SAME((at) + offsetof(struct ours, o), offsetof(theirs, t)) | \
	 SAME(sizeof(((struct ours *)0)->o), sizeof(((theirs *)0)->t)))

static int contexts(void)
{
	int bad = 0;
	bad |= FIELD(perl_stack, contexts, 0, PERL_SI, si_cxstack);
	bad |= FIELD(perl_stack, previous, 0, PERL_SI, si_prev);
	bad |= FIELD(perl_stack, top, 0, PERL_SI, si_cxix);
	bad |= FIELD(perl_stack, sub, 0, PERL_SI, si_cxsubix);
	bad |= FIELD(perl_stack, type, 0, PERL_SI, si_type);
	bad |= SAME(PERL_STACK_MAIN, PERLSI_MAIN) | SAME(PERL_STACK_SORT, PERLSI_SORT);
	bad |= SAME(PERL_CONTEXT_BYTES, sizeof(PERL_CONTEXT));
	bad |= FIELD(perl_context, type, 0, PERL_CONTEXT, cx_u.cx_blk.blku_type);
	bad |= FIELD(perl_context, cop, 0, PERL_CONTEXT, blk_oldcop);
	bad |= FIELD(perl_context, back, 0, PERL_CONTEXT, blk_sub.retop);
	bad |= FIELD(perl_context, back, 0, PERL_CONTEXT, blk_eval.retop);
	bad |= FIELD(perl_context, back, 0, PERL_CONTEXT, blk_format.retop);
	bad |= FIELD(perl_context, outer, 0, PERL_CONTEXT, blk_sub.old_cxsubix);
	bad |= FIELD(perl_context, outer, 0, PERL_CONTEXT, blk_eval.old_cxsubix);
	bad |= FIELD(perl_context, outer, 0, PERL_CONTEXT, blk_format.old_cxsubix);
	bad |= FIELD(perl_context, code, 0, PERL_CONTEXT, blk_sub.cv);
	bad |= FIELD(perl_context, code, 0, PERL_CONTEXT, blk_format.cv);
	bad |= SAME(PERL_TYPE(~0u), CXTYPEMASK) | SAME(PERL_IS_BLOCK_OF_SORT, CXt_NULL);
	bad |= SAME(PERL_IS_SUB, CXt_SUB) | SAME(PERL_IS_FORMAT, CXt_FORMAT);
	bad |= SAME(PERL_IS_EVAL, CXt_EVAL) | SAME(PERL_OF_REGEX, CXp_SUB_RE | CXp_SUB_RE_FAKE);
	bad |= SAME(PERL_OF_STRING, CXp_REAL) | SAME(PERL_OF_BLOCK, CXp_EVALBLOCK | CXp_TRY);
	return bad;
}

static int names(void)
{
	int bad = 0;
	bad |= FIELD(perl_cop, line, PERL_COP_AT, COP, cop_line);
	bad |= FIELD(perl_cop, file, PERL_COP_AT, COP, cop_file);
	bad |= SAME(0, offsetof(SV, sv_any));
	bad |= FIELD(perl_code, stash, PERL_BODY_AT, XPVCV, xcv_stash);
	bad |= FIELD(perl_code, name, PERL_BODY_AT, XPVCV, xcv_gv_u);
	bad |= FIELD(perl_code, flags, PERL_BODY_AT, XPVCV, xcv_flags);
	bad |= SAME(PERL_CODE_IS_NAMED, CVf_NAMED);
	bad |= FIELD(perl_glob, name, PERL_BODY_AT, XPVGV, xiv_u.xivu_namehek);
	bad |= FIELD(perl_glob, stash, PERL_BODY_AT, XPVGV, xnv_u.xgv_stash);
	bad |= FIELD(perl_stash, name, PERL_BODY_AT, struct xpvhv_with_aux, xhv_aux.xhv_name_u);
	bad |= FIELD(perl_stash, names, PERL_BODY_AT, struct xpvhv_with_aux,
		     xhv_aux.xhv_name_count);
	bad |= FIELD(perl_name, hash, 0, HEK, hek_hash) | FIELD(perl_name, length, 0, HEK, hek_len);
	bad |= SAME(sizeof(struct perl_name), offsetof(HEK, hek_key));
	bad |= SAME(PERL_NAME_IS_UTF8, HVhek_UTF8);
	return bad;
}

int main(void)
{
	const struct perl_layout *l = perl_layouts;
	while (l < perl_layouts + PERL_LAYOUTS && l->version != PERL_VERSION)
		l++;
	printf("Perl %d.%d\n", PERL_REVISION, PERL_VERSION);
	if (l == perl_layouts + PERL_LAYOUTS)
		return 77;
	int bad = contexts() | names();
	bad |= SAME(l->size, sizeof(struct interpreter));
	bad |= SAME(l->phase, offsetof(struct interpreter, Iphase));
	bad |= SAME(PERL_PHASE_IS_RUN, PERL_PHASE_RUN);
	bad |= FIELD(perl_now, cop, PERL_NOW_AT, struct interpreter, Icurcop);
	bad |= FIELD(perl_now, stack, PERL_NOW_AT, struct interpreter, Icurstackinfo);
	return bad != 0;
}
