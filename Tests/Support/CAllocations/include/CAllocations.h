#ifndef FOREBAY_CALLOCATIONS_H
#define FOREBAY_CALLOCATIONS_H
// Counts what the process allocates, so that a test can show that a path allocates nothing or that a part of it holds
// no more than it may, and marks what is to be counted in instructions.
#include <stdbool.h>
// Calls of malloc, calloc, realloc and aligned allocation by this thread since it began.
long allocation_count(void);
// False where a sanitizer has its own allocator and nothing is counted.
bool allocation_counted(void);
// From now on what this thread allocates between heap_enter and heap_leave is remembered, until it is freed, by this
// thread and wherever in it. What was remembered before is forgotten.
void heap_watch(void);
void heap_unwatch(void);
// Returns what heap_leave takes, so that they may be nested.
bool heap_enter(void);
void heap_leave(bool before);
// Bytes that are remembered: of what was asked for, with what glibc needs beside it.
long heap_live(void);
// Calls body(context). By this function's name callgrind is told what to count (--toggle-collect).
void count_instructions(void (*body)(void *context), void *context);
// Under callgrind that was started with --instr-atstart=no: what follows can be counted, and runs slower for it.
void instructions_begin(void);
// Nothing has been counted yet.
void instructions_zero(void);
// What was counted since is written to a file of its own, which tells the name, and counting begins anew.
void instructions_dump(const char *name);
#endif
