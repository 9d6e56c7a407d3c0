/* FreeRTOS on the nrf52840, which has 3 priority bits: the kernel asserts that (configPRIO_BITS). */
#pragma once
#define configCPU_CLOCK_HZ 64000000
#define configPRIO_BITS 3
#define configKERNEL_INTERRUPT_PRIORITY 0xe0
#define configMAX_SYSCALL_INTERRUPT_PRIORITY 0x40
#define vPortSVCHandler SVC_Handler
#define xPortPendSVHandler PendSV_Handler
#define xPortSysTickHandler SysTick_Handler
#define configTOTAL_HEAP_SIZE (96 * 1024)
#include "FreeRTOSConfig-common.h"
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
