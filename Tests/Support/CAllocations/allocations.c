// Defines malloc and its relatives for the executable that links this file, as wrappers around glibc's.
#include "CAllocations.h"
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define OWN_ALLOCATOR 1
#endif
#endif

#ifdef OWN_ALLOCATOR
long allocation_count(void) { return 0; }
bool allocation_counted(void) { return false; }
void heap_watch(void) {}
void heap_unwatch(void) {}
bool heap_enter(void) { return false; }
void heap_leave(bool before) { (void)before; }
long heap_live(void) { return 0; }
#else
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static _Thread_local long count;

long allocation_count(void) { return count; }
bool allocation_counted(void) { return true; }

// Live allocations made by the watched code: a hash table with open addressing, keyed by address. The table is
// thread-local, because the watched code runs on one thread.
struct block {
    uintptr_t address;
    size_t size;
};

static _Thread_local struct block *blocks;
static _Thread_local size_t places; // A power of two.
static _Thread_local size_t held;
static _Thread_local long live;
static _Thread_local bool watching;
static _Thread_local bool within;

static size_t place_of(uintptr_t address) { return (address >> 4) * 0x9E3779B97F4A7C15u >> 20 & (places - 1); }

// The memory that glibc takes for an allocation of this size; deterministic.
static size_t taken(size_t size) {
    size_t whole = (size + 8 + 15) & ~(size_t)15;
    return whole < 32 ? 32 : whole;
}

static void put(uintptr_t address, size_t size) {
    size_t place = place_of(address);
    while (blocks[place].address != 0 && blocks[place].address != address) place = (place + 1) & (places - 1);
    if (blocks[place].address == address) {
        // Another thread has freed the block.
        live -= (long)blocks[place].size;
    } else {
        held++;
    }
    blocks[place] = (struct block){address, size};
    live += (long)size;
}

static void note(void *memory, size_t size) {
    if (memory == NULL) return;
    if ((held + 1) * 2 > places) {
        struct block *old = blocks;
        size_t before = places;
        places *= 2;
        blocks = __libc_calloc(places, sizeof *blocks);
        if (blocks == NULL) abort();
        held = 0;
        live = 0;
        for (size_t place = 0; place < before; place++) {
            if (old[place].address != 0) put(old[place].address, old[place].size);
        }
        __libc_free(old);
    }
    put((uintptr_t)memory, taken(size));
}

// Returns whether the memory was in the table.
static bool forget(void *memory) {
    uintptr_t address = (uintptr_t)memory;
    size_t place = place_of(address);
    while (blocks[place].address != address) {
        if (blocks[place].address == 0) return false;
        place = (place + 1) & (places - 1);
    }
    live -= (long)blocks[place].size;
    held--;
    // The following entries move up, so that a search may end at the first empty slot.
    size_t hole = place;
    for (size_t next = (hole + 1) & (places - 1); blocks[next].address != 0; next = (next + 1) & (places - 1)) {
        size_t home = place_of(blocks[next].address);
        if (((next - home) & (places - 1)) < ((next - hole) & (places - 1))) continue;
        blocks[hole] = blocks[next];
        hole = next;
    }
    blocks[hole].address = 0;
    return true;
}

void heap_watch(void) {
    heap_unwatch();
    places = 1 << 12;
    blocks = __libc_calloc(places, sizeof *blocks);
    if (blocks == NULL) abort();
    watching = true;
}

void heap_unwatch(void) {
    __libc_free(blocks);
    blocks = NULL;
    places = 0;
    held = 0;
    live = 0;
    watching = false;
    within = false;
}

bool heap_enter(void) {
    bool before = within;
    within = watching;
    return before;
}

void heap_leave(bool before) { within = before; }
long heap_live(void) { return live; }

void *malloc(size_t size) {
    count++;
    void *memory = __libc_malloc(size);
    if (within) note(memory, size);
    return memory;
}

void *calloc(size_t number, size_t size) {
    count++;
    void *memory = __libc_calloc(number, size);
    if (within) note(memory, number * size);
    return memory;
}

void *realloc(void *old, size_t size) {
    count++;
    // A block keeps its ownership when it grows.
    bool known = watching && old != NULL && forget(old);
    void *memory = __libc_realloc(old, size);
    if ((known || within) && size > 0) note(memory, size);
    return memory;
}

void *aligned_alloc(size_t alignment, size_t size) {
    count++;
    void *memory = __libc_memalign(alignment, size);
    if (within) note(memory, size);
    return memory;
}

int posix_memalign(void **result, size_t alignment, size_t size) {
    void *memory = aligned_alloc(alignment, size);
    if (memory == NULL) return ENOMEM;
    *result = memory;
    return 0;
}

void free(void *memory) {
    if (held > 0 && memory != NULL) forget(memory);
    __libc_free(memory);
}
#endif
