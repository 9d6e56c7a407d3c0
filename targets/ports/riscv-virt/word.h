/* Loads and stores of a register as a whole, for assembly: of 8 bytes on RV64, of 4 on RV32. */
#if __riscv_xlen == 64
#define LOAD ld
#define STORE sd
#define REG 8
#else
#define LOAD lw
#define STORE sw
#define REG 4
#endif
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
