/* nghttp2, as Debian's libnghttp2-dev installs it. */
#include <nghttp2/nghttp2.h>
