/* LMDB, from Debian's liblmdb-dev. */
#include <lmdb.h>

_Static_assert(MDB_VERSION_FULL == MDB_VERINT(0, 9, 24), "this is written for LMDB 0.9.24, Debian 12's");
