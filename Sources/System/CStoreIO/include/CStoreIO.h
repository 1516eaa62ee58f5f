#ifndef FOREBAY_CSTOREIO_H
#define FOREBAY_CSTOREIO_H
// LMDB for the store, guarded. LMDB reads its file through a memory map, so a read error of the disk arrives as SIGBUS,
// and a damaged page can send it to any address or fail one of its assertions. Every function below that touches the
// map catches these, for the calling thread and for the time of the call, and returns FB_STORE_FAULT or
// FB_STORE_BROKEN instead. There are only C frames between the fault and its handler.
//
// Functions return 0, a code of LMDB, an errno, or one of these two. A key is an id in network byte order followed by
// `rest_size` bytes, at most FB_STORE_REST.

#include <stddef.h>
#include <stdint.h>

struct MDB_env;
struct MDB_txn;
struct MDB_cursor;

enum {
    FB_STORE_FAULT = -1,   // SIGBUS or SIGSEGV: the file cannot be read, or is damaged
    FB_STORE_BROKEN = -2,  // an assertion of LMDB failed: the file is damaged
};
enum { FB_STORE_REST = 480 };

// Movements of a cursor.
enum { FB_STORE_FIRST, FB_STORE_NEXT, FB_STORE_PREVIOUS, FB_STORE_LAST };

// What a cursor stands on. `rest` and `value` point into the map, and must be read with fb_store_copy.
typedef struct {
    uint64_t id;
    uint64_t sequence;  // the rest of the key as an integer, if it has eight bytes
    const void *rest;
    size_t rest_size;
    const void *value;
    size_t size;
} fb_store_row;

typedef struct {
    uint64_t page_size;
    uint64_t last_page;         // of the last commit
    uint64_t last_transaction;  // number of the last commit
    uint64_t map_size;
} fb_store_state;

// Opens the file at `path` with a map of `map_size` bytes.
int fb_store_open(const char *path, size_t map_size, int read_only, struct MDB_env **env);
void fb_store_close(struct MDB_env *env);
int fb_store_sync(struct MDB_env *env);
int fb_store_info(struct MDB_env *env, fb_store_state *state);
// Releases what readers of processes that have died still hold.
void fb_store_check_readers(struct MDB_env *env);
// The descriptor of the data file.
int fb_store_file(struct MDB_env *env);

enum { FB_STORE_READ, FB_STORE_WRITE, FB_STORE_WRITE_UNSYNCED };
int fb_store_begin(struct MDB_env *env, int mode, struct MDB_txn **txn);
int fb_store_commit(struct MDB_txn *txn);
int fb_store_abort(struct MDB_txn *txn);
// The number of the first page that a write transaction has not used yet; 0 if this LMDB cannot be asked.
uint64_t fb_store_next_page(struct MDB_env *env, struct MDB_txn *txn);
int fb_store_database(struct MDB_txn *txn, const char *name, int create, unsigned *database);
// Pages of all databases, LMDB's own two included.
int fb_store_pages(struct MDB_txn *txn, unsigned databases, uint64_t *pages);
int fb_store_entries(struct MDB_txn *txn, unsigned database, uint64_t *entries, uint64_t *pages);

int fb_store_get(
    struct MDB_txn *txn, unsigned database, uint64_t id, const void *rest, size_t rest_size, fb_store_row *row);
int fb_store_put(
    struct MDB_txn *txn, unsigned database, uint64_t id, const void *rest, size_t rest_size, const void *value,
    size_t size);
// Adds a row, and returns where to write its value before the next call for this transaction. The space is ordinary
// memory, not the map.
int fb_store_reserve(
    struct MDB_txn *txn, unsigned database, uint64_t id, const void *rest, size_t rest_size, size_t size, void **space);
int fb_store_delete(struct MDB_txn *txn, unsigned database, uint64_t id, const void *rest, size_t rest_size);

int fb_store_cursor(struct MDB_txn *txn, unsigned database, struct MDB_cursor **cursor);
void fb_store_cursor_close(struct MDB_cursor *cursor);
// The first row whose key is at least this one.
int fb_store_seek(struct MDB_cursor *cursor, uint64_t id, const void *rest, size_t rest_size, fb_store_row *row);
int fb_store_move(struct MDB_cursor *cursor, int movement, fb_store_row *row);
// Copies bytes out of the map.
int fb_store_copy(void *to, const void *from, size_t size);

// The CRC32C of `size` bytes that follow those with the CRC32C `before`, which is 0 at first.
uint32_t fb_store_crc(uint32_t before, const void *bytes, size_t size);

// Opens `path`, created if necessary, and locks it for this process. Returns a descriptor or -errno; -EWOULDBLOCK if
// another process has the lock.
int fb_store_lock(const char *path);
// Reserves disk space for the first `size` bytes of a file.
int fb_store_allocate(int file, uint64_t size);
// Creates LMDB's lock file, if necessary, with all its disk space, so that writing to its map cannot fail. Only before
// the environment is open: closing a descriptor of this file releases the process's locks on it.
int fb_store_prepare(const char *path);
// The name of the file system of `path` if it is not a local one; a null pointer otherwise.
const char *fb_store_remote(const char *path);

#endif
