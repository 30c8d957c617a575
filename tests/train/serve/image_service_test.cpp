// Tests saccade serve: its answers are those of predict, alone and in batches, for every kind of task; and
// the program that answers.
#include "train/serve/image_service.h"

#include <fcntl.h>
#include <spawn.h>

#include <csignal>
#include <future>
#include <sstream>
#include <thread>

#include "core/runtime/cpu/thread_team.h"
#include "tests/input_error.h"
#include "tests/train/program.h"
#include "tests/train/serve/raw_client.h"
#include "train/config/options.h"
#include "train/config/task.h"
#include "train/inference/evaluation.h"

extern char** environ;

namespace saccade {
namespace {

using std::chrono::milliseconds;

const std::vector<std::string> kServedImages{"000001.png", "000002.png", "000003.png", "000004.png"};

std::string image_bytes(const std::string& name) {
  return read_bytes((scratch() / "shapes/images" / name).string());
}

// Returns the lines about an image in a list that predict has written, without its name.
std::vector<std::string> listed(const std::string& list, const std::string& image) {
  std::vector<std::string> lines;
  std::istringstream text(read_bytes((scratch() / list).string()));
  const std::string begin = "{\"file_name\": \"" + image + "\", ";
  for (std::string line; std::getline(text, line);)
    if (line.starts_with(begin))
      lines.push_back("{" + line.substr(begin.size(), line.rfind('}') + 1 - begin.size()));
  return lines;
}
// Returns the lines of an answer.
std::vector<std::string> answered(const std::string& body) {
  std::vector<std::string> lines;
  std::istringstream text(body);
  for (std::string line; std::getline(text, line);)
    if (line.starts_with("{\"category_id\"")) lines.push_back(line.substr(0, line.rfind("}") + 1));
  if (!lines.empty()) lines.back() = lines.back().substr(0, lines.back().rfind("]}"));
  return lines;
}

// A model in this process, whose batches are computed when the test says so.
struct Served {
  explicit Served(const std::string& checkpoint, ServiceOptions options = {.threshold = 0},
                  const std::vector<std::string>& set = {})
      : model(load_trained_model((scratch() / checkpoint).string(), Device::kCpu, "", set)),
        answerer(task_of(model.config).answerer(model)),
        mode(*model.module, precision_of(model.config)),
        service(model, *answerer, options) {
    start_threads();
  }

  std::future<ServiceAnswer> send(const std::string& target, const std::string& bytes,
                                  const std::string& type = "image/png") {
    auto promise = std::make_shared<std::promise<ServiceAnswer>>();
    ServiceRequest request{.method = "POST", .target = target, .content_type = type};
    if (std::optional<ServiceAnswer> refusal = service.refuse(request)) {
      promise->set_value(*refusal);
    } else {
      request.body = bytes;
      service.handle(std::move(request),
                     [promise](const ServiceAnswer& answer) { promise->set_value(answer); });
    }
    return promise->get_future();
  }
  ServiceAnswer get(const std::string& target) {
    ServiceAnswer found;
    ServiceRequest request{.method = "GET", .target = target};
    if (const std::optional<ServiceAnswer> refusal = service.refuse(request)) return *refusal;
    service.handle(std::move(request), [&](const ServiceAnswer& answer) { found = answer; });
    return found;
  }
  void wait_for_waiting(size_t images) {
    const std::string line = fmt::format("\nsaccade_queue_waiting {}\n", images);
    for (int i = 0; i < 2000 && get("/metrics").body.find(line) == std::string::npos; ++i)
      std::this_thread::sleep_for(milliseconds(5));
  }
  ServiceAnswer ask(const std::string& target, const std::string& bytes,
                    const std::string& type = "image/png") {
    std::future<ServiceAnswer> answer = send(target, bytes, type);
    while (answer.wait_for(milliseconds(0)) != std::future_status::ready) service.compute(milliseconds(5));
    return answer.get();
  }
  std::string batches() {  // "images in batches"
    return fmt::format("{} in {}", service.metrics().images(), [&] {
      const std::string text = get("/metrics").body, name = "\nsaccade_batch_size_count ";
      return std::atoi(text.c_str() + text.find(name) + name.size());
    }());
  }

