/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libjvm.so exports for debuggers (src/hotspot/share/runtime/vmStructs.cpp): addresses of
 * tables, each with the size of its entries and where their members are. All but the names of the
 * symbols is read from the memory of the process.
 */
#ifndef ASCRIBE_HOTSPOT_TABLES_H
#define ASCRIBE_HOTSPOT_TABLES_H

#define HOTSPOT_TABLES(X) \
	X(STRUCTS, "Structs") \
	X(STRUCT_STRIDE, "StructEntryArrayStride") \
	X(STRUCT_TYPE, "StructEntryTypeNameOffset") \
	X(STRUCT_FIELD, "StructEntryFieldNameOffset") \
	X(STRUCT_KIND, "StructEntryTypeStringOffset") \
	X(STRUCT_STATIC, "StructEntryIsStaticOffset") \
	X(STRUCT_OFFSET, "StructEntryOffsetOffset") \
	X(STRUCT_ADDRESS, "StructEntryAddressOffset") \
	X(TYPES, "Types") \
	X(TYPE_STRIDE, "TypeEntryArrayStride") \
	X(TYPE_NAME, "TypeEntryTypeNameOffset") \
	X(TYPE_SIZE, "TypeEntrySizeOffset") \
	X(INTS, "IntConstants") \
	X(INT_STRIDE, "IntConstantEntryArrayStride") \
	X(INT_NAME, "IntConstantEntryNameOffset") \
	X(INT_VALUE, "IntConstantEntryValueOffset")

#define HOTSPOT_PREFIX "gHotSpotVM"

enum hotspot_table {
#define X(id, name) HOTSPOT_##id,
	HOTSPOT_TABLES(X)
#undef X
		HOTSPOT_SYMBOLS,
};

#endif
