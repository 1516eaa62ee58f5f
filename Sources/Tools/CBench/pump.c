// The byte pump: the cost of moving the bytes, and nothing else. The pump reads from one publisher and writes the same
// bytes to every subscriber. It has no messages, topics, credit or memory limits beyond its ring. It does only what
// every broker here can do: one thread, epoll, one read of up to 128 KiB and one write per subscriber in each turn,
// from memory that all subscribers share. A subscriber is a cursor. A full ring stops the publisher.
//
// The first byte of a connection is its role ('P' or 'S'), and is answered with '+'.
#define _GNU_SOURCE
#include "CBench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 256, QUANTUM = 128 << 10, RING = 16 << 20, CONNECTIONS = 32 << 10 };

typedef struct {
    int fd;
    int blocked;
    uint64_t cursor;
} subscriber;

typedef struct {
    int epoll, listener, publisher;
    int paused;
    int count;
    uint64_t head;
    char *ring; // mapped twice, back to back, so that every range is contiguous
    subscriber subscribers[CONNECTIONS];
    int index_of[CONNECTIONS]; // by descriptor: index + 1 of a subscriber
} pump;

static int watch(pump *p, int operation, int fd, uint32_t events) {
    struct epoll_event event = {.events = events, .data.fd = fd};
    return epoll_ctl(p->epoll, operation, fd, &event);
}

static int map_ring(pump *p) {
    int fd = memfd_create("ring", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, RING) < 0) return -errno;
    char *space = mmap(NULL, 2 * (size_t)RING, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (space == MAP_FAILED) return -errno;
    for (int half = 0; half < 2; half++) {
        void *at = space + half * (size_t)RING;
        if (mmap(at, RING, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) return -errno;
    }
    close(fd);
    p->ring = space;
    return 0;
}

static void take_connection(pump *p) {
    int fd = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (fd >= CONNECTIONS || watch(p, EPOLL_CTL_ADD, fd, EPOLLIN) < 0) close(fd);
}

static void drop(pump *p, int fd) {
    int index = p->index_of[fd] - 1;
    if (index >= 0) {
        p->subscribers[index] = p->subscribers[--p->count];
        p->index_of[p->subscribers[index].fd] = index + 1;
        p->index_of[fd] = 0;
    }
    if (fd == p->publisher) p->publisher = -1;
    close(fd);
}

static uint64_t slowest(const pump *p) {
    uint64_t cursor = p->head;
    for (int i = 0; i < p->count; i++) {
        if (p->subscribers[i].cursor < cursor) cursor = p->subscribers[i].cursor;
    }
    return cursor;
}

static void read_publisher(pump *p) {
    uint64_t room = RING - (p->head - slowest(p));
    if (room == 0) {
        p->paused = 1;
        watch(p, EPOLL_CTL_MOD, p->publisher, 0);
        return;
    }
    ssize_t got = read(p->publisher, p->ring + p->head % RING, room < QUANTUM ? room : QUANTUM);
    if (got > 0) p->head += (uint64_t)got;
    if (got == 0 || (got < 0 && errno != EAGAIN)) drop(p, p->publisher);
}

// Reads the role of a new connection, and afterwards only detects its end.
static void read_other(pump *p, int fd) {
    char role;
    ssize_t got = read(fd, &role, 1);
    if (got < 0 && errno == EAGAIN) return;
    if (got != 1 || p->index_of[fd] || (role != 'P' && role != 'S')) {
        drop(p, fd);
        return;
    }
    if (role == 'P') {
        p->publisher = fd;
    } else {
        p->subscribers[p->count] = (subscriber){.fd = fd, .cursor = p->head};
        p->index_of[fd] = ++p->count;
    }
    if (send(fd, "+", 1, MSG_NOSIGNAL) != 1) drop(p, fd);
}

static void write_subscriber(pump *p, subscriber *s) {
    size_t waiting = p->head - s->cursor;
    ssize_t sent = send(s->fd, p->ring + s->cursor % RING, waiting, MSG_NOSIGNAL);
    if (sent > 0) s->cursor += (uint64_t)sent;
    if (sent < (ssize_t)waiting && (sent >= 0 || errno == EAGAIN)) {
        s->blocked = 1;
        watch(p, EPOLL_CTL_MOD, s->fd, EPOLLIN | EPOLLOUT);
    }
}

static void handle(pump *p, const struct epoll_event *event) {
    int fd = event->data.fd;
    if (fd == p->listener) {
        take_connection(p);
    } else if (fd == p->publisher) {
        read_publisher(p);
    } else {
        if (event->events & EPOLLOUT && p->index_of[fd]) {
            p->subscribers[p->index_of[fd] - 1].blocked = 0;
            watch(p, EPOLL_CTL_MOD, fd, EPOLLIN);
        }
        if (event->events & (EPOLLIN | EPOLLHUP | EPOLLERR)) read_other(p, fd);
    }
}

static void run(pump *p) {
    struct epoll_event events[EVENTS];
    for (;;) {
        int ready = epoll_wait(p->epoll, events, EVENTS, -1);
        for (int i = 0; i < ready; i++) handle(p, &events[i]);
        for (int i = 0; i < p->count; i++) {
            subscriber *s = &p->subscribers[i];
            if (!s->blocked && s->cursor < p->head) write_subscriber(p, s);
        }
        if (p->paused && p->head - slowest(p) < RING / 2) {
            p->paused = 0;
            watch(p, EPOLL_CTL_MOD, p->publisher, EPOLLIN);
        }
    }
}

int cb_pump(int port) {
    pump *p = calloc(1, sizeof *p);
    if (!p) return -ENOMEM;
    p->publisher = -1;
    int failure = map_ring(p);
    if (failure) return failure;
    p->epoll = epoll_create1(EPOLL_CLOEXEC);
    p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int on = 1;
    if (p->epoll < 0 || p->listener < 0 ||
        setsockopt(p->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        bind(p->listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(p->listener, 1024) < 0 ||
        watch(p, EPOLL_CTL_ADD, p->listener, EPOLLIN) < 0) {
        return -errno;
    }
    run(p);
    return 0;
}
