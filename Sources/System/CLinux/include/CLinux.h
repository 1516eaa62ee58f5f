#ifndef FOREBAY_CLINUX_H
#define FOREBAY_CLINUX_H
// What Swift cannot import from glibc: epoll, eventfd, signalfd, accept4, thread names, CPU affinity, getopt_long.
// Every function returns a value of 0 or more, or -errno.

#include <getopt.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

// Bits of `ready` and `interest`, with epoll's values.
enum { FB_READABLE = 0x1, FB_WRITABLE = 0x4, FB_ERROR = 0x8, FB_HANGUP = 0x10, FB_ENDED = 0x2000 };

// Operations of fb_poll_change, with epoll's values.
enum { FB_ADD = 1, FB_REMOVE = 2, FB_MODIFY = 3 };

typedef struct {
    uint64_t token;
    uint32_t ready;
} fb_event;

int fb_poll_create(void);
int fb_poll_change(int poller, int operation, int fd, uint32_t interest, uint64_t token);
// Returns at most 256 events.
int fb_poll_wait(int poller, fb_event *events, int capacity, int timeout_ms);

// Returns a non-blocking eventfd.
int fb_wakeup_create(void);
int fb_wakeup_signal(int fd);
int fb_wakeup_clear(int fd);

// Blocks the signals in the calling thread (and those it starts later) and returns a non-blocking signalfd for them.
int fb_signals_create(const int *signals, int count);
// Returns the next signal's number; -EAGAIN if there is none.
int fb_signals_next(int fd);
// Returns the process's environment variables, each as NAME=VALUE, followed by a null pointer.
char *const *fb_environment(void);

// Makes writes to a closed pipe fail with EPIPE instead of ending the process.
int fb_ignore_broken_pipe(void);

// Sockets are non-blocking and close-on-exec.
int fb_socket(int family);
int fb_accept(int listener, struct sockaddr_storage *address, socklen_t *length);
int fb_bind(int fd, const struct sockaddr_storage *address, socklen_t length);
int fb_connect(int fd, const struct sockaddr_storage *address, socklen_t length);
int fb_name(int fd, int peer, struct sockaddr_storage *address, socklen_t *length);
int fb_set_option(int fd, int level, int option, int value);
// Closes `fd` and makes it a duplicate of `other`, close-on-exec.
int fb_replace(int fd, int other);
int fb_socket_error(int fd);
ptrdiff_t fb_read(int fd, void *bytes, size_t count);
// Like fb_read on a socket, but does not consume the bytes.
ptrdiff_t fb_peek(int fd, void *bytes, size_t count);
// Never raises SIGPIPE.
ptrdiff_t fb_send(int fd, const struct iovec *pieces, size_t count);

// Makes a descriptor passed by another process non-blocking and close-on-exec; -EINVAL unless it is a listening TCP
// socket.
int fb_adopt_listener(int fd);

// Sends one datagram to the socket at `path`, whose first byte may be '@' for an abstract socket. Waits up to a second
// for space.
int fb_send_datagram(const char *path, const void *bytes, size_t count);

// Fills `bytes` from the kernel's random generator; at most 256 bytes.
int fb_random(void *bytes, size_t count);
int fb_name_thread(const char *name);
// Returns freed memory to the kernel.
void fb_return_memory(void);
// Returns the number of CPUs that this process may run on.
int fb_cpu_count(void);

#endif
