// The implementation of stb_image_write, kept apart so that it is compiled once.
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb_image_write.h>
