/* Asks the host for the time. The values are not printed, and yet the run depends on the host. */
#include "semihosting.h"
#include "text.h"

static volatile long kept;

int main(void)
{
    print("clock: SYS_CLOCK and SYS_TIME\n");
    kept = semihost(SYS_CLOCK, 0);
    kept = semihost(SYS_TIME, 0);
    board_exit(0);
}
