/* libxcrypt, as Debian's libcrypt-dev installs it. */
#include <crypt.h>

/* crypt(3) into a buffer of the caller's, which is overwritten: `size` bytes of it are at least needed. */
static inline unsigned long fb_crypt_size(void) { return sizeof(struct crypt_data); }
