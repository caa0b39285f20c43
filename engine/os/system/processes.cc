#include "os/system/processes.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/text.h"

namespace moonfence::os {
namespace {

std::string reason(int number) {
  return std::strerror(number);
}

// A descriptor that closes itself.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int number) : number_(number) {}
  Fd(Fd&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Fd() {
    if (number_ >= 0) {
      close(number_);
    }
  }
  [[nodiscard]] int get() const { return number_; }
  [[nodiscard]] bool open() const { return number_ >= 0; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_ = -1;
};

struct Pipe {
  Fd read;   // does not block
  Fd write;  // blocks: it is the child's
};

std::optional<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return std::nullopt;
  }
  Pipe pipe{.read = Fd(ends[0]), .write = Fd(ends[1])};
  if (fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) {
    return std::nullopt;
  }
  return pipe;
}

std::vector<std::string> merged_environment(const port::Command& command) {
  std::vector<std::string> merged;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    const std::string_view name = text.substr(0, text.find('='));
    bool replaced = false;
    for (const auto& [key, value] : command.environment) {
      replaced = replaced || key == name;
    }
    if (!replaced) {
      merged.emplace_back(text);
    }
  }
  for (const auto& [key, value] : command.environment) {
    std::string& pair = merged.emplace_back(key);
    pair += '=';
    pair += value;
  }
  return merged;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (std::string& text : texts) {
    out.push_back(text.data());
  }
  out.push_back(nullptr);
  return out;
}

bool has_nul(const port::Command& command) {
  const auto holds = [](const std::string& text) { return text.find('\0') != text.npos; };
  bool found = holds(command.program);
  for (const std::string& argument : command.arguments) {
    found = found || holds(argument);
  }
  for (const auto& [name, value] : command.environment) {
    found = found || holds(name) || holds(value);
  }
  return found;
}

// posix_spawn's attributes and file actions, released together.
class SpawnPlan {
 public:
  SpawnPlan(int out, int err) {
    posix_spawnattr_init(&attributes_);
    posix_spawn_file_actions_init(&actions_);
    // A group of its own, and the signals that we block for our signalfd unblocked.
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawn_file_actions_adddup2(&actions_, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, err, STDERR_FILENO);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    // Libraries do not mark every descriptor close-on-exec, and some of them are authenticated.
    posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }

  // 0 or an errno.
  int run(pid_t& process, const port::Command& command) {
    std::vector<std::string> words = {command.program};
    words.insert(words.end(), command.arguments.begin(), command.arguments.end());
    std::vector<std::string> variables = merged_environment(command);
    return posix_spawnp(&process, command.program.c_str(), &actions_, &attributes_,
                        pointers(words).data(), pointers(variables).data());
  }

 private:
  posix_spawnattr_t attributes_{};
  posix_spawn_file_actions_t actions_{};
};

Error spawn_error(const std::string& program, int number) {
  Error::Kind kind = Error::Kind::Retryable;
  if (number == ENOENT || number == ENOTDIR) {
    kind = Error::Kind::NotFound;
  } else if (number == EACCES || number == ENOEXEC) {
    kind = Error::Kind::Forbidden;
  }
  return Error{.kind = kind, .text = escaped(program) + ": " + reason(number), .hint = {}};
}

// glibc 2.36 declares pidfd_open without C linkage.
int open_pidfd(pid_t process) {
  return static_cast<int>(syscall(SYS_pidfd_open, process, 0));
}

// The group first: while its leader is not reaped, no other group can have the number.
void kill_group(pid_t leader) {
  kill(-leader, SIGKILL);
}

std::optional<int> reap(int pidfd, int options) {
  siginfo_t info{};
  while (waitid(P_PIDFD, static_cast<id_t>(pidfd), &info, WEXITED | options) != 0) {
    if (errno != EINTR) {
      return 0;  // nobody is left to wait for
    }
  }
  if (info.si_pid == 0) {
    return std::nullopt;
  }
  return info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
}

}  // namespace

