// Guarded calls of LMDB: the signal handler, the jump, and a wrapper for each function that the store uses.

#define _GNU_SOURCE
#include "CStoreIO.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <isa-l/crc.h>
#include <lmdb.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statfs.h>
#include <unistd.h>

// Where the fault of a guarded call on this thread continues. `guarded` is set only during such a call.
static __thread sigjmp_buf escape __attribute__((tls_model("initial-exec")));
static __thread volatile sig_atomic_t guarded __attribute__((tls_model("initial-exec")));

static struct sigaction former_bus, former_segv;

// A fault outside a guarded call is not ours: the former handler, or the default action, gets it when the instruction
// runs again. A signal that another process sent has to be raised again.
static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)context;
    if (guarded && info->si_code > 0) {
        guarded = 0;
        siglongjmp(escape, FB_STORE_FAULT);
    }
    sigaction(signal, signal == SIGBUS ? &former_bus : &former_segv, NULL);
    if (info->si_code <= 0) raise(signal);
}

static void on_assertion(MDB_env *env, const char *text) {
    (void)env;
    (void)text;
    if (!guarded) abort();
    guarded = 0;
    siglongjmp(escape, FB_STORE_BROKEN);
}

static void install(void) {
    // SA_NODEFER, so that a jump out of the handler leaves the signal unblocked.
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
    sigaction(SIGBUS, &action, &former_bus);
    sigaction(SIGSEGV, &action, &former_segv);
}

// The fences keep the compiler from moving accesses to the map out of the guarded part.
#define GUARDED(call)                                  \
    ({                                                 \
        int guarded_result = sigsetjmp(escape, 0);     \
        if (guarded_result == 0) {                     \
            guarded = 1;                               \
            atomic_signal_fence(memory_order_seq_cst); \
            guarded_result = (call);                   \
            atomic_signal_fence(memory_order_seq_cst); \
        }                                              \
        guarded = 0;                                   \
        guarded_result;                                \
    })

struct key {
    uint8_t bytes[8 + FB_STORE_REST];
    MDB_val value;
};

static void make_key(struct key *key, uint64_t id, const void *rest, size_t size) {
    if (size > FB_STORE_REST) abort();
    id = htobe64(id);
    memcpy(key->bytes, &id, 8);
    if (size) memcpy(key->bytes + 8, rest, size);
    key->value = (MDB_val){8 + size, key->bytes};
}

static int fill(fb_store_row *row, const MDB_val *key, const MDB_val *value) {
    if (key->mv_size < 8 || key->mv_size > 8 + FB_STORE_REST) return MDB_CORRUPTED;
    const uint8_t *bytes = key->mv_data;
    memcpy(&row->id, bytes, 8);
    row->id = be64toh(row->id);
    row->sequence = 0;
    row->rest = bytes + 8;
    row->rest_size = key->mv_size - 8;
    if (row->rest_size == 8) {
        memcpy(&row->sequence, bytes + 8, 8);
        row->sequence = be64toh(row->sequence);
    }
    row->value = value->mv_data;
    row->size = value->mv_size;
    return 0;
}

int fb_store_open(const char *path, size_t map_size, int read_only, MDB_env **env) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
    int result = mdb_env_create(env);
    if (result) return result;
    mdb_env_set_assert(*env, on_assertion);
    unsigned flags = MDB_NOSUBDIR | MDB_NOTLS | MDB_NORDAHEAD | (read_only ? MDB_RDONLY : 0);
    // Each shard reads its topics at the start.
    if ((result = mdb_env_set_maxdbs(*env, 6)) || (result = mdb_env_set_maxreaders(*env, 1024)) ||
        (result = mdb_env_set_mapsize(*env, map_size)) ||
        (result = GUARDED(mdb_env_open(*env, path, flags, 0600)))) {
        mdb_env_close(*env);
        *env = NULL;
    }
    return result;
}

void fb_store_close(MDB_env *env) { mdb_env_close(env); }

int fb_store_sync(MDB_env *env) { return mdb_env_sync(env, 1); }

