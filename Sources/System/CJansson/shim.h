/* Jansson, as Debian's libjansson-dev installs it. */
#include <jansson.h>
