/* A trap handler that faults itself, after it has called a function: each trap is one deeper than the last. */
#include "board.h"
#include "text.h"

static __attribute__((noipa)) uint32_t describe(uintptr_t address) { return *(volatile uint32_t *)address; }

uintptr_t Exception_Handler(uintptr_t cause, uintptr_t pc)
{
    return pc + cause + describe(0x1c023800);
}

int main(void)
{
    print("deeptraps: the handler traps\n");
    return (int)describe(0x1c023800);
}
