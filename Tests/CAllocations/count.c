#include "CAllocations.h"

__attribute__((noinline)) void count_instructions(void (*body)(void *), void *context) {
    body(context);
    // Not the last thing done, or the compiler would jump where callgrind is to see a call and a return.
    __asm__ volatile("" ::: "memory");
}
