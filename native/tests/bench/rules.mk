# Benchmarks: make -s bench-alloc, bench-launch, bench-cap, bench-tenants, bench-start, bench-kill, bench-memory. A JSON line per case.
BENCH := tests/bench

$(BUILD)/bench/libcuda.so.1: $(BENCH)/null_cuda.c src/cuda_subset.h
	@mkdir -p $(@D)
	$(CC) -std=gnu17 -O2 -fPIC -fvisibility=hidden -shared -Wl,-Bsymbolic -Isrc -o $@ $<

$(BUILD)/bench/worker: $(BENCH)/worker.c tests/loaded_driver.h src/cuda_subset.h
	@mkdir -p $(@D)
	$(CC) -std=gnu17 -O2 -pthread -D_GNU_SOURCE -Isrc -o $@ $< -ldl

.PHONY: bench-alloc bench-cap bench-tenants bench-launch bench-start bench-kill bench-memory
bench-alloc bench-cap bench-tenants bench-launch bench-start bench-kill bench-memory: library $(BUILD)/bench/libcuda.so.1 $(BUILD)/bench/worker
bench-memory: $(BUILD)/bin/route $(BUILD)/bin/share
bench-cap bench-tenants bench-kill: $(BUILD)/bin/launch
bench-tenants: sims
bench-alloc bench-cap bench-tenants bench-launch bench-start bench-kill bench-memory:
	@command -v $(PYTHON) > /dev/null || { echo "$@: there is no $(PYTHON) here; name another: make PYTHON=..." >&2; exit 3; }
	cd .. && $(PYTHON) -m native.tests.bench.start $(subst -,_,$@)$(if $(ONLY), $(ONLY))
