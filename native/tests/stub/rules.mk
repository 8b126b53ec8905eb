# The simulated drivers: `make sims`. Included by ../../Makefile; paths are relative to native/.
# Both read the same profile and share one account of memory, so both are built from STUB_SHARED.
STUB := tests/stub
STUB_SHARED := $(STUB)/profile.c $(STUB)/profile_lines.c $(STUB)/state.c $(STUB)/engine.c
STUB_HEADERS := $(wildcard $(STUB)/*.h $(STUB)/*/*.h)
STUB_CFLAGS := -std=gnu17 -O2 -g -fPIC -fvisibility=hidden -pthread -Wall -Wextra -Wconversion -Wshadow -Werror
# -Bsymbolic: a preloaded library must not get into the simulated driver's own calls, for it never
# gets into the real one's.
STUB_LDFLAGS := -shared -pthread -Wl,-Bsymbolic,-z,defs,-z,relro,-z,now

.PHONY: sims
sims: $(BUILD)/sim/libnvidia-ml.so.1

NVML_SIM_SOURCES := $(sort $(wildcard $(STUB)/nvml/*.c)) $(STUB_SHARED)

$(BUILD)/sim/libnvidia-ml.so.1: $(NVML_SIM_SOURCES) $(STUB_HEADERS) $(STUB)/rules.mk
	@mkdir -p $(@D)
	$(CC) $(STUB_CFLAGS) -I$(STUB) -o $@.new $(NVML_SIM_SOURCES) $(STUB_LDFLAGS) -Wl,-soname,libnvidia-ml.so.1
	mv -f $@.new $@

# Holds simulated memory, for the tests of the shared account.
sims: $(BUILD)/sim/hold_memory

$(BUILD)/sim/hold_memory: $(STUB)/hold_memory.c $(STUB)/state.c $(STUB)/engine.c $(STUB_HEADERS) $(STUB)/rules.mk
	@mkdir -p $(@D)
	$(CC) $(STUB_CFLAGS) -I$(STUB) -o $@.new $(STUB)/hold_memory.c $(STUB)/state.c $(STUB)/engine.c -pthread
	mv -f $@.new $@
