#include "os/system/processes.h"

#include <cerrno>
#include <chrono>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace moonfence::os {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// The smallest real poller: poll(2) over whatever is watched.
class PollPoller final : public loop::Poller, public Descriptors {
 public:
  [[nodiscard]] Moment now() override {
    return Moment{std::chrono::steady_clock::now().time_since_epoch()};
  }
  void wait(std::optional<Duration> limit) override {
    ready_.clear();
    std::vector<pollfd> fds;
    for (const auto& [fd, readable] : watched_) {
      fds.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    }
    const auto timeout = limit ? std::chrono::ceil<std::chrono::milliseconds>(*limit) : 1000ms;
    poll(fds.data(), fds.size(), static_cast<int>(timeout.count()));
    for (const pollfd& fd : fds) {
      if (fd.revents != 0) {
        ready_.push_back(fd.fd);
      }
    }
  }
  void perform() override {
    for (const int fd : ready_) {
      const auto found = watched_.find(fd);
      if (found != watched_.end()) {
        const auto readable = found->second;
        readable();
      }
    }
  }
  void watch(int fd, std::function<void()> readable, Wait wait) override {
    EXPECT_EQ(wait, Wait::Input);
    EXPECT_TRUE(watched_.emplace(fd, std::move(readable)).second) << "watched twice";
  }
  void forget(int fd) override {
    EXPECT_EQ(watched_.erase(fd), 1U) << "not watched";
    EXPECT_GE(fcntl(fd, F_GETFD), 0) << "closed before it was forgotten";
    std::erase(ready_, fd);
  }
  [[nodiscard]] std::size_t watched() const { return watched_.size(); }

 private:
  std::map<int, std::function<void()>> watched_;
  std::vector<int> ready_;
};

std::size_t open_descriptors() {
  std::size_t count = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) {
    ++count;
  }
  closedir(folder);
  return count;
}

bool has_children() {
  return waitid(P_ALL, 0, nullptr, WEXITED | WNOHANG | WNOWAIT) == 0;
}

// Its new parent reaps a stray; until then it is a zombie, which has no command line any more.
bool runs(const std::string& process) {
  std::string line;
  std::getline(std::ifstream("/proc/" + process + "/cmdline"), line);
  return !line.empty();
}

struct ProcessesTest : testing::Test {
  PollPoller poller;
  loop::Loop loop{poller};
  std::optional<ChildProcesses> processes{std::in_place, loop, poller};
  std::optional<Result<port::ProcessOutput>> ended;
  std::unique_ptr<port::Process> process;
  std::size_t descriptors_before = open_descriptors();

  // Whatever a test does, nothing of it is left.
  void TearDown() override {
    process.reset();
    turn_until([this] { return processes->dying() == 0; });
    EXPECT_EQ(processes->dying(), 0U);
    EXPECT_EQ(poller.watched(), 0U);
    EXPECT_EQ(open_descriptors(), descriptors_before);
    EXPECT_FALSE(has_children()) << "a child or zombie is left";
  }

  static port::Command shell(const std::string& script) {
    return {.program = "sh", .arguments = {"-c", script}, .environment = {}};
  }
  void start(port::Command command) {
    process = processes->start(std::move(command), [this](Result<port::ProcessOutput> result) {
      EXPECT_FALSE(ended) << "told twice";
      ended = std::move(result);
    });
  }
  void turn_until(const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (!done() && std::chrono::steady_clock::now() < end) {
      const loop::Timer step = loop.after(10ms, [] {});
      loop.turn();
    }
  }
  Result<port::ProcessOutput> run(port::Command command) {
    ended.reset();
    start(std::move(command));
    EXPECT_FALSE(ended) << "told inside start()";
    turn_until([this] { return ended.has_value(); });
    return ended ? *ended : failure(Error::Kind::Unknown, "the test gave up waiting");
  }
};

TEST_F(ProcessesTest, output_errors_and_exit_code_come_back) {
  const auto result = run(shell("echo out; echo err >&2; exit 7"));
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_EQ(result->exit_code, 7);
  EXPECT_EQ(result->out, "out\n");
  EXPECT_EQ(result->err, "err\n");
}

TEST_F(ProcessesTest, a_signal_becomes_128_and_its_number) {
  EXPECT_EQ(run(shell("kill -TERM $$"))->exit_code, 128 + SIGTERM);
}

TEST_F(ProcessesTest, the_environment_is_inherited_added_to_and_replaced) {
  setenv("MOONFENCE_TEST_KEPT", "kept", 1);
  setenv("MOONFENCE_TEST_REPLACED", "old", 1);
  port::Command command =
      shell("echo $MOONFENCE_TEST_KEPT $MOONFENCE_TEST_REPLACED $MOONFENCE_TEST_ADDED");
  command.environment = {{"MOONFENCE_TEST_REPLACED", "new"}, {"MOONFENCE_TEST_ADDED", "added"}};
  EXPECT_EQ(run(command)->out, "kept new added\n");
}

