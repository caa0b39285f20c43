#pragma once

// What stands where engine/os stands in production and needs no network: clocks that follow the
// world's time, a machine without files and programs, a log that only the story hears.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loop/loop.h"
#include "port/cpu_clock.h"
#include "port/files.h"
#include "port/log.h"
#include "port/processes.h"
#include "port/wall_clock.h"
#include "sim/ground/story.h"
#include "sim/net/time_line.h"

namespace moonfence::sim {

// A replica's wall clock: the API servers' one, off by as much as the plan says.
class SimWallClock final : public port::WallClock {
 public:
  SimWallClock(const TimeLine& time, const Duration& offset) : time_(time), offset_(offset) {}
  [[nodiscard]] WallTime now() override { return true_wall_time(time_) + offset_; }

 private:
  const TimeLine& time_;
  const Duration& offset_;
};

// Charges the same for every look at it, so that a policy's limit can be reached and repeated.
class SimCpuClock final : public port::CpuClock {
 public:
  explicit SimCpuClock(Duration charge) : charge_(charge) {}
  [[nodiscard]] Duration thread_time() override { return spent_ += charge_; }

 private:
  Duration charge_;
  Duration spent_{};
};

class NoFiles final : public port::Files {
 public:
  Result<std::string> read(const std::string& path, std::size_t /*limit*/) override {
    return failure(Error::Kind::NotFound, path + ": no such file");
  }
  [[nodiscard]] std::optional<std::string> environment(const std::string& /*name*/) override {
    return std::nullopt;
  }
};

class NoProcesses final : public port::Processes {
 public:
  explicit NoProcesses(loop::Loop& loop) : loop_(loop) {}
  [[nodiscard]] std::unique_ptr<port::Process> start(port::Command command, Done done) override {
    struct Never final : port::Process {
      loop::Timer timer;
    };
    auto never = std::make_unique<Never>();
    never->timer =
        loop_.in_next_turn([done = std::move(done), program = std::move(command.program)] {
          done(failure(Error::Kind::NotFound, program + ": no such program"));
        });
    return never;
  }

 private:
  loop::Loop& loop_;
};

// Warnings and errors, as happenings.
class StoryLog final : public port::Log {
 public:
  StoryLog(const TimeLine& time, const Story& story, std::string subject)
      : time_(time), story_(story), subject_(std::move(subject)) {}

  void write(Level level, std::string_view event,
             const std::vector<port::LogField>& fields) override {
    if (!story_.heard() || level == Level::Debug || level == Level::Info) {
      return;
    }
    std::string detail;
    for (const port::LogField& field : fields) {
      detail += detail.empty() ? "" : " ";
      detail += field.name;
      detail += '=';
      detail += field.value;
    }
    story_.tell({.at = time_.now.time_since_epoch(),
                 .kind = Happening::Kind::Engine,
                 .subject = subject_,
                 .what = std::string(event),
                 .detail = std::move(detail)});
  }

 private:
  const TimeLine& time_;
  const Story& story_;
  std::string subject_;
};

}  // namespace moonfence::sim
