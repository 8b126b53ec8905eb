/*
 * A hash table from addresses to things, for blocks of memory and for handles. Keys are never 0.
 * Threads: the caller locks.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct table {
	uint64_t *keys;
	void **values;
	size_t capacity, count;
};

/* False when there is no memory, or the key is there. */
bool table_add(struct table *table, uint64_t key, void *value);

/* NULL when the key is not there. */
void *table_find(const struct table *table, uint64_t key);
void *table_remove(struct table *table, uint64_t key);

/* Walk: start with *at = 0; NULL at the end. Nothing may be added or removed meanwhile. */
void *table_next(const struct table *table, size_t *at);
