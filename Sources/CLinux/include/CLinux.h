#ifndef FOREBAY_CLINUX_H
#define FOREBAY_CLINUX_H
// What Swift cannot import from glibc: epoll, eventfd, signalfd, accept4 and a few socket options.
#endif
