/* FreeRTOS includes stdlib.h and needs nothing of it. */
#pragma once
#include <stddef.h>
