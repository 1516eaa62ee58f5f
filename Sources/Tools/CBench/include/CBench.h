#ifndef FOREBAY_CBENCH_H
#define FOREBAY_CBENCH_H
// What the load generator needs from Linux beyond CLinux: starting a process on chosen CPUs, receiving without copying,
// and the byte pump that every broker is compared with. Functions return a value of 0 or more, or -errno.

#include <stddef.h>
#include <stdint.h>

// Starts argv[0] (an absolute path) with its output appended to `output`, in the directory `directory`, on the CPUs
// `cpus`. The process is killed when the calling thread ends. Returns its process id.
int cb_spawn(char *const argv[], const int *cpus, int count, const char *directory, const char *output);

// Moves the calling thread to the CPUs.
int cb_pin(const int *cpus, int count);

// Gets the CPUs that the calling thread may run on, in ascending order; returns how many were written to `cpus`.
int cb_cpus(int *cpus, int capacity);

// Raises the process's limit on open files to `count`, or as far as possible. Returns the limit.
int cb_open_files(int count);

// Whether the file system of a directory keeps its files in memory: 1 or 0.
int cb_is_in_memory(const char *directory);

// Discards up to `count` received bytes of a TCP socket without copying them. 0 is the end of the stream.
ptrdiff_t cb_discard(int fd, size_t count);

// Runs the byte pump on 127.0.0.1 until the process is killed. Returns only on failure.
int cb_pump(int port);

#endif
