# Readers against bytes of chance: each tests/fuzz/fuzz_NAME.c is a target, seeds.py says what it starts from.
# Included by ../../Makefile.
#
#   fuzz          any compiler: the seeds, and FUZZ_RUNS changes of them, always the same
#   fuzz-clang    clang's libFuzzer, which looks at what it reaches; what it finds lies in $(BUILD)/fuzz-clang
FUZZ := tests/fuzz
FUZZ_NAMES := $(patsubst $(FUZZ)/fuzz_%.c,%,$(sort $(wildcard $(FUZZ)/fuzz_*.c)))
FUZZ_RUNS ?= 20000
FUZZ_SEED ?= 1
# These make a file for each input, so they get fewer.
FUZZ_SLOW := usage live
fuzz_runs = $(if $(filter $(1),$(FUZZ_SLOW)),$$(($(FUZZ_RUNS) / 10)),$(FUZZ_RUNS))

# What a target takes in as source is not linked a second time.
fuzz_sources = $(FUZZ)/fuzz_$(1).c $(filter-out src/$(patsubst "%",%,$(filter %.c",$(shell grep '^.include' $(FUZZ)/fuzz_$(1).c))),$(UNIT_SOURCES))
FUZZ_CFLAGS = $(CFLAGS_ALL) -O1 -fno-omit-frame-pointer -DHAMID_TEST_PATHS -Itests -I$(FUZZ)
FUZZ_NEEDS := $(wildcard $(FUZZ)/*.[ch]) tests/container.h $(UNIT_SOURCES) $(HEADERS) $(FUZZ)/rules.mk

$(BUILD)/fuzz/%: $(FUZZ)/fuzz_%.c $(FUZZ_NEEDS)
	@mkdir -p $(@D)
	$(CC) $(FUZZ_CFLAGS) -fsanitize=address,undefined -fno-sanitize-recover=all -o $@ $(FUZZ)/driver.c $(call fuzz_sources,$*)

$(BUILD)/fuzz-clang/%: $(FUZZ)/fuzz_%.c $(FUZZ_NEEDS)
	@mkdir -p $(@D)
	$(CLANG) $(FUZZ_CFLAGS) -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -o $@ $(call fuzz_sources,$*)

.PHONY: fuzz fuzz-clang fuzz-seeds
fuzz-seeds:
	cd .. && $(PYTHON) -m native.tests.fuzz.seeds native/$(BUILD)/fuzz-seeds

fuzz: fuzz-seeds $(addprefix $(BUILD)/fuzz/,$(FUZZ_NAMES))
	$(foreach name,$(FUZZ_NAMES),$(BUILD)/fuzz/$(name) $(call fuzz_runs,$(name)) $(FUZZ_SEED) $(BUILD)/fuzz-seeds/$(name) &&) :

fuzz-clang: fuzz-seeds $(addprefix $(BUILD)/fuzz-clang/,$(FUZZ_NAMES))
	$(foreach name,$(FUZZ_NAMES),mkdir -p $(BUILD)/fuzz-clang/corpus/$(name) && \
		$(BUILD)/fuzz-clang/$(name) -runs=$(call fuzz_runs,$(name)) -seed=$(FUZZ_SEED) -max_len=10000 -verbosity=0 \
		-artifact_prefix=$(BUILD)/fuzz-clang/$(name)- $(BUILD)/fuzz-clang/corpus/$(name) $(BUILD)/fuzz-seeds/$(name) &&) :
