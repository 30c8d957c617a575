// The C interface on top of the C++ one. No exception leaves it.
#include <algorithm>
#include <new>
#include <stdexcept>
#include <string>

#include <saccade/saccade.h>
#include "train/library/saccade.hpp"

struct saccade_model {
  saccade::Model model;
};
struct saccade_result {
  std::vector<std::vector<saccade::MaskedPrediction>> images;
};
struct saccade_image {
  saccade::DecodedImage decoded;
};

namespace {

thread_local std::string last_error;

void remember(const char* text) noexcept {
  try {
    last_error = text;
  } catch (...) {
    last_error.clear();
  }
}

template <class F>
saccade_status with_status(F&& f) noexcept {
  try {
    f();
    return SACCADE_OK;
  } catch (const std::invalid_argument& error) {
    remember(error.what());
    return SACCADE_BAD_INPUT;
  } catch (const std::bad_alloc&) {
    remember("out of memory");
    return SACCADE_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    remember(error.what());
    return SACCADE_FAILED;
  } catch (...) {
    remember("unknown error");
    return SACCADE_FAILED;
  }
}

void need_pointer(const void* pointer, const char* name) {
  if (!pointer) throw std::invalid_argument(std::string(name) + ": a null pointer");
}

saccade::Pixels pixels_of(const saccade_pixels& p) {
  if (p.reserved != 0)
    throw std::invalid_argument("pixels: reserved is " + std::to_string(p.reserved) + ", expected 0");
  return {p.data, p.width, p.height, p.stride, static_cast<saccade::PixelOrder>(p.order)};
}

saccade::EncodedImage encoded_of(const saccade_encoded& e) { return {e.data, e.size, e.name ? e.name : ""}; }

saccade_prediction prediction_of(const saccade::Prediction& p) {
  return {p.label, 0, p.score, p.x1, p.y1, p.x2, p.y2};
}

// Sets *made to what make() returns, or to null if that fails.
template <class T, class Make>
saccade_status make_new(T** made, const char* name, Make make) {
  return with_status([&] {
    need_pointer(made, name);
    *made = nullptr;
    *made = new T{make()};
  });
}

bool has_label(const saccade_model* model, int32_t label) {
  return model && label >= 0 && static_cast<size_t>(label) < model->model.class_names().size();
}

}  // namespace

