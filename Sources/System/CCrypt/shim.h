/* libxcrypt, from Debian's libcrypt-dev. */
#include <crypt.h>

/* The least size of the caller's buffer for crypt_rn(3), which overwrites it. */
static inline unsigned long fb_crypt_size(void) { return sizeof(struct crypt_data); }
