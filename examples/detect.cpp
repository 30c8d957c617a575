// Finds objects in images: detect CHECKPOINT THRESHOLD IMAGE...
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <saccade/saccade.hpp>
#include <thread>
#include <vector>

int main(int argc, char** argv) {
  if (argc < 4) return std::fprintf(stderr, "usage: detect CHECKPOINT THRESHOLD IMAGE...\n"), 2;
  try {
    saccade::set_library_threads(1);  // two images at a time take a processor each
    const saccade::Model model(argv[1], "cpu");
    const int images = argc - 3;
    std::vector<std::vector<saccade::Prediction>> found(images);
    auto work = [&](int first) {
      for (int i = first; i < images; i += 2) try {
          found[i] = model.predict_file(argv[3 + i], std::atof(argv[2]));
        } catch (const std::exception& error) {
          std::fprintf(stderr, "%s\n", error.what());
        }
    };
    std::thread other(work, 1);
    work(0);
    other.join();
    for (int i = 0; i < images; ++i)
      for (const saccade::Prediction& p : found[i])
        std::printf("%s: %s %.3f [%.1f %.1f %.1f %.1f]\n", argv[3 + i], model.class_names()[p.label].c_str(),
                    p.score, p.x1, p.y1, p.x2, p.y2);
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "error: %s\n", error.what()), 1;
  }
}
