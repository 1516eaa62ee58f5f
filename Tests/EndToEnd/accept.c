// Simulates a machine without free file descriptors. Loaded into a program by LD_PRELOAD, it makes `accept4` fail with
// ENFILE. The file named by $ACCEPT_FAILURES holds the number of failures left as a 64-bit integer, which is counted
// down.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile int64_t *left;

__attribute__((constructor)) static void map(void) {
    const char *path = getenv("ACCEPT_FAILURES");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    int access = PROT_READ | PROT_WRITE;
    void *memory = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *left, access, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) _exit(126);
    left = memory;
    close(file);
}

int accept4(int listener, struct sockaddr *address, socklen_t *length, int flags) {
    if (*left > 0) {
        --*left;
        errno = ENFILE;
        return -1;
    }
    return (int)syscall(SYS_accept4, listener, address, length, flags);
}
