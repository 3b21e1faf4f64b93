# SPDX-License-Identifier: Apache-2.0
# web/ -> build/gen/web/: the page, bundled by esbuild (Debian's) with uPlot (npm's, by its checksum
# in web/package-lock.json), inside the program. Where npm is missing or reaches nothing, the page
# is built without its time chart, and says so.

WEB := $(BUILD)/gen/web
WEB_OBJ := $(WEB)/assets.o
WEB_SRC := $(wildcard web/*.js) web/style.css
WEB_MODULES := build/npm/web/node_modules
ESBUILD := esbuild --bundle --minify --target=es2022 --charset=utf8 --legal-comments=inline \
	--log-level=warning
ASSETS := web/index.html web/icon.svg $(WEB)/app.js $(WEB)/app.css $(WEB)/uPlot-LICENSE.txt

# One copy for all build directories; fetched once, kept until the lock changes.
$(WEB_MODULES)/.fetched: web/package.json web/package-lock.json tools/fetch-npm
	$(call say,NPM,$(@D))
	$(Q)tools/fetch-npm web build/npm/web uplot

UPLOT = $(wildcard $(WEB_MODULES)/uplot)
$(WEB)/app.js: $(WEB_SRC) $(WEB_MODULES)/.fetched mk/web.mk
	$(call say,ESBUILD,$@)
	@mkdir -p $(@D)
	$(Q)NODE_PATH=$(WEB_MODULES) $(ESBUILD) \
		--format=esm --define:Intl.NumberFormat=PlainNumbers \
		--define:Intl.DateTimeFormat=PlainDates \
		--inject:./web/no_intl.js $(if $(UPLOT),,--alias:uplot=./web/no_chart.js) \
			--outfile=$@ web/app.js

$(WEB)/app.css: web/style.css $(WEB_MODULES)/.fetched mk/web.mk
	$(call say,ESBUILD,$@)
	@mkdir -p $(@D)
	$(Q)cat $(UPLOT:%=%/dist/uPlot.min.css) web/style.css | $(ESBUILD) --loader=css --outfile=$@

$(WEB)/uPlot-LICENSE.txt: $(WEB_MODULES)/.fetched
	@mkdir -p $(@D)
	$(Q)cat $(UPLOT:%=%/LICENSE) /dev/null >$@

# The page of `ascribe flame`: everything in one file, with a place for the data.
$(WEB)/single.js: $(WEB_SRC) mk/web.mk
	$(call say,ESBUILD,$@)
	@mkdir -p $(@D)
	$(Q)$(ESBUILD) --format=iife --outfile=$@ web/single.js

$(WEB)/flame.html: web/single.html $(WEB)/single.js web/style.css tools/inline
	$(call say,WEB,$@)
	$(Q)$(ESBUILD) --loader=css <web/style.css >$(WEB)/single.css
	$(Q)tools/inline web/single.html @STYLE@=$(WEB)/single.css @SCRIPT@=$(WEB)/single.js >$@

$(BUILD)/user/export/flame_page.o: $(WEB)/flame.html
$(BUILD)/user/export/flame_page.o: override CFLAGS += -DFLAME_PAGE='"$(WEB)/flame.html"'

$(WEB)/assets.c: $(ASSETS) tools/web-assets
	$(call say,WEB,$@)
	@mkdir -p $(@D)
	$(Q)tools/web-assets $(@D) $(ASSETS) >$@

$(WEB_OBJ): $(WEB)/assets.c user/http/assets.h $(BUILD)/flags
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS) $(INCLUDE) -MMD -MP -c -o $@ $<

-include $(WEB_OBJ:.o=.d)
