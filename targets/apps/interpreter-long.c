/* The same for some seconds instead of a fraction of one: what ci/bench measures. */
#define REPEAT 60
#include "interpreter.c"
