// saccade train --processes N: runs the same command in N processes on this machine. Open MPI's mpirun starts
// those that compute on CPUs; those on GPUs are started here, and find each other through MASTER_ADDR and
// MASTER_PORT as under torchrun.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/distributed/rank_channel.h"
#include "core/files/text.h"
#include "core/runtime/interrupt.h"
#include "core/tensor/error.h"
#include "train/commands/commands.h"
#include "train/inference/device_choice.h"
#include "train/logs/print.h"

namespace saccade {
namespace {

constexpr const char* kProcesses = "SACCADE_PROCESSES";       // tells each process how many were asked for
constexpr const char* kAskedBy = "SACCADE_PROCESSES_SIGNAL";  // names the file with the stop signal
constexpr const char* kAskedDevice = "SACCADE_PROCESSES_DEVICE";  // what --device said

// The words of this command without --processes, and with the device that was found.
std::vector<std::string> own_words(Device device) {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  bool skip = false, is_chosen = false;
  for (std::string word; std::getline(file, word, '\0');) {
    is_chosen |= word.starts_with("--device");
    if (skip || word == "--processes")
      skip = !skip;
    else if (!word.starts_with("--processes="))
      words.push_back(word);
  }
  if (!words.empty()) words[0] = std::filesystem::read_symlink("/proc/self/exe").string();
  if (!is_chosen) words.insert(words.end(), {"--device", std::string(name_of(device))});
  return words;
}

// Records by which signal this process was asked to stop: its own processes get SIGUSR1, whichever it was.
// The record is a file in memory that exists as long as this process.
class SignalNote {
 public:
  SignalNote() : file_(::memfd_create("saccade_signal", MFD_CLOEXEC)) {}
  ~SignalNote() {
    if (file_ >= 0) ::close(file_);
  }
  SignalNote& operator=(SignalNote&&) = delete;
  std::string variable() const { return fmt::format("{}=/proc/{}/fd/{}", kAskedBy, ::getpid(), file_); }
  void write(int signal) const {
    const std::string text = std::to_string(signal);
    [[maybe_unused]] const ssize_t written = ::write(file_, text.data(), text.size());
  }

 private:
  int file_;
};

struct Launch {
  std::vector<std::string> words;
  std::vector<std::string> variables;  // in addition to those of this process
};

// Carries what a child reports before it ends or becomes another program.
struct Pipe {
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) fail("cannot create a pipe: {}", std::strerror(errno));
    out = ends[0];
    in = ends[1];
  }
  ~Pipe() {
    for (const int end : {in, out})
      if (end >= 0) ::close(end);
  }
  Pipe& operator=(Pipe&&) = delete;
  // Reads everything; called by the process that writes nothing.
  std::string read() const {
    ::close(std::exchange(in, -1));
    std::string text;
    char buffer[4096];
    for (ssize_t n; (n = ::read(out, buffer, sizeof(buffer))) != 0;) {
      if (n > 0)
        text.append(buffer, static_cast<size_t>(n));
      else if (errno != EINTR)
        break;
    }
    return text;
  }
  mutable int in = -1;
  int out = -1;
};

// Starts a process in a process group of its own: a Ctrl-C on the terminal reaches only this process, which
// passes it on. If this process is killed, the child is asked to stop, as by a user's SIGUSR1. `output`: the
// child's stdout and stderr; -1: those of this process.
pid_t start(const Launch& launch, std::array<int, 2> output = {-1, -1}) {
  std::vector<char*> words, variables;
  for (const std::string& word : launch.words) words.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& variable : launch.variables)
    variables.push_back(const_cast<char*>(variable.c_str()));
  for (char** v = environ; *v; ++v) {
    const std::string_view name(*v, std::strcspn(*v, "="));
    bool replaced = false;
    for (const std::string& variable : launch.variables)
      replaced |= variable.starts_with(fmt::format("{}=", name));
    if (!replaced) variables.push_back(*v);
  }
  words.push_back(nullptr);
  variables.push_back(nullptr);
  const Pipe problem;
  const pid_t parent = ::getpid(), pid = ::fork();
  if (pid == 0) {  // only functions that are safe between fork and exec
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGUSR1);
    if (::getppid() != parent) ::_exit(1);
    for (int i = 0; i < 2; ++i)
      if (output[static_cast<size_t>(i)] >= 0) ::dup2(output[static_cast<size_t>(i)], STDOUT_FILENO + i);
    ::execvpe(words[0], words.data(), variables.data());
    const int why = errno;
    [[maybe_unused]] const ssize_t written = ::write(problem.in, &why, sizeof(why));
    ::_exit(1);
  }
  if (pid < 0) fail("{} cannot be started: {}", words[0], std::strerror(errno));
  const std::string text = problem.read();
  if (text.empty()) return pid;
  ::waitpid(pid, nullptr, 0);
  int why = 0;
  std::memcpy(&why, text.data(), std::min(text.size(), sizeof(why)));
  if (why == ENOENT)
    fail_input(
        "--processes: needs {}, which is not installed: install Open MPI (apt-get install openmpi-bin)",
        words[0]);
  fail("{} cannot be started: {}", words[0], std::strerror(why));
}

