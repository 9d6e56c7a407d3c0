/* FreeRTOS on the stm32f407, which has 4 priority bits: the kernel asserts that (configPRIO_BITS). */
#pragma once
#define configCPU_CLOCK_HZ 168000000
#define configPRIO_BITS 4
#define configKERNEL_INTERRUPT_PRIORITY 0xf0
#define configMAX_SYSCALL_INTERRUPT_PRIORITY 0x50
#define vPortSVCHandler SVC_Handler
#define xPortPendSVHandler PendSV_Handler
#define xPortSysTickHandler SysTick_Handler
#define configTOTAL_HEAP_SIZE (96 * 1024)
#include "FreeRTOSConfig-common.h"
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
