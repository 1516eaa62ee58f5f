/* nghttp2, from Debian's libnghttp2-dev. */
#include <nghttp2/nghttp2.h>
