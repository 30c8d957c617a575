/* Finds objects in pixels that are in memory: detect_c CHECKPOINT THRESHOLD IMAGE.ppm (binary, P6) */
#include <saccade/saccade.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(void) { return fprintf(stderr, "error: %s\n", saccade_last_error()), 1; }

int main(int argc, char** argv) {
  if (argc != 4) return fprintf(stderr, "usage: detect_c CHECKPOINT THRESHOLD IMAGE.ppm\n"), 2;
  FILE* file = fopen(argv[3], "rb");
  int width = 0, height = 0;
  if (!file || fscanf(file, "P6 %d %d 255%*c", &width, &height) != 2 || width < 1 || height < 1)
    return fprintf(stderr, "error: %s: not a binary PPM\n", argv[3]), 2;
  uint8_t* rgb = calloc((size_t)width * height, 3);
  if (!rgb || fread(rgb, 3, (size_t)width * height, file) != (size_t)width * height)
    return fprintf(stderr, "error: %s: too short\n", argv[3]), 2;
  fclose(file);

  saccade_model* model;
  if (saccade_model_load(argv[1], "cpu", &model) != SACCADE_OK) return fail();
  const saccade_pixels image = {.data = rgb, .width = width, .height = height, .order = SACCADE_RGB};
  saccade_result* result;
  if (saccade_predict(model, &image, 1, atof(argv[2]), &result) != SACCADE_OK) return fail();
  saccade_prediction p;
  for (size_t i = 0; saccade_result_get(result, 0, i, &p) == SACCADE_OK; ++i)
    printf("%s %.3f [%.1f %.1f %.1f %.1f]\n", saccade_model_class_name(model, p.label), p.score, p.x1, p.y1, p.x2,
           p.y2);
  saccade_result_free(result);
  saccade_model_free(model);
  free(rgb);
  return 0;
}
