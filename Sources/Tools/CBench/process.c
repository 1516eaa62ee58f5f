// Processes on chosen CPUs, and receiving without copying.
#define _GNU_SOURCE
#include "CBench.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <unistd.h>

static int set_of(const int *cpus, int count, cpu_set_t *set) {
    CPU_ZERO(set);
    for (int i = 0; i < count; i++) {
        if (cpus[i] < 0 || cpus[i] >= CPU_SETSIZE) return -EINVAL;
        CPU_SET(cpus[i], set);
    }
    return 0;
}

int cb_pin(const int *cpus, int count) {
    cpu_set_t set;
    int failure = set_of(cpus, count, &set);
    if (failure) return failure;
    return sched_setaffinity(0, sizeof set, &set) < 0 ? -errno : 0;
}

int cb_cpus(int *cpus, int capacity) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) < 0) return -errno;
    int count = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE && count < capacity; cpu++) {
        if (CPU_ISSET(cpu, &set)) cpus[count++] = cpu;
    }
    return count;
}

int cb_open_files(int count) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0) return -errno;
    if (limit.rlim_cur >= (rlim_t)count) return count;
    struct rlimit wanted = {.rlim_cur = (rlim_t)count, .rlim_max = limit.rlim_max};
    if (wanted.rlim_max < wanted.rlim_cur) wanted.rlim_max = wanted.rlim_cur;
    if (setrlimit(RLIMIT_NOFILE, &wanted) == 0) return count;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit) < 0 ? -errno : (int)limit.rlim_cur;
}

int cb_is_in_memory(const char *directory) {
    struct statfs status;
    if (statfs(directory, &status) < 0) return -errno;
    return status.f_type == TMPFS_MAGIC || status.f_type == RAMFS_MAGIC;
}

int cb_spawn(char *const argv[], const int *cpus, int count, const char *directory, const char *output) {
    pid_t parent = getpid();
    pid_t child = fork();
    if (child < 0) return -errno;
    if (child > 0) return child;
    // Only async-signal-safe calls after fork.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    int input = open("/dev/null", O_RDONLY);
    int log = open(output, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (input < 0 || log < 0 || chdir(directory) < 0 || cb_pin(cpus, count) < 0) _exit(127);
    dup2(input, 0);
    dup2(log, 1);
    dup2(log, 2);
    execv(argv[0], argv);
    _exit(127);
}

ptrdiff_t cb_discard(int fd, size_t count) {
    // On TCP, MSG_TRUNC removes the bytes from the queue without touching the buffer.
    ssize_t result = recv(fd, NULL, count, MSG_TRUNC | MSG_DONTWAIT);
    return result < 0 ? -errno : result;
}
