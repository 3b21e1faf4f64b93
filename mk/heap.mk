# SPDX-License-Identifier: Apache-2.0
# The sampler of allocations that programs preload. It names no C library, so that one file serves
# programs of glibc and of musl.

HEAP_LIB := $(BUILD)/libascribe-heap.so

all: $(HEAP_LIB)

$(HEAP_LIB): lib/heap.c include/ascribe/heap.h
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O2 $(WARN) -Iinclude -Wno-missing-prototypes -fPIC \
		-fvisibility=hidden \
		-fno-builtin -fno-reorder-blocks-and-partition -fno-stack-protector \
		-shared -nostdlib -Wl,-z,relro,-z,now -o $@ $<
