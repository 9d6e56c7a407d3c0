/* The same for seconds: what ci/bench measures. */
#define REPEAT 40
#include "amp.c"