// Passes mpirun's settings as variables: the mpirun of another MPI would not know the flags.
Launch over_mpi(const TrainArguments& arguments) {
  Launch launch;
  launch.words = {"mpirun", "-n", std::to_string(arguments.processes)};
  for (const std::string& word : own_words(Device::kCpu)) launch.words.push_back(word);
  launch.variables = {"OMPI_MCA_rmaps_base_oversubscribe=1", "OMPI_MCA_hwloc_base_binding_policy=none",
                      "OMPI_MCA_orte_execute_quiet=1", fmt::format("{}={}", kProcesses, arguments.processes),
                      fmt::format("{}={}", kAskedDevice, arguments.device)};
  if (::geteuid() == 0)  // mpirun asks for confirmation from root
    launch.variables.insert(launch.variables.end(),
                            {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"});
  if (::isatty(STDOUT_FILENO) != 1)  // mpirun gives its processes a terminal, whatever its own output is
    launch.variables.emplace_back("TERM=dumb");
  launch.variables.push_back("TORCHELASTIC_RUN_ID=");  // of a surrounding torchrun, whose ranks these are not
  return launch;
}

// Returns the exit status of a process that trains alone: mpirun returns that of the first rank that ends,
// which may have been killed.
int status_of(int raw) {
  const int status = WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw), signal = status - 128;
  const bool is_request = signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGUSR1;
  return status <= 2 || is_request ? status : 1;
}

// The processes on GPUs, each with a GPU of its own.
std::vector<Launch> over_nccl(const TrainArguments& arguments) {
  std::vector<Launch> launches;
  const RankListener free_port(0, true);
  for (int64_t r = 0; r < arguments.processes; ++r)
    launches.push_back(
        {own_words(Device::kCuda),
         {fmt::format("RANK={}", r), fmt::format("WORLD_SIZE={}", arguments.processes),
          fmt::format("LOCAL_RANK={}", r), fmt::format("LOCAL_WORLD_SIZE={}", arguments.processes),
          "MASTER_ADDR=127.0.0.1", fmt::format("MASTER_PORT={}", free_port.port()),
          fmt::format("TORCHELASTIC_RUN_ID={}", ::getpid()), "TORCHELASTIC_USE_AGENT_STORE=False",
          fmt::format("{}={}", kProcesses, arguments.processes),
          fmt::format("{}={}", kAskedDevice, arguments.device)}});
  return launches;
}

// Runs in a process of its own: looking for GPUs takes memory of the GPU as long as the process lives, and
// hides the other GPUs.
bool is_for_gpus(const std::string& device) {
  const Pipe answer;
  const pid_t child = ::fork();
  if (child < 0) fail("a process cannot be started: {}", std::strerror(errno));
  if (child == 0) {
    std::string text;
    try {
      text = choose_device(device).device == Device::kCuda ? "cuda" : "cpu";
    } catch (const std::exception& error) {
      text = error.what();
    }
    [[maybe_unused]] const ssize_t written = ::write(answer.in, text.data(), text.size());
    ::_exit(0);
  }
  const std::string text = answer.read();
  ::waitpid(child, nullptr, 0);
  if (text != "cuda" && text != "cpu") fail_input("{}", text.empty() ? "the GPU cannot be queried" : text);
  return text == "cuda";
}

std::atomic<int> second_signal{0};
void take_second_signal(int signal) { second_signal = signal; }

// Passes on what a launcher prints: the launcher would end at the first line that nobody reads, and the ranks
// with it.
class PassedOutput {
 public:
  std::array<int, 2> ends() const { return {pipes_[0].in, pipes_[1].in}; }
  void started() {
    for (Pipe& pipe : pipes_) ::close(std::exchange(pipe.in, -1));
  }
  // Waits at most this long; returns false if nothing arrived.
  bool pass_on(int milliseconds) {
    std::array<pollfd, 2> ready{{{pipes_[0].out, POLLIN, 0}, {pipes_[1].out, POLLIN, 0}}};
    if (::poll(ready.data(), ready.size(), milliseconds) <= 0) return false;
    bool any = false;
    for (size_t i = 0; i < ready.size(); ++i) {
      if (ready[i].revents == 0) continue;
      char buffer[1 << 16];
      const ssize_t bytes = ::read(pipes_[i].out, buffer, sizeof(buffer));
      if (bytes <= 0) {  // end of the output
        if (bytes == 0) ::close(std::exchange(pipes_[i].out, -1));
        continue;
      }
      any = true;
      const std::string_view text(buffer, static_cast<size_t>(bytes));
      if (i == 0) pass_to_stdout(text);
      said_error_ = said_error_ || i == 1;
      if (i == 1) std::fwrite(text.data(), 1, text.size(), stderr);
    }
    return any;
  }
  bool said_error() const { return said_error_; }

 private:
  std::array<Pipe, 2> pipes_;
  bool said_error_ = false;
};

// Watches the processes until all have ended.
class Watch {
 public:
  // passes_output: for the one launcher that starts the others.
  Watch(std::vector<Launch> launches, bool passes_output) {
    if (passes_output) output_.emplace();
    for (Launch& launch : launches) {
      launch.variables.push_back(note_.variable());
      running_.push_back(output_ ? start(launch, output_->ends()) : start(launch));
    }
    if (output_) output_->started();
  }
  int wait() {
    while (!running_.empty()) {
      int raw = 0;
      const pid_t ended = ::waitpid(-1, &raw, WNOHANG);
      if (ended > 0 && std::erase(running_, ended) > 0 && status_ == 0) {
        status_ = status_of(raw);
        killed_ = status_ == 1 && !(WIFEXITED(raw) && WEXITSTATUS(raw) == 1);
      }
      if (ended < 0 && errno == ECHILD) break;
      pass_on();
      // When a rank has failed, the others end by themselves, unless they wait for it to arrive.
      if ((status_ == 1 || status_ == 2) && !end_) end_ = Clock::now() + std::chrono::seconds(3);
      if (end_ && Clock::now() > *end_) send(SIGKILL);
      if (ended > 0) continue;
      if (output_)
        output_->pass_on(50);
      else
        ::poll(nullptr, 0, 50);
    }
    while (output_ && output_->pass_on(50)) {
    }
    if (killed_ && output_ && !output_->said_error())
      print_error("--processes: the processes were killed, as happens when the machine runs out of memory");
    if (second_signal != 0) return 128 + second_signal;
    return asked_ != 0 && status_ != 1 && status_ != 2 ? 128 + asked_ : status_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  // Rank 0 comes last: otherwise others would report that it is gone.
  void send(int signal) const {
    for (size_t r = running_.size(); r-- > 0;) ::kill(running_[r], signal);
  }
  // mpirun passes SIGUSR1 on; SIGINT and SIGTERM would end the ranks at once, as a second request does.
  void pass_on() {
    if (const int signal = interrupt_signal(); signal != 0 && asked_ == 0) {
      asked_ = signal;
      asked_at_ = Clock::now();
      for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1})
        if (::signal(number, take_second_signal) == SIG_IGN) ::signal(number, SIG_IGN);
      note_.write(signal);
      send(SIGUSR1);
    }
    if (second_signal == 0 || end_) return;
    if (Clock::now() - asked_at_ < std::chrono::milliseconds(200)) {  // the same signal once more
      second_signal = 0;
    } else {
      send(SIGTERM);
      end_ = Clock::now() + std::chrono::seconds(5);
    }
  }

  SignalNote note_;
  std::optional<PassedOutput> output_;
  std::vector<pid_t> running_;
  int status_ = 0, asked_ = 0;
  bool killed_ = false;  // the first process that failed was ended by a signal
  Clock::time_point asked_at_;
  std::optional<Clock::time_point> end_;  // when the processes that still run are killed
};

}  // namespace

