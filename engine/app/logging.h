#pragma once

// The log on standard error: "2026-01-02T03:04:05.678Z INFO  event key=value key=\"two words\"".

#include <memory>

#include "port/log.h"
#include "port/wall_clock.h"

namespace spdlog {
class logger;
}

namespace moonfence::app {

class Logging final : public port::Log {
 public:
  // The clock must outlive the log.
  Logging(port::WallClock& clock, Level least);
  ~Logging() override;

  void write(Level level, std::string_view event,
             const std::vector<port::LogField>& fields) override;

 private:
  port::WallClock& clock_;
  std::shared_ptr<spdlog::logger> logger_;  // spdlog's factories give nothing else
};

// event and fields as one line without time and level. Pure, for the test.
[[nodiscard]] std::string log_line(std::string_view event,
                                   const std::vector<port::LogField>& fields);

}  // namespace moonfence::app
