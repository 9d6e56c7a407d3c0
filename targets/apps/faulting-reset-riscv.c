/* faulting-exit-riscv.c with a handler that resets the machine. */
#define FAULT_RESETS
#include "faulting-exit-riscv.c"