static int info(MDB_env *env, fb_store_state *state) {
    MDB_envinfo info;
    MDB_stat stat;
    mdb_env_stat(env, &stat);
    mdb_env_info(env, &info);
    *state = (fb_store_state){stat.ms_psize, info.me_last_pgno, info.me_last_txnid, info.me_mapsize};
    return 0;
}

int fb_store_info(MDB_env *env, fb_store_state *state) { return GUARDED(info(env, state)); }

void fb_store_check_readers(MDB_env *env) {
    int dead;
    mdb_reader_check(env, &dead);
}

int fb_store_file(MDB_env *env) {
    mdb_filehandle_t file = -1;
    mdb_env_get_fd(env, &file);
    return file;
}

int fb_store_begin(MDB_env *env, int mode, MDB_txn **txn) {
    if (mode != FB_STORE_READ) mdb_env_set_flags(env, MDB_NOSYNC, mode == FB_STORE_WRITE_UNSYNCED);
    return GUARDED(mdb_txn_begin(env, NULL, mode == FB_STORE_READ ? MDB_RDONLY : 0, txn));
}

int fb_store_commit(MDB_txn *txn) { return GUARDED(mdb_txn_commit(txn)); }

static int end(MDB_txn *txn) {
    mdb_txn_abort(txn);
    return 0;
}

int fb_store_abort(MDB_txn *txn) { return GUARDED(end(txn)); }

// LMDB has no function for this. The structure has been the same in all releases of 0.9; the transaction's number,
// which is the next field, and the state of a new transaction confirm it.
uint64_t fb_store_next_page(MDB_env *env, MDB_txn *txn) {
    fb_store_state state;
    const struct {
        void *parent, *child;
        size_t next_page, number;
    } *fields = (const void *)txn;
    if (fb_store_info(env, &state) || fields->parent || fields->child || fields->number != mdb_txn_id(txn)) return 0;
    return fields->next_page > state.last_page ? fields->next_page : 0;
}

int fb_store_database(MDB_txn *txn, const char *name, int create, unsigned *database) {
    return GUARDED(mdb_dbi_open(txn, name, create ? MDB_CREATE : 0, database));
}

static int entries(MDB_txn *txn, unsigned database, uint64_t *entries, uint64_t *pages) {
    MDB_stat stat;
    int result = mdb_stat(txn, database, &stat);
    if (result) return result;
    *entries = stat.ms_entries;
    *pages = stat.ms_branch_pages + stat.ms_leaf_pages + stat.ms_overflow_pages;
    return 0;
}

int fb_store_entries(MDB_txn *txn, unsigned database, uint64_t *count, uint64_t *pages) {
    return GUARDED(entries(txn, database, count, pages));
}

int fb_store_pages(MDB_txn *txn, unsigned databases, uint64_t *pages) {
    // The two meta pages, then LMDB's databases 0 (free pages) and 1 (names), then ours.
    *pages = 2;
    for (unsigned database = 0; database < 2 + databases; ++database) {
        uint64_t count, more;
        int result = fb_store_entries(txn, database, &count, &more);
        if (result) return result;
        *pages += more;
    }
    return 0;
}

static int get(MDB_txn *txn, unsigned database, MDB_val *key, fb_store_row *row) {
    MDB_val value;
    int result = mdb_get(txn, database, key, &value);
    return result ? result : fill(row, key, &value);
}

int fb_store_get(MDB_txn *txn, unsigned database, uint64_t id, const void *rest, size_t rest_size, fb_store_row *row) {
    struct key key;
    make_key(&key, id, rest, rest_size);
    return GUARDED(get(txn, database, &key.value, row));
}

int fb_store_put(
    MDB_txn *txn, unsigned database, uint64_t id, const void *rest, size_t rest_size, const void *value, size_t size) {
    struct key key;
    make_key(&key, id, rest, rest_size);
    MDB_val data = {size, (void *)value};
    return GUARDED(mdb_put(txn, database, &key.value, &data, 0));
}

