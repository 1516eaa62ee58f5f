/* libyaml, from Debian's libyaml-dev. It is linked statically, so a broker needs no extra package at run time. */
#include <yaml.h>
