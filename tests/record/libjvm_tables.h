/* SPDX-License-Identifier: Apache-2.0 */
/* How a libjvm publishes its tables (vmStructs.cpp), for libraries that only look like one. */
#include <stdint.h>

#define TABLE(name) uint64_t gHotSpotVM##name
TABLE(StructEntryArrayStride) = 48;
TABLE(StructEntryTypeNameOffset) = 0;
TABLE(StructEntryFieldNameOffset) = 8;
TABLE(StructEntryTypeStringOffset) = 16;
TABLE(StructEntryIsStaticOffset) = 24;
TABLE(StructEntryOffsetOffset) = 32;
TABLE(StructEntryAddressOffset) = 40;
TABLE(TypeEntryArrayStride) = 16;
TABLE(TypeEntryTypeNameOffset) = 0;
TABLE(TypeEntrySizeOffset) = 8;
TABLE(IntConstantEntryArrayStride) = 16;
TABLE(IntConstantEntryNameOffset) = 0;
TABLE(IntConstantEntryValueOffset) = 8;

struct field {
	const char *type, *field, *kind;
	uint64_t is_static, offset;
	void *address;
};
struct type {
	const char *name;
	uint64_t size;
};
struct value {
	const char *name;
	int64_t value;
};