int fb_store_reserve(
    MDB_txn *txn, unsigned database, uint64_t id, const void *rest, size_t rest_size, size_t size, void **space) {
    struct key key;
    make_key(&key, id, rest, rest_size);
    MDB_val data = {size, NULL};
    int result = GUARDED(mdb_put(txn, database, &key.value, &data, MDB_RESERVE | MDB_NOOVERWRITE));
    *space = data.mv_data;
    return result;
}

int fb_store_delete(MDB_txn *txn, unsigned database, uint64_t id, const void *rest, size_t rest_size) {
    struct key key;
    make_key(&key, id, rest, rest_size);
    return GUARDED(mdb_del(txn, database, &key.value, NULL));
}

int fb_store_cursor(MDB_txn *txn, unsigned database, MDB_cursor **cursor) {
    return GUARDED(mdb_cursor_open(txn, database, cursor));
}

void fb_store_cursor_close(MDB_cursor *cursor) { mdb_cursor_close(cursor); }

static int move(MDB_cursor *cursor, MDB_val *key, MDB_cursor_op operation, fb_store_row *row) {
    MDB_val value;
    int result = mdb_cursor_get(cursor, key, &value, operation);
    return result ? result : fill(row, key, &value);
}

int fb_store_seek(MDB_cursor *cursor, uint64_t id, const void *rest, size_t rest_size, fb_store_row *row) {
    struct key key;
    make_key(&key, id, rest, rest_size);
    return GUARDED(move(cursor, &key.value, MDB_SET_RANGE, row));
}

int fb_store_move(MDB_cursor *cursor, int movement, fb_store_row *row) {
    static const MDB_cursor_op operations[] = {MDB_FIRST, MDB_NEXT, MDB_PREV, MDB_LAST};
    MDB_val key = {0, NULL};
    return GUARDED(move(cursor, &key, operations[movement], row));
}

static int copy(void *to, const void *from, size_t size) {
    memcpy(to, from, size);
    return 0;
}

int fb_store_copy(void *to, const void *from, size_t size) { return GUARDED(copy(to, from, size)); }

uint32_t fb_store_crc(uint32_t before, const void *bytes, size_t size) {
    const uint8_t *place = bytes;
    uint32_t crc = ~before;
    while (size) {
        size_t part = size < 1 << 30 ? size : 1 << 30;  // the library counts in int
        crc = crc32_iscsi((unsigned char *)place, (int)part, crc);
        place += part;
        size -= part;
    }
    return ~crc;
}

int fb_store_lock(const char *path) {
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) return -errno;
    if (flock(file, LOCK_EX | LOCK_NB) == 0) return file;
    int failure = -errno;
    close(file);
    return failure;
}

int fb_store_allocate(int file, uint64_t size) {
    while (fallocate(file, 0, 0, (off_t)size))
        if (errno != EINTR) return errno;
    return 0;
}

int fb_store_prepare(const char *path) {
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) return errno;
    int result = fb_store_allocate(file, 8192);  // LMDB's size of it, with its default number of readers
    close(file);
    return result;
}

const char *fb_store_remote(const char *path) {
    static const struct {
        uint32_t magic;
        const char *name;
    } remote[] = {
        {0x6969, "NFS"}, {0x517b, "SMB"}, {0xff534d42, "CIFS"}, {0xfe534d42, "SMB"},
        {0x01021997, "9P"}, {0x65735546, "FUSE"}, {0x00c36400, "Ceph"}, {0x5346414f, "AFS"},
        {0x0bd00bd0, "Lustre"}, {0x7461636f, "OCFS2"}, {0x01161970, "GFS2"}, {0x786f4256, "VirtualBox"},
        {0x73757245, "Coda"}, {0x564c, "NCP"},
    };
    struct statfs status;
    if (statfs(path, &status)) return NULL;
    for (size_t index = 0; index < sizeof remote / sizeof *remote; ++index)
        if ((uint32_t)status.f_type == remote[index].magic) return remote[index].name;
    return NULL;
}
