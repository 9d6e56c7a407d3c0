/* The same for seconds: what ci/bench measures. */
#define REPEAT 20
#include "smp.c"
