/* See table.h. Open addressing, linear probing, deletion by moving back. */
#include "table.h"

#include <stdlib.h>

static size_t home(const struct table *table, uint64_t key)
{
	return (size_t)((key * 0x9e3779b97f4a7c15ull) >> 20) & (table->capacity - 1);
}

static void put(struct table *table, uint64_t key, void *value)
{
	size_t i = home(table, key);

	while (table->keys[i])
		i = (i + 1) & (table->capacity - 1);
	table->keys[i] = key;
	table->values[i] = value;
}

static bool grow(struct table *table)
{
	struct table bigger = {.capacity = table->capacity ? table->capacity * 2 : 64,
			       .count = table->count};

	bigger.keys = calloc(bigger.capacity, sizeof *bigger.keys);
	bigger.values = calloc(bigger.capacity, sizeof *bigger.values);
	if (!bigger.keys || !bigger.values) {
		free(bigger.keys);
		free(bigger.values);
		return false;
	}
	for (size_t i = 0; i < table->capacity; i++)
		if (table->keys[i])
			put(&bigger, table->keys[i], table->values[i]);
	free(table->keys);
	free(table->values);
	*table = bigger;
	return true;
}

/* Where the key is; `capacity` when it is nowhere. */
static size_t find(const struct table *table, uint64_t key)
{
	if (table->capacity == 0 || key == 0)
		return table->capacity;
	size_t i = home(table, key);

	while (table->keys[i] && table->keys[i] != key)
		i = (i + 1) & (table->capacity - 1);
	return table->keys[i] ? i : table->capacity;
}

bool table_add(struct table *table, uint64_t key, void *value)
{
	if (key == 0 || table_find(table, key))
		return false;
	if ((table->count + 1) * 2 > table->capacity && !grow(table))
		return false;
	put(table, key, value);
	table->count++;
	return true;
}

void *table_find(const struct table *table, uint64_t key)
{
	size_t i = find(table, key);

	return i < table->capacity ? table->values[i] : NULL;
}

void *table_remove(struct table *table, uint64_t key)
{
	size_t i = find(table, key);

	if (i == table->capacity)
		return NULL;
	void *value = table->values[i];
	size_t mask = table->capacity - 1;

	for (size_t j = (i + 1) & mask; table->keys[j]; j = (j + 1) & mask) {
		size_t wanted = home(table, table->keys[j]);

		if (((j - wanted) & mask) < ((j - i) & mask))
			continue; /* it stands between its home and the gap's place: let it */
		table->keys[i] = table->keys[j];
		table->values[i] = table->values[j];
		i = j;
	}
	table->keys[i] = 0;
	table->values[i] = NULL;
	table->count--;
	return value;
}

void *table_next(const struct table *table, size_t *at)
{
	while (*at < table->capacity) {
		size_t i = (*at)++;

		if (table->keys[i])
			return table->values[i];
	}
	return NULL;
}
