#ifndef FOREBAY_CALLOCATIONS_H
#define FOREBAY_CALLOCATIONS_H
// Counts the process's allocations, so that a test can show that a path allocates nothing or that a part of it holds no
// more than allowed. Also marks code whose instructions are to be counted.
#include <stdbool.h>
// Calls of malloc, calloc, realloc and aligned allocation by this thread since its start.
long allocation_count(void);
// False if a sanitizer has its own allocator and nothing is counted.
bool allocation_counted(void);
// From now on, allocations by this thread between heap_enter and heap_leave are tracked until this thread frees them,
// anywhere. Earlier records are discarded.
void heap_watch(void);
void heap_unwatch(void);
// Returns the argument for heap_leave, so that calls may be nested.
bool heap_enter(void);
void heap_leave(bool before);
// Tracked bytes: the requested sizes plus glibc's overhead.
long heap_live(void);
// Calls body(context). callgrind uses this function's name to select what to count (--toggle-collect).
void count_instructions(void (*body)(void *context), void *context);
// For callgrind started with --instr-atstart=no: the code that follows is instrumented, and runs slower.
void instructions_begin(void);
// Resets the counts to zero.
void instructions_zero(void);
// Writes the counts since the last reset to a separate file, which contains the name, and starts again at zero.
void instructions_dump(const char *name);
#endif
