/*
 * Which of the short launches are measured: drawn by lot, so that no pattern of a program's is always missed.
 *
 * The lot is over launches, not over time: in a program of many short launches and a few long ones, the next after a
 * while is always a short one. It is such that one is drawn each half millisecond or so; where launches are further
 * apart, each.
 *
 * Threads: any; no lock. Each has a lot of its own, of how many all launch on the device.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* This thread has launched so many since it last said so, the one at hand included. Is that drawn? */
bool sampling_is_drawn(int ordinal, uint32_t launches, uint64_t now_ns);

/* How many launches may follow the one at hand before one is drawn. */
uint32_t sampling_left(void);
