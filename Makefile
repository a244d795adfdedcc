# SPDX-License-Identifier: LGPL-2.1-or-later
# The only build of libiomap.  `make help` lists the targets.
#
#	BUILD=dir	where it builds; each variant has its own folder below it
#	CC, CFLAGS	the compiler and the optimisation
#	SAN		sanitizer flags; check-asan and check-tsan set them
#	SEEDS=number	of schedules that `check-sim` tries
#	TESTS=pattern	the tests that `check` runs, as in 'folio*/*'
#	PREFIX, LIBDIR, INCLUDEDIR, DESTDIR	where `install` puts things

VERSION	= 0.1.0
BUILD	= build

ifeq ($(origin CC),default)
CC	= gcc
endif
CFLAGS	= -O2 -g
SAN	=
PREFIX	= /usr/local
LIBDIR	= $(PREFIX)/lib
INCLUDEDIR = $(PREFIX)/include
TESTS	=
SEEDS	= 2000

# Use every processor, unless this make was started by another one that shares them out.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc)
endif

# ---- what is built from what ------------------------------------------------------------

LIB_SRCS	= $(wildcard env/*.c blkdev/*.c folio/*.c iomap/*.c fsbackends/*.c fsbackends/*/*.c)
HELLO_SRCS	= $(wildcard examples/hello/*.c)
SIMTEST_SRCS	= $(wildcard examples/simtest/*.c)
REPORT_SRCS	= $(wildcard examples/report/*.c)
BENCH_SRCS	= $(wildcard bench/*.c)
TEST_SRCS	= $(wildcard tests/*.c)
SIM_SRCS	= $(wildcard tests/check-sim/*.c)
HEADERS		= $(wildcard include/iomap/*.h)
C_FILES		= $(wildcard $(addsuffix /*.[ch],include/iomap env blkdev folio iomap \
			fsbackends fsbackends/* examples/* tests tests/check-sim bench))

objs		= $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
LIB_OBJS	= $(call objs,$(LIB_SRCS))
HELLO_OBJS	= $(call objs,$(HELLO_SRCS))
SIMTEST_OBJS	= $(call objs,$(SIMTEST_SRCS))
REPORT_OBJS	= $(call objs,$(REPORT_SRCS))
BENCH_OBJS	= $(call objs,$(BENCH_SRCS))
# The tests call into the report's own code, everything but its main().
SIM_OBJS	= $(call objs,$(SIM_SRCS))
TEST_OBJS	= $(call objs,$(TEST_SRCS) $(filter-out %/main.c,$(REPORT_SRCS)))
ALL_OBJS	= $(sort $(LIB_OBJS) $(HELLO_OBJS) $(REPORT_OBJS) $(BENCH_OBJS) $(TEST_OBJS) \
		  $(SIM_OBJS) $(SIMTEST_OBJS))

LIBS	= $(BUILD)/libiomap.a $(BUILD)/libiomap.so.0
PROGS	= $(BUILD)/hello $(BUILD)/simtest $(BUILD)/iomap-report $(BUILD)/iomap-bench
TESTER	= $(BUILD)/iomap-tests

# ---- flags ------------------------------------------------------------------------------

WARN	= -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wmissing-prototypes \
	  -Wstrict-prototypes -Wundef -Werror

# <iomap/x.h> is a public header; "folio/x.h" is found from the top, and never by <>.
# Public headers make their declarations visible; everything else stays inside.
ALL_CFLAGS = -std=gnu11 $(CFLAGS) $(WARN) $(SAN) -pthread -Iinclude -iquote . \
	  -fvisibility=hidden -MMD -MP

# One set of library objects serves both libraries.  Nobody may replace a library function
# from outside, so calls inside the library are direct and can be inlined.
$(LIB_OBJS): MORE_CFLAGS = -fPIC -fno-semantic-interposition
$(call objs,$(TEST_SRCS)): MORE_CFLAGS = -DIOMAP_TEST_DATA='"tests"' -DIOMAP_BUILD='"$(BUILD)"'

LIB_LIBS	= -lurcu-bp -lurcu-common -lxxhash
REPORT_LIBS	= -ljansson -lm
LINK		= $(CC) $(CFLAGS) $(SAN) -pthread $(LDFLAGS) -Wl,--as-needed

# A comma inside an argument of call.
, = ,

# ---- targets ----------------------------------------------------------------------------

.PHONY: all deps report check check-sim check-sim-planted check-asan check-tsan check-clang \
	check-install bench lint invariants format install clean help FORCE
.DELETE_ON_ERROR:
.SECONDARY:

all: $(LIBS) $(PROGS)	## the libraries, iomap-report, iomap-bench and the examples

# gcc libc6-dev	the compiler, and what it builds against
# g++ clang	the public headers as C++, and the second opinion of check-clang
# clang-format	the layout that lint checks
# liburcu-dev	RCU
# libxxhash-dev	checksums and content verification
# libjansson-dev	the report's JSON
# libcriterion-dev	the tests
# pkgconf	check-install finds the installed library the way a user does
# xfsprogs	the bench compares with the kernel on a real XFS
DEPS	= gcc libc6-dev g++ clang clang-format liburcu-dev libxxhash-dev libjansson-dev \
	  libcriterion-dev pkgconf xfsprogs

deps:		## install the Debian packages that are missing
	@missing=; \
	for package in $(DEPS); do \
		dpkg-query -W -f='$${db:Status-Status}' $$package 2>&1 | grep -qx installed || \
			missing="$$missing $$package"; \
	done; \
	if [ -z "$$missing" ]; then echo "deps: all installed"; exit 0; fi; \
	echo "deps: installing$$missing"; \
	sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	$$sudo apt-get update -qq && \
	$$sudo env DEBIAN_FRONTEND=noninteractive \
		apt-get install -y -qq --no-install-recommends $$missing

report: $(BUILD)/iomap-report	## every published experiment, ours beside the published figure
	@$(BUILD)/iomap-report

# The tests run the programs too.
check: $(TESTER) $(PROGS)	## every test (TESTS='suite*/*' runs some)
	$(TESTER) -j2 --timeout 240 $(if $(TESTS),--filter '$(TESTS)')

check-sim: $(BUILD)/iomap-check-sim	## the library against a model, under SEEDS=2000 schedules
	$(BUILD)/iomap-check-sim --seeds $(SEEDS)

check-sim-planted:	## does check-sim find races that are put into the library? (ten minutes)
	tests/check-sim/planted.sh

# A leak or a late race shows after its test has passed, so any report fails the run.
define checked
+@rm -f $(BUILD)/$(1)/finding.*
+@log=log_path=$(abspath $(BUILD))/$(1)/finding; \
	export ASAN_OPTIONS=$$log UBSAN_OPTIONS=print_stacktrace=1:$$log \
		TSAN_OPTIONS=halt_on_error=1:atexit_sleep_ms=20:$$log; \
	$(MAKE) BUILD=$(BUILD)/$(1) SAN='$(2) -fno-omit-frame-pointer' check; status=$$?; \
	cat $(BUILD)/$(1)/finding.* 2>/dev/null && status=1; exit $$status
endef

check-asan:	## every test, under the address, leak and undefined-behaviour checkers
	$(call checked,asan,-fsanitize=address$(,)undefined -fno-sanitize-recover=all)

check-tsan:	## every test, under the data-race checker
	$(call checked,tsan,-fsanitize=thread)

check-clang:	## everything builds with clang, without a warning
	$(MAKE) BUILD=$(BUILD)/clang CC=clang all $(BUILD)/clang/iomap-tests

# A user's view: only the installed tree, found through pkg-config, linked both ways.
check-install:	## the hello example builds and runs against an installed library
	rm -rf $(BUILD)/installed
	$(MAKE) install DESTDIR= PREFIX=$(abspath $(BUILD))/installed
	cd $(BUILD)/installed && export PKG_CONFIG_PATH=$$PWD/lib/pkgconfig && \
	$(CC) -o hello-shared $(abspath $(HELLO_SRCS)) $$(pkgconf --cflags --libs libiomap) && \
	$(CC) -o hello-static $(abspath $(HELLO_SRCS)) $$(pkgconf --cflags libiomap) \
		$$PWD/lib/libiomap.a $$(pkgconf --static --libs-only-l libiomap | \
			sed 's/-liomap //') && \
	LD_LIBRARY_PATH=$$PWD/lib ./hello-shared >/dev/null && ./hello-static >/dev/null

bench: $(BUILD)/iomap-bench	## the library against memcpy and against the kernel
	@$(BUILD)/iomap-bench

lint: $(BUILD)/libiomap.so.0	## layout, include directions, exported names, documents
	@CC='$(CC)' tests/lint.sh $(BUILD)/libiomap.so.0

invariants:	## write into tests/INVARIANTS.md which test asserts which invariant
	@tests/invariants.sh >tests/INVARIANTS.md.new
	@mv tests/INVARIANTS.md.new tests/INVARIANTS.md

format:		## lay every C file out as lint wants it
	clang-format -i $(C_FILES)

install: $(LIBS)	## the libraries, headers and libiomap.pc (DESTDIR, PREFIX, LIBDIR)
	install -d $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(INCLUDEDIR)/iomap
	install -m 644 $(BUILD)/libiomap.a $(DESTDIR)$(LIBDIR)
	install -m 755 $(BUILD)/libiomap.so.0 $(DESTDIR)$(LIBDIR)
	ln -sf libiomap.so.0 $(DESTDIR)$(LIBDIR)/libiomap.so
	install -m 644 $(HEADERS) $(DESTDIR)$(INCLUDEDIR)/iomap
	sed -e 's|@VERSION@|$(VERSION)|' -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' \
		-e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' libiomap.pc.in \
		>$(DESTDIR)$(LIBDIR)/pkgconfig/libiomap.pc

clean:		## remove everything that was built
	rm -rf $(BUILD)

help:		## this list
	@sed -n 's/^\([a-z-]*\):.*## */\1	/p' Makefile | expand -t20

# ---- rules ------------------------------------------------------------------------------

$(BUILD)/libiomap.a: $(LIB_OBJS) $(BUILD)/sources
	rm -f $@
	$(AR) rcs $@ $(LIB_OBJS)

$(BUILD)/libiomap.so.0: $(LIB_OBJS) $(BUILD)/sources
	$(LINK) -shared -Wl,-soname,libiomap.so.0 -Wl,-Bsymbolic-functions \
		$(if $(SAN),,-Wl,-z,defs) -o $@ $(LIB_OBJS) $(LIB_LIBS)

$(BUILD)/hello: $(HELLO_OBJS) $(BUILD)/libiomap.a $(BUILD)/sources
	$(LINK) -o $@ $(HELLO_OBJS) $(BUILD)/libiomap.a $(LIB_LIBS)

$(BUILD)/simtest: $(SIMTEST_OBJS) $(BUILD)/libiomap.a $(BUILD)/sources
	$(LINK) -o $@ $(SIMTEST_OBJS) $(BUILD)/libiomap.a $(LIB_LIBS)

$(BUILD)/iomap-report: $(REPORT_OBJS) $(BUILD)/libiomap.a $(BUILD)/sources
	$(LINK) -o $@ $(REPORT_OBJS) $(BUILD)/libiomap.a $(LIB_LIBS) $(REPORT_LIBS)

$(BUILD)/iomap-bench: $(BENCH_OBJS) $(BUILD)/libiomap.a $(BUILD)/sources
	$(LINK) -o $@ $(BENCH_OBJS) $(BUILD)/libiomap.a $(LIB_LIBS) $(REPORT_LIBS)

$(TESTER): $(TEST_OBJS) $(BUILD)/libiomap.a $(BUILD)/sources
	$(LINK) -o $@ $(TEST_OBJS) $(BUILD)/libiomap.a $(LIB_LIBS) $(REPORT_LIBS) -lcriterion

# The program counts what the library allocates.
$(BUILD)/iomap-check-sim: $(SIM_OBJS) $(BUILD)/libiomap.a $(BUILD)/sources
	$(LINK) -Wl,--wrap=env_alloc,--wrap=env_zalloc,--wrap=env_free -o $@ $(SIM_OBJS) \
		$(BUILD)/libiomap.a $(LIB_LIBS)

$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(MORE_CFLAGS) -c -o $@ $<

# Written only when their text changes: other flags rebuild every object, and a source that
# came or went relinks what it belonged to.
record = @mkdir -p $(@D); echo '$(1)' | cmp -s - $@ || echo '$(1)' >$@

$(BUILD)/flags: FORCE
	$(call record,$(CC) $(ALL_CFLAGS))

$(BUILD)/sources: FORCE
	$(call record,$(ALL_OBJS) $(LINK))

# In `make deps check` the packages come first, with any number of jobs.
ifneq ($(filter deps,$(MAKECMDGOALS)),)
$(ALL_OBJS): | deps
endif

-include $(ALL_OBJS:.o=.d)