int launch_processes(const TrainArguments& arguments) {
  const bool by_mpirun = !is_for_gpus(arguments.device);
  std::vector<Launch> launches = by_mpirun ? std::vector<Launch>{over_mpi(arguments)} : over_nccl(arguments);
  InterruptScope signals;
  return Watch(std::move(launches), by_mpirun).wait();
}

void check_launched(int ranks) {
  const char* wanted = std::getenv(kProcesses);
  if (wanted != nullptr && *wanted && wanted != std::to_string(ranks))
    fail_input(
        "--processes {}: mpirun started a group of {}, expected Open MPI's mpirun, not that of another MPI",
        shortened(wanted), ranks);
}

int asked_signal(int signal) {
  const char* note = std::getenv(kAskedBy);
  int asked = 0;
  return signal == SIGUSR1 && note != nullptr && std::ifstream(note) >> asked ? asked : signal;
}

std::string process_flags(const TrainArguments& arguments) {
  std::string flags, device = arguments.device;
  if (std::getenv(kProcesses) && std::getenv(kAskedDevice)) {
    flags = fmt::format(" --processes {}", shell_word(std::getenv(kProcesses)));
    device = std::getenv(kAskedDevice);
  }
  if (device != "auto") flags += " --device " + shell_word(device);
  return flags;
}

}  // namespace saccade
