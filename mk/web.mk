# SPDX-License-Identifier: Apache-2.0
# web/* -> build/gen/web/*.gz -> build/gen/web/assets.c: the page, inside the program.

WEB_SRC := $(sort $(wildcard web/*))
WEB_OBJ := $(BUILD)/gen/web/assets.o

$(BUILD)/gen/web/assets.c: $(WEB_SRC) tools/web-assets
	$(call say,WEB,$@)
	@mkdir -p $(@D)
	$(Q)tools/web-assets $(@D) $(WEB_SRC) >$@

$(WEB_OBJ): $(BUILD)/gen/web/assets.c user/http/assets.h $(BUILD)/flags
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS) $(INCLUDE) -MMD -MP -c -o $@ $<

-include $(WEB_OBJ:.o=.d)
