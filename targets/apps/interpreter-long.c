/* The same for seconds: what ci/bench measures. */
#define REPEAT 60
#include "interpreter.c"
