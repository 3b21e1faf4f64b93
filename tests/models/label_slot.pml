/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The label slot: a thread attaches and detaches label sets, a signal handler does the same between
 * any two steps, and a sample reads the slots between any two steps of either.
 *
 * Stands for
 *   include/ascribe/label.h          ascribe_attach, ascribe_attach_string, ascribe_detach
 *   include/ascribe/label_module.h   ascribe_slot_load, ascribe_slot_put
 *   include/ascribe/otel.h           ascribe_slot_store, ascribe_otel_leave, ascribe_otel_may
 *   bpf/labels.bpf.h                 own_record
 *
 * A record has two words: its attributes, and the id that belongs to them. The thread builds one,
 * attaches it, detaches it and uses the memory again for another one. The handler does so with a
 * record of its own. Another thread switches OpenTelemetry's slot on, off when another publisher
 * has come, and on again.
 *
 * Proved: a sample never sees half a record, nor one whose memory is in use for something else. It
 * sees what was attached last and is not detached. While no store is under way, OpenTelemetry's
 * slot says the same as ours, or nothing.
 *
 * The sample runs on the CPU of the thread, so it sees the stores in program order. The compiler
 * keeps that order: the slot is stored by volatile assembly that clobbers memory.
 */
#define NONE 0
#define OF_THREAD 1
#define OF_HANDLER 2

mtype = { OFF, ON, LEFT };
mtype mode = OFF;
byte slot, otel_slot;
byte attributes[3], id[3];
bool alive[3];	/* the memory holds a record */
byte storing;	/* stores to the slots that are under way */
byte attached;	/* what a sample must find */
bool in_handler;

/* What this thread still shows of ours goes: ascribe_otel_leave */
inline leave(was, is, may_run)
{
	atomic { may_run -> shown = otel_slot }
	atomic {
		may_run;
		if
		:: shown && (shown == was || shown == is) -> otel_slot = NONE
		:: else
		fi
	}
}

/* ascribe_slot_store */
inline slot_store(r, may_run)
{
	atomic { may_run -> storing++; old = slot }
#if BROKEN == 2 /* OpenTelemetry's slot first */
	atomic { may_run -> now = mode }
	atomic {
		may_run;
		if
		:: now == ON -> otel_slot = r
		:: else
		fi
	}
	atomic { may_run -> slot = r; attached = r }
#elif BROKEN == 6 /* look whether we left before our slot moves on, and no more */
	atomic { may_run -> now = mode }
	if
	:: now == LEFT -> leave(old, NONE, may_run)
	:: else
	fi;
	atomic { may_run -> slot = r; attached = r }
	atomic { may_run -> now = mode }
	if
	:: now == ON -> atomic { may_run -> otel_slot = r }
	:: else
	fi
#else
#if BROKEN == 3 /* the mode is read before our slot moves on */
	atomic { may_run -> now = mode }
	atomic { may_run -> slot = r; attached = r }
#else
	atomic { may_run -> slot = r; attached = r }
	atomic { may_run -> now = mode }
#endif
	if
	:: now == ON -> atomic { may_run -> otel_slot = r }
	:: now == LEFT -> leave(old, r, may_run)
	:: else
	fi
#endif
	atomic { may_run -> storing-- }
}

/* ascribe_attach_string: the record is complete before its address is stored. */
inline attach(r, v, may_run)
{
	atomic { may_run -> before = slot; alive[r] = true; attributes[r] = v }
#if BROKEN == 1
	slot_store(r, may_run);
	atomic { may_run -> id[r] = v }
#else
	atomic { may_run -> id[r] = v }
	slot_store(r, may_run)
#endif
}

/* ascribe_detach: then the memory is used for something else. */
inline detach(r, may_run)
{
#if BROKEN == 4
	atomic { may_run -> alive[r] = false }
	slot_store(before, may_run)
#else
	slot_store(before, may_run);
	atomic { may_run -> alive[r] = false }
#endif
}

active proctype thread()
{
	byte n, before, old, shown;
	mtype now;
	for (n : 1 .. 2) {
		attach(OF_THREAD, n, !in_handler);
		detach(OF_THREAD, !in_handler)
	}
}

active proctype handler()
{
	byte before, old, shown;
	mtype now;
	in_handler = true;
	attach(OF_HANDLER, 3, true);
#if BROKEN == 5 /* it does not restore what it found */
	alive[OF_HANDLER] = false;
#else
	detach(OF_HANDLER, true);
#endif
	in_handler = false
}

active proctype another_thread()
{
	mode = ON;
	mode = LEFT;
	mode = ON
}

active proctype sample()
{
end:
	do
	:: atomic {
		assert(slot == attached);
		assert(!slot || (alive[slot] && attributes[slot] == id[slot]));
		assert(!otel_slot || alive[otel_slot]);
		assert(storing || !otel_slot || otel_slot == slot)
	}
	od
}
