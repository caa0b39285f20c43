#pragma once

// Child processes that never run: every start is recorded, and answered in the next turn with what
// was prepared, or left hanging.

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "port/processes.h"
#include "support/fake_poller.h"

namespace moonfence::test {

class FakeProcesses final : public port::Processes {
 public:
  explicit FakeProcesses(FakePoller& poller) : poller_(poller) {}

  [[nodiscard]] std::unique_ptr<port::Process> start(port::Command command, Done done) override {
    commands.push_back(std::move(command));
    auto handle = std::make_unique<Handle>(std::move(done));
    hanging_ = handle->done;
    if (!answers.empty()) {
      poller_.deliver([this, done = std::weak_ptr<Done>(handle->done), answer = answers.front()] {
        hanging_.reset();
        finish(done, answer);
      });
      answers.pop_front();
    }
    return handle;
  }

  // Ends the process that was started last and got no answer.
  void end(const Result<port::ProcessOutput>& result) { finish(hanging_, result); }
  void answer(std::string out) {
    answers.emplace_back(
        port::ProcessOutput{.exit_code = 0, .out = std::move(out), .err = std::string()});
  }

  std::vector<port::Command> commands;
  std::deque<Result<port::ProcessOutput>> answers;

 private:
  struct Handle final : port::Process {
    explicit Handle(Done given) : done(std::make_shared<Done>(std::move(given))) {}
    // The only owner beside a weak look from the queue: gone with the handle.
    std::shared_ptr<Done> done;
  };

  static void finish(const std::weak_ptr<Done>& done, const Result<port::ProcessOutput>& result) {
    if (const auto alive = done.lock()) {
      const Done call = std::exchange(*alive, nullptr);
      if (call) {
        call(result);
      }
    }
  }

  FakePoller& poller_;
  std::weak_ptr<Done> hanging_;
};

}  // namespace moonfence::test