TEST_F(ProcessesTest, input_is_empty_and_no_descriptor_of_ours_is_passed_on) {
  const int open_one = open("/dev/zero", O_RDONLY);  // without O_CLOEXEC, as a library might
  ASSERT_GE(open_one, 3);
  const auto result = run(shell("wc -c; ls /proc/$$/fd"));
  close(open_one);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->out, "0\n0\n1\n2\n");
}

TEST_F(ProcessesTest, blocked_signals_are_not_passed_on) {
  sigset_t set;
  sigset_t before;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set, &before);
  const auto result = run(shell("kill -TERM $$; echo survived"));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(result->exit_code, 128 + SIGTERM);
}

TEST_F(ProcessesTest, what_cannot_be_started_is_told_in_a_later_turn) {
  const auto missing =
      run({.program = "moonfence-no-such-\x1b[31m", .arguments = {}, .environment = {}});
  EXPECT_EQ(missing.error().kind, Error::Kind::NotFound);
  EXPECT_THAT(missing.error().text, HasSubstr("\\x1b[31m: No such file"));
  EXPECT_EQ(run({.program = "/etc/passwd", .arguments = {}, .environment = {}}).error().kind,
            Error::Kind::Forbidden);
  EXPECT_EQ(
      run({.program = "sh", .arguments = {std::string("a\0b", 3)}, .environment = {}}).error().kind,
      Error::Kind::Invalid);
}

TEST_F(ProcessesTest, a_hanging_process_dies_with_its_whole_group) {
  const std::string file = testing::TempDir() + "moonfence_grandchild";
  port::Command command = shell("sleep 1000 & echo $! >" + file + "; sleep 1000");
  command.timeout = 3s;  // in which the shell writes its file
  const auto result = run(command);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, Error::Kind::Retryable);
  EXPECT_THAT(result.error().text, HasSubstr("did not end within 3s"));
  std::string grandchild;
  std::getline(std::ifstream(file), grandchild);
  ASSERT_FALSE(grandchild.empty());
  turn_until([&] { return !runs(grandchild); });
  EXPECT_FALSE(runs(grandchild));
  unlink(file.c_str());
}

TEST_F(ProcessesTest, a_stray_grandchild_neither_delays_the_end_nor_survives_it) {
  const auto begin = std::chrono::steady_clock::now();
  const auto result = run(shell("sleep 1000 & echo $!"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  ASSERT_TRUE(result);
  const std::string stray = result->out.substr(0, result->out.find('\n'));
  turn_until([&] { return !runs(stray); });
  EXPECT_FALSE(runs(stray));
}

TEST_F(ProcessesTest, a_process_that_ignores_its_input_and_writes_much_is_read_to_its_end) {
  const auto result = run(shell("head -c 500000 /dev/zero; head -c 500000 /dev/zero >&2"));
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_EQ(result->out.size(), 500000U);
  EXPECT_EQ(result->err.size(), 500000U);
}

TEST_F(ProcessesTest, endless_output_is_cut_off) {
  port::Command command = shell("yes");
  command.output_limit = 100000;
  const auto result = run(command);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, Error::Kind::Limit);
}

TEST_F(ProcessesTest, a_destroyed_handle_kills_and_is_silent) {
  start(shell("sleep 1000"));
  const loop::Timer soon = loop.after(20ms, [] {});
  loop.turn();
  process.reset();
  turn_until([this] { return processes->dying() == 0; });
  EXPECT_FALSE(ended);
}

TEST_F(ProcessesTest, the_handle_may_be_destroyed_inside_its_own_end) {
  bool told = false;
  for (const char* script : {"true", "yes", "exec moonfence-none 2>&-"}) {
    told = false;
    port::Command command = shell(script);
    command.output_limit = 1000;
    process = processes->start(command, [&](const Result<port::ProcessOutput>&) {
      told = true;
      process.reset();
    });
    turn_until([&] { return told; });
    EXPECT_TRUE(told) << script;
  }
}

TEST_F(ProcessesTest, many_at_once_leave_nothing_behind) {
  std::vector<std::unique_ptr<port::Process>> handles;
  std::size_t good = 0;
  for (int i = 0; i < 40; ++i) {
    handles.push_back(processes->start(
        shell(i % 4 == 3 ? "sleep 1000" : "echo x"),
        [&](const Result<port::ProcessOutput>& result) { good += result ? 1U : 0U; }));
  }
  turn_until([&] { return good == 30; });
  EXPECT_EQ(good, 30U);
}

TEST_F(ProcessesTest, the_owner_waits_for_those_it_killed) {
  start(shell("sleep 1000"));
  process.reset();
  processes.reset();
  EXPECT_FALSE(has_children());
  processes.emplace(loop, poller);
}

}  // namespace
}  // namespace moonfence::os
