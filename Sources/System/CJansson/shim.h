/* Jansson, from Debian's libjansson-dev. */
#include <jansson.h>
