#ifndef FOREBAY_CALLOCATIONS_H
#define FOREBAY_CALLOCATIONS_H
// Counts what the process allocates, so that a test can show that a path allocates nothing.
#include <stdbool.h>
// Calls of malloc, calloc, realloc and aligned allocation by this thread since it began.
long allocation_count(void);
// False where a sanitizer has its own allocator and nothing is counted.
bool allocation_counted(void);
#endif
