// SPDX-License-Identifier: Apache-2.0
// The two functions in D; truth.h is what calls them (other.c).
module parts;

__gshared ulong sink = 1;

pragma(inline, false) void three(uint n) // <three>
{
	ulong x = sink + n;
	foreach (i; 0 .. n * 800)
		x = x * 6364136223846793005 + (x >> 33);
	sink = x;
} // </three>

pragma(inline, false) void one(uint n) // <one>
{
	ulong x = sink + n;
	foreach (i; 0 .. n * 800)
		x = x * 3935559000370003845 + (x >> 31);
	sink = x;
} // </one>

extern (C) void call_three(uint n)
{
	three(n);
	sink++;
}

extern (C) void call_one(uint n)
{
	one(n);
	sink++;
}
