/* The same for seconds: what ci/bench measures. */
#define REPEAT 400
#include "branchy.c"
