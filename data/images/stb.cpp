// The implementation of the stb image library, kept apart so that the headers are compiled once.
#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STBI_MAX_DIMENSIONS (1 << 20)
#define STBI_NO_HDR
#define STBI_NO_PIC
#include <stb_image.h>
#include <stb_image_write.h>
