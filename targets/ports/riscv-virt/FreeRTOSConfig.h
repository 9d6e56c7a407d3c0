/* FreeRTOS on QEMU `virt`: the CLINT's 10 MHz mtime is the tick's clock. */
#pragma once
#define configCPU_CLOCK_HZ 10000000
#define configMTIME_BASE_ADDRESS 0x0200BFF8
#define configMTIMECMP_BASE_ADDRESS 0x02004000
#define configISR_STACK_SIZE_WORDS 512
#include "FreeRTOSConfig-common.h"
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