extern "C" {

const char* saccade_version(void) { return SACCADE_VERSION; }
const char* saccade_last_error(void) { return last_error.c_str(); }

saccade_status saccade_set_threads(int32_t count) {
  return with_status([&] { saccade::set_library_threads(count); });
}

saccade_status saccade_model_load(const char* checkpoint, const char* device, saccade_model** model) {
  return make_new(model, "model", [&] {
    need_pointer(checkpoint, "checkpoint");
    need_pointer(device, "device");
    return saccade::Model(checkpoint, device);
  });
}
void saccade_model_free(saccade_model* model) { delete model; }
int32_t saccade_model_is_detector(const saccade_model* model) { return model && model->model.is_detector(); }
const char* saccade_model_task(const saccade_model* model) {
  return model ? model->model.task().c_str() : nullptr;
}
int32_t saccade_model_predicts_masks(const saccade_model* model) {
  return model && model->model.predicts_masks();
}
saccade_status saccade_model_image_size(const saccade_model* model, int64_t* height, int64_t* width,
                                        int32_t* keeps_form) {
  return with_status([&] {
    need_pointer(model, "model");
    need_pointer(height, "height");
    need_pointer(width, "width");
    need_pointer(keeps_form, "keeps_form");
    *height = model->model.image_height();
    *width = model->model.image_width();
    *keeps_form = model->model.keeps_image_form();
  });
}
int32_t saccade_model_is_on_gpu(const saccade_model* model) { return model && model->model.is_on_gpu(); }
int32_t saccade_model_class_count(const saccade_model* model) {
  return model ? static_cast<int32_t>(model->model.class_names().size()) : 0;
}
const char* saccade_model_class_name(const saccade_model* model, int32_t label) {
  return has_label(model, label) ? model->model.class_names()[static_cast<size_t>(label)].c_str() : nullptr;
}
int64_t saccade_model_category_id(const saccade_model* model, int32_t label) {
  return has_label(model, label) && !model->model.category_ids().empty()
             ? model->model.category_ids()[static_cast<size_t>(label)]
             : -1;
}

saccade_status saccade_predict(const saccade_model* model, const saccade_pixels* images, size_t count,
                               double threshold, saccade_result** result) {
  return make_new(result, "result", [&] {
    need_pointer(model, "model");
    if (count > 0) need_pointer(images, "images");
    std::vector<saccade::Pixels> pixels;
    for (const saccade_pixels* p = images; p != images + count; ++p) pixels.push_back(pixels_of(*p));
    return model->model.predict_masks(pixels, threshold);
  });
}

saccade_status saccade_predict_file(const saccade_model* model, const char* path, double threshold,
                                    saccade_result** result) {
  return make_new(result, "result", [&] {
    need_pointer(model, "model");
    need_pointer(path, "path");
    return decltype(saccade_result::images){model->model.predict_masks_of_file(path, threshold)};
  });
}

saccade_status saccade_predict_encoded(const saccade_model* model, const saccade_encoded* images,
                                       size_t count, double threshold, saccade_result** result) {
  return make_new(result, "result", [&] {
    need_pointer(model, "model");
    if (count > 0) need_pointer(images, "images");
    std::vector<saccade::EncodedImage> encoded;
    for (const saccade_encoded* e = images; e != images + count; ++e) encoded.push_back(encoded_of(*e));
    return model->model.predict_encoded(encoded, threshold);
  });
}

saccade_status saccade_segment(const saccade_model* model, const saccade_pixels* image, int32_t* labels) {
  return with_status([&] {
    need_pointer(model, "model");
    need_pointer(image, "image");
    need_pointer(labels, "labels");
    const std::vector<int32_t> found = model->model.segment(pixels_of(*image));
    std::copy(found.begin(), found.end(), labels);
  });
}

size_t saccade_result_count(const saccade_result* result, size_t image) {
  return result && image < result->images.size() ? result->images[image].size() : 0;
}

saccade_status saccade_result_get(const saccade_result* result, size_t image, size_t index,
                                  saccade_prediction* prediction) {
  return with_status([&] {
    need_pointer(result, "result");
    need_pointer(prediction, "prediction");
    if (index >= saccade_result_count(result, image))
      throw std::invalid_argument("prediction " + std::to_string(index) + " of image " +
                                  std::to_string(image) + ": there is none");
    *prediction = prediction_of(result->images[image][index]);
  });
}

saccade_status saccade_result_copy(const saccade_result* result, size_t image,
                                   saccade_prediction* predictions, size_t count) {
  return with_status([&] {
    need_pointer(result, "result");
    if (count > 0) need_pointer(predictions, "predictions");
    if (image >= result->images.size())
      throw std::invalid_argument("image " + std::to_string(image) + ": there is none");
    const std::vector<saccade::MaskedPrediction>& found = result->images[image];
    if (count != found.size())
      throw std::invalid_argument("count: " + std::to_string(count) + ", expected " +
                                  std::to_string(found.size()) + ", the predictions of image " +
                                  std::to_string(image));
    std::transform(found.begin(), found.end(), predictions, prediction_of);
  });
}

int32_t saccade_result_has_mask(const saccade_result* result, size_t image, size_t index) {
  return index < saccade_result_count(result, image) && !result->images[image][index].mask.counts.empty();
}

saccade_status saccade_result_mask(const saccade_result* result, size_t image, size_t index, uint8_t* pixels,
                                   size_t bytes) {
  return with_status([&] {
    need_pointer(result, "result");
    need_pointer(pixels, "pixels");
    if (!saccade_result_has_mask(result, image, index))
      throw std::invalid_argument("mask of prediction " + std::to_string(index) + " of image " +
                                  std::to_string(image) + ": there is none");
    const std::vector<uint8_t> mask = result->images[image][index].mask.pixels();
    if (mask.size() != bytes)
      throw std::invalid_argument("bytes: " + std::to_string(bytes) + ", expected " +
                                  std::to_string(mask.size()) + ", one per pixel of the image");
    std::copy(mask.begin(), mask.end(), pixels);
  });
}

void saccade_result_free(saccade_result* result) { delete result; }

saccade_status saccade_image_read(const char* path, saccade_image** image) {
  return make_new(image, "image", [&] {
    need_pointer(path, "path");
    return saccade::read_pixels(path);
  });
}

saccade_status saccade_image_decode(const saccade_encoded* encoded, saccade_image** image) {
  return make_new(image, "image", [&] {
    need_pointer(encoded, "encoded");
    return saccade::decode_pixels(encoded_of(*encoded));
  });
}

saccade_status saccade_image_pixels(const saccade_image* image, saccade_pixels* pixels) {
  return with_status([&] {
    need_pointer(image, "image");
    need_pointer(pixels, "pixels");
    const saccade::DecodedImage& decoded = image->decoded;
    *pixels = {decoded.rgb.data(), decoded.width, decoded.height, 0, SACCADE_RGB, 0};
  });
}

void saccade_image_free(saccade_image* image) { delete image; }
}
