/* ISA-L, from Debian's libisal-dev: the CRC32C of the store. */
#include <isa-l/crc.h>
