/* A tile renderer whose counts are known by arithmetic: 32 x 24 tiles of 2 layers in 288 frames call
   draw_8x8_tile 32 * 24 * 2 * 288 = 442,368 times, draw_layer 576 times and draw_frame 288 times. */
#include "board.h"
#include "mcount.h"
#include "text.h"
#include "work.h"

enum { COLUMNS = 32, ROWS = 24, LAYERS = 2, FRAMES = 288, WIDTH = COLUMNS * 8 / 32, TILES = 16 };

/* One bit per pixel: eight words a line. */
static uint32_t screen[ROWS * 8][WIDTH];
static uint64_t tiles[TILES];
static uint8_t map[LAYERS][ROWS][COLUMNS];

/* Two lines of the tile in each frame, by turns: all eight after four frames. */
static __attribute__((noipa)) void draw_8x8_tile(uint64_t tile, int column, int row, int line)
{
    unsigned shift = (unsigned)column % 4 * 8;
    for (int end = line + 2; line != end; line++)
        screen[row * 8 + line][column / 4] ^= (uint32_t)(tile >> (line * 8) & 0xff) << shift;
}

static __attribute__((noipa)) void draw_layer(int layer, int frame)
{
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++)
            draw_8x8_tile(tiles[map[layer][row][(column + frame * (layer + 1)) % COLUMNS]], column, row, frame % 4 * 2);
}

static __attribute__((noipa)) void draw_frame(int frame)
{
    for (int layer = 0; layer < LAYERS; layer++)
        draw_layer(layer, frame);
}

int main(void)
{
    uint32_t seed = 1, sum = 0;
    for (int i = 0; i < TILES; i++)
        tiles[i] = (uint64_t)xorshift(&seed) << 32 | xorshift(&seed);
    for (int cell = 0; cell < LAYERS * ROWS * COLUMNS; cell++)
        map[cell / COLUMNS / ROWS][cell / COLUMNS % ROWS][cell % COLUMNS] = xorshift(&seed) % TILES;
    for (int frame = 0; frame < FRAMES; frame++)
        draw_frame(frame);
    for (int line = 0; line < ROWS * 8; line++)
        for (int word = 0; word < WIDTH; word++)
            sum = mix(sum, screen[line][word]);
    print("tiles: %u frames, screen %08x\n", (unsigned)FRAMES, (unsigned)sum);
#ifdef MCOUNT
    mcount_print(console_putc);
#endif
    return 0;
}
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
