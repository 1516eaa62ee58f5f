// Records what a program writes to the store's files, or lets its writes fail. Loaded by LD_PRELOAD.
//
// With $DISK_LOG, every change of a file whose path contains "forebay.store" is appended to that file, and every line
// written to the standard output: a header of five 64-bit integers (kind, file, offset, size, 0) and the bytes written.
// `file` is the file's inode. LMDB's lock file is left out: it is rebuilt when the store is opened.
//
// $DISK_FAIL is "CALL N ERRNO [TIMES]": the calls of that kind on the data file from the Nth on fail, TIMES of them or
// all. CALL is pwrite (which includes writev), meta (a pwrite to a descriptor with O_DSYNC), fdatasync or fallocate.
// With an ERRNO of 0, the call writes half of its bytes. With $DISK_SWITCH, calls fail and are counted only while that
// file exists.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE = 1, SYNCED_WRITE, SYNC, SIZE, RENAME, SYNC_FOLDER, LINE, OPEN };

static int log_file = -1;
static char fail_call[16];
static const char *fail_switch;
static long fail_from = -1, fail_errno, fail_times = -1, seen;

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("DISK_LOG");
    if (path) log_file = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    fail_switch = getenv("DISK_SWITCH");
    const char *fail = getenv("DISK_FAIL");
    if (fail) sscanf(fail, "%15s %ld %ld %ld", fail_call, &fail_from, &fail_errno, &fail_times);
}

static void record(int64_t kind, int64_t file, int64_t offset, const void *bytes, size_t size) {
    if (log_file < 0) return;
    int64_t header[5] = {kind, file, offset, (int64_t)size, 0};
    struct iovec parts[2] = {{header, sizeof header}, {(void *)bytes, size}};
    if (syscall(SYS_writev, log_file, parts, 2) < 0) _exit(99);
}

// Which file this is: 0 for the standard output, the inode for a data file, -1 for a folder, -2 for others.
static int64_t identity(int file) {
    char name[64], path[4096];
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    ssize_t length = readlink(name, path, sizeof path - 1);
    if (length < 0) return -2;
    path[length] = 0;
    struct stat status;
    if (fstat(file, &status)) return -2;
    if (S_ISDIR(status.st_mode)) return -1;
    return strstr(path, "forebay.store") && !strstr(path, "-lock") ? (int64_t)status.st_ino : file == 1 ? 0 : -2;
}

// Whether this call is to fail; sets errno, or leaves it 0 for a short write.
static int fails(const char *call, int64_t file) {
    if (file <= 0 || fail_from < 0 || strcmp(call, fail_call)) return 0;
    if (fail_switch && access(fail_switch, F_OK)) return 0;
    if (++seen < fail_from || fail_times == 0) return 0;
    if (fail_times > 0) --fail_times;
    errno = (int)fail_errno;
    return 1;
}

ssize_t pwrite(int file, const void *bytes, size_t size, off_t offset) {
    int64_t which = identity(file);
    int synced = (fcntl(file, F_GETFL) & O_DSYNC) != 0;
    if (fails(synced ? "meta" : "pwrite", which)) {
        if (errno) return -1;
        size /= 2;
    }
    ssize_t done = syscall(SYS_pwrite64, file, bytes, size, offset);
    if (done > 0 && which > 0) record(synced ? SYNCED_WRITE : WRITE, which, offset, bytes, (size_t)done);
    return done;
}

ssize_t pwrite64(int file, const void *bytes, size_t size, off_t offset) { return pwrite(file, bytes, size, offset); }

ssize_t write(int file, const void *bytes, size_t size) {
    int64_t which = identity(file);
    off_t offset = which > 0 ? lseek(file, 0, SEEK_CUR) : 0;
    ssize_t done = syscall(SYS_write, file, bytes, size);
    if (done > 0 && which >= 0) record(which ? WRITE : LINE, which, offset, bytes, (size_t)done);
    return done;
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    int64_t which = identity(file);
    if (fails("pwrite", which)) {
        if (errno) return -1;
        count = (count + 1) / 2;
    }
    off_t offset = which > 0 ? lseek(file, 0, SEEK_CUR) : 0;
    ssize_t done = syscall(SYS_writev, file, parts, count);
    ssize_t left = done;
    for (int part = 0; which > 0 && part < count && left > 0; ++part) {
        size_t size = (size_t)left < parts[part].iov_len ? (size_t)left : parts[part].iov_len;
        record(WRITE, which, offset, parts[part].iov_base, size);
        offset += (off_t)size;
        left -= (ssize_t)size;
    }
    return done;
}

int fallocate(int file, int mode, off_t offset, off_t size) {
    int64_t which = identity(file);
    if (fails("fallocate", which)) return -1;
    int result = (int)syscall(SYS_fallocate, file, mode, offset, size);
    if (result == 0 && which > 0) record(SIZE, which, offset + size, NULL, 0);
    return result;
}

int fallocate64(int file, int mode, off_t offset, off_t size) { return fallocate(file, mode, offset, size); }

// The store must not use these on its data file: the images would be wrong.
int ftruncate(int file, off_t size) {
    if (identity(file) > 0) _exit(98);
    return (int)syscall(SYS_ftruncate, file, size);
}

int ftruncate64(int file, off_t size) { return ftruncate(file, size); }

int msync(void *address, size_t size, int flags) {
    (void)address, (void)size, (void)flags;
    _exit(98);
}

int fdatasync(int file) {
    int64_t which = identity(file);
    if (fails("fdatasync", which)) return -1;
    int result = (int)syscall(SYS_fdatasync, file);
    if (result == 0 && which > 0) record(SYNC, which, 0, NULL, 0);
    return result;
}

int fsync(int file) {
    int64_t which = identity(file);
    if (fails("fdatasync", which)) return -1;
    int result = (int)syscall(SYS_fsync, file);
    if (result == 0 && which != -2) record(which > 0 ? SYNC : SYNC_FOLDER, which, 0, NULL, 0);
    return result;
}

// The new name, without its folder, is the record's text.
int rename(const char *from, const char *to) {
    struct stat status;
    int64_t which = stat(from, &status) ? -2 : (int64_t)status.st_ino;
    int result = (int)syscall(SYS_rename, from, to);
    const char *name = strrchr(to, '/');
    if (result == 0 && which >= 0 && name && strstr(name, "forebay.store"))
        record(RENAME, which, 0, name + 1, strlen(name + 1));
    return result;
}
