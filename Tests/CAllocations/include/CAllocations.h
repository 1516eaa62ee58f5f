#ifndef FOREBAY_CALLOCATIONS_H
#define FOREBAY_CALLOCATIONS_H
// Counts what the process allocates, so that a test can show that a path allocates nothing, and marks what is to be
// counted in instructions.
#include <stdbool.h>
// Calls of malloc, calloc, realloc and aligned allocation by this thread since it began.
long allocation_count(void);
// False where a sanitizer has its own allocator and nothing is counted.
bool allocation_counted(void);
// Calls body(context). By this function's name callgrind is told what to count (--toggle-collect).
void count_instructions(void (*body)(void *context), void *context);
#endif