class ChildProcesses::Child final : public port::Process {
 public:
  Child(ChildProcesses& owner, port::Command command, Done done)
      : owner_(owner), command_(std::move(command)), done_(std::move(done)) {
    if (auto fault = spawn()) {
      fail_later(*std::move(fault));
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() override { end(); }

 private:
  struct Stream {
    Fd fd;
    std::string text;
  };

  std::optional<Error> spawn() {
    if (has_nul(command_)) {
      return Error{.kind = Error::Kind::Invalid,
                   .text = escaped(command_.program) + ": a NUL in its arguments or environment",
                   .hint = {}};
    }
    auto out = make_pipe();
    auto err = make_pipe();
    if (!out || !err) {
      return spawn_error(command_.program, errno);
    }
    SpawnPlan plan(out->write.get(), err->write.get());
    if (const int number = plan.run(process_, command_); number != 0) {
      process_ = 0;
      return spawn_error(command_.program, number);
    }
    // Nobody but us reaps it, so the number cannot have gone to another process yet.
    pidfd_ = Fd(open_pidfd(process_));
    if (!pidfd_.open()) {
      const int number = errno;
      kill_group(process_);
      waitpid(process_, nullptr, 0);
      process_ = 0;
      return spawn_error(command_.program, number);
    }
    out_.fd = std::move(out->read);
    err_.fd = std::move(err->read);
    watch(out_);
    watch(err_);
    owner_.descriptors_.watch(pidfd_.get(), [this] { exited(); });
    timer_ = owner_.loop_.after(command_.timeout, [this] {
      fail(Error::Kind::Retryable,
           "did not end within " + format_duration(command_.timeout) + " and was killed");
    });
    return std::nullopt;
  }

  void watch(Stream& stream) {
    owner_.descriptors_.watch(stream.fd.get(), [this, &stream] {
      if (!take(stream)) {
        fail_output();
      }
    });
  }

  void close_stream(Stream& stream) {
    if (stream.fd.open()) {
      owner_.descriptors_.forget(stream.fd.get());
      const Fd closing = std::move(stream.fd);
    }
  }

  // Reads what is there; false when that is more than the limit.
  bool take(Stream& stream) {
    std::array<char, 16384> buffer{};
    while (stream.fd.open()) {
      const ssize_t got = read(stream.fd.get(), buffer.data(), buffer.size());
      if (got > 0) {
        stream.text.append(buffer.data(), static_cast<std::size_t>(got));
        if (out_.text.size() + err_.text.size() > command_.output_limit) {
          return false;
        }
      } else if (got < 0 && errno == EINTR) {
        continue;
      } else if (got < 0 && errno == EAGAIN) {
        return true;
      } else {
        close_stream(stream);
      }
    }
    return true;
  }

  // The leader has ended. What it wrote is in the pipes; a grandchild that keeps them open is not
  // waited for.
  void exited() {
    if (!take(out_) || !take(err_)) {
      fail_output();
      return;
    }
    kill_group(process_);
    owner_.descriptors_.forget(pidfd_.get());
    const int code = reap(pidfd_.get(), 0).value_or(0);
    process_ = 0;
    port::ProcessOutput output{
        .exit_code = code, .out = std::move(out_.text), .err = std::move(err_.text)};
    finish(Result<port::ProcessOutput>(std::move(output)));
  }

  void fail_output() {
    fail(Error::Kind::Limit,
         "wrote more than " + std::to_string(command_.output_limit) + " bytes and was killed");
  }

  void fail(Error::Kind kind, const std::string& what) {
    finish(failure(kind, escaped(command_.program) + ": " + what));
  }

  void fail_later(Error error) {
    timer_ = owner_.loop_.after(Duration::zero(),
                                [this, error = std::move(error)] { finish(failure(error)); });
  }

  // May destroy this object.
  void finish(Result<port::ProcessOutput> result) {
    end();
    const Done done = std::exchange(done_, nullptr);
    if (done) {
      done(std::move(result));
    }
  }

  void end() {
    timer_.cancel();
    close_stream(out_);
    close_stream(err_);
    if (process_ != 0) {
      kill_group(process_);
      owner_.descriptors_.forget(pidfd_.get());
      owner_.bury(std::exchange(process_, 0), pidfd_.release());
    }
  }

  ChildProcesses& owner_;
  const port::Command command_;
  Done done_;
  pid_t process_ = 0;  // 0: none, or already reaped
  Fd pidfd_;
  Stream out_;
  Stream err_;
  loop::Timer timer_;
};

ChildProcesses::ChildProcesses(loop::Loop& loop, Descriptors& descriptors)
    : loop_(loop), descriptors_(descriptors) {}

ChildProcesses::~ChildProcesses() {
  for (const auto& [pidfd, process] : dying_) {
    descriptors_.forget(pidfd);
    reap(pidfd, 0);
    close(pidfd);
  }
}

std::unique_ptr<port::Process> ChildProcesses::start(port::Command command, Done done) {
  return std::make_unique<Child>(*this, std::move(command), std::move(done));
}

void ChildProcesses::bury(pid_t process, int pidfd) {
  if (reap(pidfd, WNOHANG)) {
    close(pidfd);
    return;
  }
  dying_.emplace(pidfd, process);
  descriptors_.watch(pidfd, [this, pidfd] {
    descriptors_.forget(pidfd);
    reap(pidfd, 0);
    dying_.erase(pidfd);
    close(pidfd);
  });
}

}  // namespace moonfence::os
