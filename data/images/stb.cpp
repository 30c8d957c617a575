// The implementation of stb_image_write, in its own file so that it is compiled once.
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb_image_write.h>
