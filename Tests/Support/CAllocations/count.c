#include "CAllocations.h"

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
// Without callgrind nothing is counted.
#define CALLGRIND_START_INSTRUMENTATION
#define CALLGRIND_ZERO_STATS
#define CALLGRIND_DUMP_STATS_AT(name) (void)(name)
#endif

__attribute__((noinline)) void count_instructions(void (*body)(void *), void *context) {
    body(context);
    // Prevents a tail call: callgrind needs to see a call and a return.
    __asm__ volatile("" ::: "memory");
}

void instructions_begin(void) { CALLGRIND_START_INSTRUMENTATION; }

void instructions_zero(void) { CALLGRIND_ZERO_STATS; }

void instructions_dump(const char *name) { CALLGRIND_DUMP_STATS_AT(name); }
