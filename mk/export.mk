# SPDX-License-Identifier: Apache-2.0
# user/FOLDER/x.proto -> build/gen/FOLDER/x.pb-c.[ch], part of the library; the flame page:
# mk/web.mk.

PROTOS := $(sort $(wildcard user/export/*.proto user/http/*.proto user/pods/*.proto \
	user/push/*.proto user/store/*/*.proto))
PB_SRC := $(PROTOS:user/%.proto=$(BUILD)/gen/%.pb-c.c)
PB_OBJ := $(PB_SRC:.c=.o)
EXPORT_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard user/export/*.c user/http/*.c user/pods/*.c \
	user/push/*.c user/store/*/*.c))

$(BUILD)/gen/%.pb-c.c $(BUILD)/gen/%.pb-c.h: user/%.proto
	$(call say,PROTO,$<)
	@mkdir -p $(@D)
	$(Q)protoc-c --proto_path=user --c_out=$(BUILD)/gen $<

$(PB_OBJ): %.o: %.c $(BUILD)/flags
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS) $(INCLUDE) -MMD -MP -c -o $@ $<

$(EXPORT_OBJ): | $(PB_SRC)

-include $(PB_OBJ:.o=.d)
