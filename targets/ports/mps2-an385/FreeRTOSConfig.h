/* FreeRTOS on mps2-an385: 25 MHz Cortex-M3, 3 priority bits; the kernel's handlers are the vectors. */
#pragma once
#define configCPU_CLOCK_HZ 25000000
#define configKERNEL_INTERRUPT_PRIORITY 0xe0
#define configMAX_SYSCALL_INTERRUPT_PRIORITY 0x40
#define vPortSVCHandler SVC_Handler
#define xPortPendSVHandler PendSV_Handler
#define xPortSysTickHandler SysTick_Handler
#include "FreeRTOSConfig-common.h"
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
