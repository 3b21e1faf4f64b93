/* SPDX-License-Identifier: Apache-2.0 */
/*
 * include/luajit_wire.h against the headers of a LuaJIT, which no package has: -I of the src of its
 * source, after `make` there. 77: of an unknown version.
 */
#include "lj_obj.h"
#include "lj_bc.h"
#include "lj_dispatch.h"
#include "lj_frame.h"
#include "lj_jit.h"

#include "lj_bcdef.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#define __u8 uint8_t
#define __u16 uint16_t
#define __u32 uint32_t
#define __u64 uint64_t
#include "luajit_wire.h"

#define SAME(ours, theirs) \
	((ours) == (theirs) \
		 ? 0 \
		 : printf("%s is %zu, not %zu\n", #theirs, (size_t)(theirs), (size_t)(ours)))
#define FIELD_FROM(from, ours, o, theirs, t) \
	(SAME(offsetof(struct ours, o) + (from), offsetof(theirs, t)) | \
	 SAME(sizeof(((struct ours *)0)->o), sizeof(((theirs *)0)->t)))
#define FIELD(ours, o, theirs, t) FIELD_FROM(0, ours, o, theirs, t)

static int states(const struct luajit_layout *l)
{
	int bad = 0;
	bad |= SAME(l->dispatch, GG_G2DISP);
	bad |= SAME(LUAJIT_FRAME_STATE, CFRAME_OFS_L) | SAME(LUAJIT_FRAME_PC, CFRAME_OFS_PC);
	bad |= SAME(LUAJIT_FRAME_BYTES, CFRAME_SIZE);
	bad |= FIELD_FROM(LUAJIT_STATE_GLOBAL, luajit_state, global, lua_State, glref);
	bad |= FIELD_FROM(LUAJIT_STATE_GLOBAL, luajit_state, base, lua_State, base);
	bad |= FIELD_FROM(LUAJIT_STATE_GLOBAL, luajit_state, max, lua_State, maxstack);
	bad |= FIELD_FROM(LUAJIT_STATE_GLOBAL, luajit_state, stack, lua_State, stack);
	bad |= FIELD_FROM(LUAJIT_STATE_GLOBAL, luajit_state, frame, lua_State, cframe);
	bad |= SAME(LUAJIT_GLOBAL_STATE, offsetof(global_State, cur_L));
	bad |= SAME(LUAJIT_GLOBAL_BASE, offsetof(global_State, jit_base));
	bad |= SAME(1, LJ_GC64) | SAME(1, LJ_FR2);
	bad |= SAME(LUAJIT_LINK_TYPE, FRAME_TYPEP) | SAME(3, FRAME_TYPE);
	bad |= SAME(LUAJIT_LINK_LUA, FRAME_LUA) | SAME(LUAJIT_LINK_C, FRAME_C);
	bad |= SAME(LUAJIT_LINK_C, FRAME_CP & FRAME_TYPE);
	bad |= SAME(LUAJIT_LINK_CONT, FRAME_CONT) | SAME(LUAJIT_LINK_VARG, FRAME_VARG);
	bad |= SAME(LUAJIT_CONT_CALLBACK, LJ_CONT_FFI_CALLBACK);
	bad |= SAME(LUAJIT_POINTER(~0ull), LJ_GCVMASK);
	return bad;
}

static int functions(void)
{
	int bad = 0;
	bad |= FIELD(luajit_function, builtin, GCfuncL, ffid);
	bad |= FIELD(luajit_function, code, GCfuncL, pc);
	bad |= FIELD(luajit_function, c, GCfuncC, f);
	bad |= FIELD(luajit_function, type, GCfuncL, gct);
	bad |= SAME(LUAJIT_FUNCTION, (uint8_t)~LJ_TFUNC);
	bad |= SAME(LUAJIT_IS_LUA, FF_LUA) | SAME(LUAJIT_IS_C, FF_C);
	bad |= SAME(sizeof(struct luajit_proto), sizeof(GCproto));
	bad |= FIELD(luajit_proto, n_code, GCproto, sizebc);
	bad |= FIELD(luajit_proto, constants, GCproto, k);
	bad |= FIELD(luajit_proto, bytes, GCproto, sizept);
	bad |= FIELD(luajit_proto, chunk, GCproto, chunkname);
	bad |= FIELD(luajit_proto, line, GCproto, firstline);
	bad |= FIELD(luajit_proto, n_lines, GCproto, numline);
	bad |= FIELD(luajit_proto, lines, GCproto, lineinfo);
	bad |= FIELD(luajit_proto, upvalue_names, GCproto, uvinfo);
	bad |= FIELD(luajit_proto, local_names, GCproto, varinfo);
	bad |= SAME(sizeof(struct luajit_string), sizeof(GCstr));
	bad |= FIELD(luajit_string, id, GCstr, sid);
	bad |= FIELD(luajit_string, length, GCstr, len);
	return bad;
}

#define MODE(name, a, b, c, m) [BC_##name] = BCM##a,
static const unsigned modes[BC__MAX] = { BCDEF(MODE) };

static int bytecode(void)
{
	const BCIns i = BCINS_ABC(1, 2, 3, 4);
	int bad = 0;
	bad |= SAME(LUAJIT_A(i), bc_a(i));
	bad |= SAME(LUAJIT_C(i), bc_c(i)) | SAME(LUAJIT_D(i), bc_d(i));
	bad |= SAME(LUAJIT_MOV, BC_MOV) | SAME(LUAJIT_KNIL, BC_KNIL) | SAME(LUAJIT_UGET, BC_UGET);
	bad |= SAME(LUAJIT_GGET, BC_GGET) | SAME(LUAJIT_TGETS, BC_TGETS);
	bad |= SAME(LUAJIT_CALLM, BC_CALLM) | SAME(LUAJIT_ITERC, BC_ITERC);
	bad |= SAME(LUAJIT_ITERN, BC_ITERN);
	for (unsigned op = 0; op < BC__MAX; op++) {
		const bool is_a = op < 64 && LUAJIT_WRITES_A >> op & 1;
		const bool from_a = (op < 64 ? LUAJIT_WRITES_FROM_A >> op
					     : LUAJIT_WRITES_FROM_A_64 >> (op - 64)) &
				    1;
		if (is_a != (modes[op] == BCMdst) || from_a != (modes[op] == BCMbase))
			bad |= printf("bytecode %u writes to other slots\n", op);
	}
	return bad;
}

int main(void)
{
	const struct luajit_layout *l = luajit_layouts;
	while (l < luajit_layouts + LUAJIT_LAYOUTS &&
	       (l->hook != offsetof(global_State, hookf) || l->dispatch != GG_G2DISP))
		l++;
	printf("offsets %zu,%d\n", offsetof(global_State, hookf), (int)GG_G2DISP);
	if (l == luajit_layouts + LUAJIT_LAYOUTS)
		return 77;
	return states(l) | functions() | bytecode() ? 1 : 0;
}
