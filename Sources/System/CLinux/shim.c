#define _GNU_SOURCE
#include "CLinux.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

_Static_assert(FB_READABLE == EPOLLIN && FB_WRITABLE == EPOLLOUT && FB_ERROR == EPOLLERR && FB_HANGUP == EPOLLHUP &&
                   FB_ENDED == EPOLLRDHUP,
               "the header repeats epoll's bits");
_Static_assert(FB_ADD == EPOLL_CTL_ADD && FB_REMOVE == EPOLL_CTL_DEL && FB_MODIFY == EPOLL_CTL_MOD,
               "the header repeats epoll's operations");

enum { EVENTS = 256 };

static int checked(int result) { return result < 0 ? -errno : result; }

int fb_poll_create(void) { return checked(epoll_create1(EPOLL_CLOEXEC)); }

int fb_poll_change(int poller, int operation, int fd, uint32_t interest, uint64_t token) {
    struct epoll_event event = {.events = interest, .data.u64 = token};
    return checked(epoll_ctl(poller, operation, fd, &event));
}

int fb_poll_wait(int poller, fb_event *events, int capacity, int timeout_ms) {
    struct epoll_event ready[EVENTS];
    int count = epoll_wait(poller, ready, capacity < EVENTS ? capacity : EVENTS, timeout_ms);
    if (count < 0) return -errno;
    for (int i = 0; i < count; i++) {
        events[i].token = ready[i].data.u64;
        events[i].ready = ready[i].events;
    }
    return count;
}

int fb_wakeup_create(void) { return checked(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)); }

int fb_wakeup_signal(int fd) {
    uint64_t one = 1;
    return checked((int)write(fd, &one, sizeof one));
}

int fb_wakeup_clear(int fd) {
    uint64_t count;
    return checked((int)read(fd, &count, sizeof count));
}

char *const *fb_environment(void)
{
    return environ;
}

int fb_signals_create(const int *signals, int count) {
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < count; i++) sigaddset(&set, signals[i]);
    int failure = pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (failure) return -failure;
    return checked(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
}

int fb_signals_next(int fd) {
    struct signalfd_siginfo info;
    if (read(fd, &info, sizeof info) < 0) return -errno;
    return (int)info.ssi_signo;
}

int fb_ignore_broken_pipe(void) { return signal(SIGPIPE, SIG_IGN) == SIG_ERR ? -errno : 0; }

int fb_socket(int family) { return checked(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); }

int fb_accept(int listener, struct sockaddr_storage *address, socklen_t *length) {
    *length = sizeof *address;
    return checked(accept4(listener, (struct sockaddr *)address, length, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

int fb_bind(int fd, const struct sockaddr_storage *address, socklen_t length) {
    return checked(bind(fd, (const struct sockaddr *)address, length));
}

int fb_connect(int fd, const struct sockaddr_storage *address, socklen_t length) {
    return checked(connect(fd, (const struct sockaddr *)address, length));
}

int fb_name(int fd, int peer, struct sockaddr_storage *address, socklen_t *length) {
    *length = sizeof *address;
    struct sockaddr *name = (struct sockaddr *)address;
    return checked(peer ? getpeername(fd, name, length) : getsockname(fd, name, length));
}

int fb_set_option(int fd, int level, int option, int value) {
    return checked(setsockopt(fd, level, option, &value, sizeof value));
}

int fb_replace(int fd, int other) {
    return checked(dup3(other, fd, O_CLOEXEC));
}

int fb_socket_error(int fd) {
    int error = 0;
    socklen_t length = sizeof error;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0) return -errno;
    return -error;
}

ptrdiff_t fb_read(int fd, void *bytes, size_t count) {
    ssize_t result = read(fd, bytes, count);
    return result < 0 ? -errno : result;
}

ptrdiff_t fb_peek(int fd, void *bytes, size_t count) {
    ssize_t result = recv(fd, bytes, count, MSG_PEEK | MSG_DONTWAIT);
    return result < 0 ? -errno : result;
}

ptrdiff_t fb_send(int fd, const struct iovec *pieces, size_t count) {
    struct msghdr message = {.msg_iov = (struct iovec *)pieces, .msg_iovlen = count};
    ssize_t result = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    return result < 0 ? -errno : result;
}

static int socket_option(int fd, int option) {
    int value = -1;
    socklen_t length = sizeof value;
    return getsockopt(fd, SOL_SOCKET, option, &value, &length) < 0 ? -errno : value;
}

int fb_adopt_listener(int fd) {
    int family = socket_option(fd, SO_DOMAIN);
    if (family < 0) return family;
    if (family != AF_INET && family != AF_INET6) return -EINVAL;
    if (socket_option(fd, SO_TYPE) != SOCK_STREAM || socket_option(fd, SO_ACCEPTCONN) != 1) return -EINVAL;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) return -errno;
    return checked(fcntl(fd, F_SETFD, FD_CLOEXEC));
}

int fb_send_datagram(const char *path, const void *bytes, size_t count) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(path);
    if (length < 2 || length >= sizeof address.sun_path || (*path != '/' && *path != '@')) return -EINVAL;
    memcpy(address.sun_path, path, length);
    if (*path == '@') address.sun_path[0] = 0;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -errno;
    struct timeval patience = {.tv_sec = 1};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    ssize_t sent = sendto(fd, bytes, count, MSG_NOSIGNAL, (struct sockaddr *)&address, size);
    int result = sent < 0 ? -errno : 0;
    close(fd);
    return result;
}

int fb_random(void *bytes, size_t count) {
    ssize_t result = getrandom(bytes, count, 0);
    return result < 0 ? -errno : (int)result;
}

int fb_name_thread(const char *name) { return -pthread_setname_np(pthread_self(), name); }

void fb_return_memory(void) {
    malloc_trim(0);
}

int fb_cpu_count(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) < 0) return -errno;
    return CPU_COUNT(&set);
}
