#pragma once

// The log on standard error: "2026-01-02T03:04:05.678Z INFO  event key=value key=\"two words\"", or
// the same as one JSON object a line.

#include <memory>

#include "port/log.h"
#include "port/wall_clock.h"

namespace spdlog {
class logger;
}

namespace moonfence::app {

enum class LogFormat { Text, Json };

class Logging final : public port::Log {
 public:
  // The clock must outlive the log.
  Logging(port::WallClock& clock, Level least, LogFormat format = LogFormat::Text);
  ~Logging() override;

  void write(Level level, std::string_view event,
             const std::vector<port::LogField>& fields) override;

 private:
  port::WallClock& clock_;
  const LogFormat format_;
  std::shared_ptr<spdlog::logger> logger_;  // spdlog's factories give nothing else
};

// event and fields as one line without time and level. Pure, for the test.
[[nodiscard]] std::string log_line(std::string_view event,
                                   const std::vector<port::LogField>& fields);

// The same with time and level, as one JSON object; values are strings.
[[nodiscard]] std::string json_log_line(WallTime at, port::Log::Level level, std::string_view event,
                                        const std::vector<port::LogField>& fields);

}  // namespace moonfence::app
