/* FreeRTOS on the nrf52840: its handlers are in the vector table already, by name (FreeRTOSConfig.h). */
#include "board.h"

void board_rtos_vectors(void) {}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