  LoadedModel model;
  std::unique_ptr<Answerer> answerer;
  EvaluationMode mode;
  ImageService service;
};

class Serve : public Cli {};

TEST_F(Serve, AnswersInBatchesWhatPredictFindsAlone) {
  expect_works("predict --checkpoint " + kCheckpoint + " --output served --threshold 0 shapes/images");
  Served served(kCheckpoint);
  std::vector<std::future<ServiceAnswer>> answers;
  for (int round = 0; round < 2; ++round)
    for (const std::string& image : kServedImages)
      answers.push_back(served.send("/predict", image_bytes(image)));
  served.wait_for_waiting(8);
  EXPECT_EQ(answers.front().wait_for(milliseconds(0)), std::future_status::timeout);
  served.service.compute(milliseconds(0));
  EXPECT_EQ(served.batches(), "8 in 1");
  for (size_t i = 0; i < answers.size(); ++i) {
    const ServiceAnswer answer = answers[i].get();
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_TRUE(answer.body.starts_with("{\"image\": {\"width\": 64, \"height\": 64}, \"detections\": [\n{"))
        << answer.body;
    std::vector<std::string> wanted = listed("served/detections.json", kServedImages[i % 4]);
    EXPECT_GT(wanted.size(), 1u);
    for (std::string& line : wanted) line = line.substr(0, line.find(", \"picture\"")) + "}";
    EXPECT_EQ(answered(answer.body), wanted);
  }
  // The picture is the one that predict draws.
  const ServiceAnswer picture = served.ask("/predict?format=png&threshold=0", image_bytes("000001.png"));
  EXPECT_EQ(picture.type, "image/png");
  EXPECT_TRUE(picture.body == read_bytes((scratch() / "served/000001.png").string()));
  EXPECT_EQ(served.ask("/predict?format=jpg", image_bytes("000001.png")).body.substr(0, 2), "\xFF\xD8");
}

TEST_F(Serve, PadsNothing) {
  const std::string sides =
      "--set data.val_height=0 --set data.val_width=0 --set data.val_short_side=64 --set data.val_long_side=128 ";
  run_script("mkdir -p wide; for i in 1 2 3 4; do cp shapes/images/00000$i.png wide/; done");
  Image wide(64, 96);
  write_png(wide, (scratch() / "wide/wide.png").string());
  expect_works("predict --checkpoint " + kCheckpoint + " --output wide_out --threshold 0 --no-pictures " +
               sides + "wide");
  Served served(
      kCheckpoint, {.threshold = 0, .max_batch = 3},
      {"data.val_height=0", "data.val_width=0", "data.val_short_side=64", "data.val_long_side=128"});
  std::vector<std::future<ServiceAnswer>> answers;
  const std::vector<std::string> names{"000001.png", "wide.png", "000002.png", "000003.png", "000004.png"};
  for (size_t i = 0; i < names.size(); ++i) {
    answers.push_back(served.send("/predict", read_bytes((scratch() / "wide" / names[i]).string())));
    served.wait_for_waiting(i + 1);  // in this order
  }
  for (int batches = 0; batches < 3; ++batches) served.service.compute(milliseconds(0));
  EXPECT_EQ(served.batches(), "5 in 3");  // 1, 2, 3 together; the wide one; 4
  for (size_t i = 0; i < names.size(); ++i)
    EXPECT_EQ(answered(answers[i].get().body), listed("wide_out/detections.json", names[i])) << names[i];
}

TEST_F(Serve, SaysWhatIsWrong) {
  Served served(kCheckpoint, {.checkpoint = kCheckpoint, .queue = 2, .max_pixels = 5000});
  const std::string image = image_bytes("000001.png");
  std::string noise(100000, '\0');
  for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<char>(i * i * 2654435761u >> 13);
  Image large(60, 100);
  write_png(large, (scratch() / "large.png").string());
  struct Row {
    std::string target, bytes, type, answer;
  };
  for (const Row& row : {
           Row{"/predict", noise, "image/jpeg", "400 the image: not an image in a supported format"},
           Row{"/predict", image.substr(0, image.size() / 2), "image/png", "400 the image: "},
           Row{"/predict", "", "image/png", "400 the body is empty"},
           Row{"/predict", read_bytes((scratch() / "large.png").string()), "image/png",
               "413 the image: 100 x 60 pixels, expected at most 5000 in all"},
           Row{"/predict", image, "text/plain", "415 Content-Type: text/plain"},
           Row{"/predict", image, "multipart/form-data; boundary=x",
               "400 multipart/form-data: the boundary does not appear"},
           Row{"/predict?classes=nothing", image, "image/png",
               "400 classes: the model has no class \\\"nothing\\\", expected one of "},
           Row{"/predict?threshold=-1", image, "image/png", "400 threshold: "},
           Row{"/predict?format=label_map", image, "image/png",
               "400 format: \\\"label_map\\\", expected json, png, jpg"},
           Row{"/elsewhere", image, "image/png",
               "404 /elsewhere: not found, expected one of /, /health, /metrics, /predict"},
           Row{"/health", image, "image/png", "405 POST /health: expected GET, HEAD"},
       }) {
    const ServiceAnswer answer = served.ask(row.target, row.bytes, row.type);
    EXPECT_TRUE(answer.body.starts_with("{\"error\": \"" + row.answer.substr(4)) &&
                row.answer.starts_with(std::to_string(answer.status)))
        << row.answer << "\n"
        << answer.status << " " << answer.body;
  }
  EXPECT_EQ(served.get("/predict").status, 405);
  EXPECT_EQ(served.get("/predict").headers.front(), (std::pair<std::string, std::string>{"Allow", "POST"}));
  // The queue is full with two, and free again when they are answered.
  auto first = served.send("/predict", image), second = served.send("/predict", image);
  const ServiceAnswer third = served.ask("/predict", image);
  EXPECT_EQ(third.status, 503);
  EXPECT_EQ(third.headers.front(), (std::pair<std::string, std::string>{"Retry-After", "1"}));
  served.wait_for_waiting(2);
  served.service.compute(milliseconds(0));
  EXPECT_EQ(first.get().status, 200);
  EXPECT_EQ(second.get().status, 200);
  EXPECT_EQ(served.ask("/predict", image).status, 200);
  // Nothing is computed for a client that is gone.
  ServiceRequest request{.method = "POST", .target = "/predict", .body = image};
  *request.is_gone = true;
  int status = 0;
  served.service.handle(std::move(request), [&](const ServiceAnswer& answer) { status = answer.status; });
  served.wait_for_waiting(1);
  served.service.compute(milliseconds(0));
  EXPECT_EQ(status, 499);
  EXPECT_EQ(served.batches(), "3 in 2");
  const ServiceAnswer health = served.get("/health");
  EXPECT_TRUE(
      health.status == 200 &&
      health.body.starts_with(
          "{\"status\": \"ok\", \"model\": \"last.safetensors\", \"type\": \"deformable_detr\", \"task\": \"detection\", \"classes\": [\"circle\", "))
      << health.body;
  EXPECT_NE(served.get("/").body.find("<form method=\"post\" enctype=\"multipart/form-data\">"),
            std::string::npos);
}

TEST_F(Serve, SaysWhatIsDamaged) {
  Served served(kCheckpoint);
  const std::string whole = [] {
    Image image(48, 64);
    for (size_t i = 0; i < image.rgb.size(); ++i) image.rgb[i] = static_cast<uint8_t>(i * i % 251);
    const std::vector<uint8_t> jpeg = encode_jpeg(image, 90);
    return std::string(jpeg.begin(), jpeg.end());
  }();
  const std::string half = whole.substr(0, whole.size() / 2) + "\xFF\xD9",
                    damage = "damaged JPEG data (some of it is missing), some pixels may be wrong";
  testing::internal::CaptureStderr();
  const ServiceAnswer good = served.ask("/predict", whole, "image/jpeg"),
                      bad = served.ask("/predict?threshold=0.9", half, "image/jpeg"),
                      picture = served.ask("/predict?format=png", half, "image/jpeg");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "warning: POST /predict?threshold=0.9: " + damage +
                                                        "\nwarning: POST /predict?format=png: " + damage +
                                                        "\n");
  const std::string size = "{\"image\": {\"width\": 64, \"height\": 48";
  EXPECT_TRUE(good.body.starts_with(size + "}, \"detections\": [")) << good.body;
  EXPECT_TRUE(bad.body.starts_with(size + ", \"damage\": \"" + damage + "\"}, \"detections\": ["))
      << bad.body;
  EXPECT_EQ(picture.type, "image/png");
}

TEST_F(Serve, FormsAndClasses) {
  Served served(kCheckpoint, {.threshold = 0});
  const std::string image = image_bytes("000002.png"), head = "Content-Disposition: form-data; name=";
  const std::string all = served.ask("/predict", image).body;
  EXPECT_EQ(served
                .ask("/predict", "--b\r\n" + head + "file; filename=a.png\r\n\r\n" + image + "\r\n--b--\r\n",
                     "multipart/form-data; boundary=b")
                .body,
            all);
  EXPECT_EQ(served
                .ask("/predict",
                     "--b\r\n" + head + "file; filename=a.png\r\n\r\n" + image + "\r\n--b\r\n" + head +
                         "threshold\r\n\r\n1\r\n--b--\r\n",
                     "multipart/form-data; boundary=b")
                .body,
            "{\"image\": {\"width\": 64, \"height\": 64}, \"detections\": []}\n");
  size_t sum = 0;
  for (const std::string& name : served.model.class_names)
    sum += answered(served.ask("/predict?classes=" + name, image).body).size();
  EXPECT_EQ(sum, answered(all).size());
}

TEST_F(Serve, ClassifiersAndLabelMaps) {
  run_script(
      "mkdir -p folders/train/a folders/train/b; cp shapes/images/000001.png folders/train/a; cp shapes/images/000002.png folders/train/b");
  write_bytes(
      (scratch() / "classifier.textproto").string(),
      "model { type: \"classifier\" backbone { blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 outputs: [4] } }\n"
      "data { train { images: \"folders/train\" } val { images: \"folders/train\" } batch_size: 2 workers: 1\n"
      "augment { height: 32 width: 32 } val_height: 32 val_width: 32 } train { max_steps: 1 }\n");
  expect_works("train --config classifier.textproto --output classifier");
  const std::string classifier = "classifier/checkpoints/last.safetensors";
  expect_works("predict --checkpoint " + classifier + " --output classified folders/train/a/000001.png");
  {
    Served served(classifier, {});
    EXPECT_EQ(served.ask("/predict", image_bytes("000001.png")).body,
              "{\"image\": {\"width\": 64, \"height\": 64}, " +
                  listed("classified/predictions.json", "000001.png").at(0).substr(1) + "\n");
    EXPECT_EQ(served.ask("/predict?threshold=0.1", image_bytes("000001.png")).status, 400);
    EXPECT_EQ(served.ask("/predict?format=png", image_bytes("000001.png")).body,
              "{\"error\": \"format: \\\"png\\\", expected json\"}\n");
    EXPECT_NE(input_error([&] { Served(classifier, {.threshold = 0.1}); }).find("is a classifier"),
              std::string::npos);
  }
  write_bytes(
      (scratch() / "segmenter.textproto").string(),
      "model { type: \"semantic_fpn\" backbone { blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 outputs: [1, 2, 3, 4] }\n"
      "semantic_fpn { channels: 16 head_channels: 16 } }\n"
      "data { train { format: \"label_maps\" annotations: \"shapes/label_maps\" images: \"shapes/images\" }\n"
      "val { format: \"label_maps\" annotations: \"shapes/label_maps\" images: \"shapes/images\" } batch_size: 2 workers: 1\n"
      "augment { height: 32 width: 32 } val_short_side: 64 val_long_side: 96 } train { max_steps: 1 }\n");
  expect_works("train --config segmenter.textproto --output segmenter");
  const std::string segmenter = "segmenter/checkpoints/last.safetensors";
  expect_works("predict --checkpoint " + segmenter +
               " --output mapped --set eval.flip=true shapes/images/000001.png");
  Served served(segmenter, {}, {"eval.flip=true"});
  const std::string line = listed("mapped/predictions.json", "000001.png").at(0);
  const size_t classes = line.find("\"classes\""), picture = line.find(", \"picture\"");
  EXPECT_EQ(
      served.ask("/predict", image_bytes("000001.png")).body,
      "{\"image\": {\"width\": 64, \"height\": 64}, " + line.substr(classes, picture - classes) + "}\n");
  EXPECT_TRUE(served.ask("/predict?format=label_map", image_bytes("000001.png")).body ==
              read_bytes((scratch() / "mapped/label_maps/000001.png").string()));
  EXPECT_TRUE(served.ask("/predict?format=png", image_bytes("000001.png")).body ==
              read_bytes((scratch() / "mapped/000001.png").string()));
}

// Runs the program until it is stopped.
class ServeProgram {
 public:
  explicit ServeProgram(const std::vector<std::string>& more) {
    const std::string program = std::string(SACCADE_BINARY_DIR) + "/saccade",
                      checkpoint = (scratch() / kCheckpoint).string();
    std::vector<std::string> words{program, "serve", checkpoint, "--device", "cpu", "--threads", "1"};
    words.insert(words.end(), more.begin(), more.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    EXPECT_EQ(::posix_spawn(&process_, program.c_str(), &actions, nullptr, arguments.data(), environ), 0);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    output_ = ends[0];
  }
  ~ServeProgram() {
    if (process_ > 0) end(SIGKILL);
    ::close(output_);
  }
  ServeProgram(const ServeProgram&) = delete;
  ServeProgram& operator=(const ServeProgram&) = delete;

  // Returns what it prints, up to a line with this or to its end.
  std::string read_until(const std::string& part) {
    char bytes[4096];
    while (text_.find(part) == std::string::npos || !text_.ends_with('\n')) {
      const ssize_t got = ::read(output_, bytes, sizeof(bytes));
      if (got <= 0) break;
      text_.append(bytes, static_cast<size_t>(got));
    }
    return text_;
  }
  uint16_t port() {
    const std::string text = read_until("http://"), begin = "http://127.0.0.1:";
    const size_t at = text.find(begin);
    EXPECT_NE(at, std::string::npos) << text;
    return at == std::string::npos ? uint16_t{1}
                                   : static_cast<uint16_t>(std::atoi(text.c_str() + at + begin.size()));
  }
  void signal(int number) const { ::kill(process_, number); }
  int wait() {
    int raw = 0;
    ::waitpid(process_, &raw, 0);
    process_ = 0;
    return WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
  }
  int end(int number) {
    signal(number);
    return wait();
  }

 private:
  pid_t process_ = 0;
  int output_ = -1;
  std::string text_;
};

bool has_serve() {
  return run("serve " + kCheckpoint + " --host 192.0.2.1").err.find("built without") == std::string::npos;
}

TEST_F(Serve, LosesNothingOfManyClients) {
  if (!has_serve()) GTEST_SKIP() << "built without libboost-dev";
  ServeProgram program({"--port", "0", "--threshold", "0", "--timeout", "20"});
  const uint16_t port = program.port();
  std::vector<std::string> wanted;
  for (const std::string& image : kServedImages)
    wanted.push_back(RawClient(port).ask(http_post("/predict", "image/png", image_bytes(image))).body);
  constexpr int kClients = 8, kRequests = 8;
  std::vector<std::thread> clients;
  std::atomic<int> right{0};
  for (int c = 0; c < kClients; ++c)
    clients.emplace_back([&, c] {
      RawClient client(port);
      for (int i = 0; i < kRequests; ++i) {
        const size_t image = static_cast<size_t>(c + i) % kServedImages.size();
        const HttpReply reply =
            client.ask(http_post("/predict", "application/octet-stream", image_bytes(kServedImages[image])));
        right += reply.status == 200 && reply.body == wanted[image];
      }
    });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(right, kClients * kRequests);
  // Sends ten megabytes of garbage, as an image and as a request.
  const std::string garbage(10 << 20, '\x80');
  EXPECT_EQ(RawClient(port).ask(http_post("/predict", "image/jpeg", garbage)).status, 400);
  EXPECT_EQ(RawClient(port).ask(garbage).status, 400);
  EXPECT_EQ(RawClient(port).ask(http_post("/predict", "image/jpeg", std::string(21 << 20, 'x'))).status, 413);
  EXPECT_EQ(RawClient(port).ask(http_post("/predict", "text/plain", garbage)).status, 415);
  const std::string metrics = RawClient(port).ask(http_get("/metrics")).body;
  EXPECT_NE(metrics.find("\nsaccade_images_total 68\n"), std::string::npos) << metrics;
  EXPECT_NE(metrics.find("saccade_requests_total{status=\"200\"} 68\n"), std::string::npos) << metrics;
  // A second one finds the port taken.
  const Result second = run("serve " + kCheckpoint + " --port " + std::to_string(port));
  EXPECT_EQ(second.status, 2);
  EXPECT_EQ(second.err,
            fmt::format("error: --port {0}: cannot listen on 127.0.0.1:{0}: Address already in use\n", port));
  // If it is stopped while it is busy, it answers earlier requests.
  std::vector<std::unique_ptr<RawClient>> busy;
  for (int c = 0; c < kClients; ++c) {
    busy.push_back(std::make_unique<RawClient>(port));
    busy.back()->send(http_post("/predict", "image/png", image_bytes(kServedImages[0])));
  }
  for (int i = 0; i < 1000; ++i)  // until all are there
    if (const std::string text = RawClient(port).ask(http_get("/metrics")).body;
        text.find("\nsaccade_images_total 76\n") != std::string::npos ||
        text.find("_taken 8\n") != std::string::npos)
      break;
  program.signal(SIGTERM);
  for (const auto& client : busy) {
    const HttpReply reply = client->receive();
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.body, wanted[0]);
  }
  EXPECT_EQ(program.wait(), 0);
  const std::string text = program.read_until("stopped by SIGTERM: ");
  EXPECT_NE(text.find(" requests, 76 images\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("error"), std::string::npos) << text;
}

TEST_F(Serve, EndsAtTheSecondSignal) {
  if (!has_serve()) GTEST_SKIP() << "built without libboost-dev";
  ServeProgram program({"--port", "0", "--host", "0.0.0.0"});
  const std::string text = program.read_until("http://0.0.0.0:");
  EXPECT_NE(
      text.find(
          "note: --host 0.0.0.0: anyone who can reach this address can use the service; it has no passwords\n"),
      std::string::npos)
      << text;
  RawClient refused(static_cast<uint16_t>(std::atoi(text.c_str() + text.find("http://0.0.0.0:") + 15)));
  refused.send("POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 10\r\n\r\n");
  EXPECT_EQ(refused.receive().status, 415);  // and is given two seconds to read it
  program.signal(SIGINT);
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_EQ(program.end(SIGTERM), 143);
}

}  // namespace
}  // namespace saccade
