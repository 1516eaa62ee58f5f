/* libyaml, as Debian's libyaml-dev installs it. Linked from its archive: a broker needs no further package to run. */
#include <yaml.h>
