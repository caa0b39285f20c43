#include "app/telling/logging.h"

#include <nlohmann/json.hpp>
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>

#include "base/text.h"

namespace moonfence::app {
namespace {

spdlog::level::level_enum to_spdlog(port::Log::Level level) {
  switch (level) {
    case port::Log::Level::Debug:
      return spdlog::level::debug;
    case port::Log::Level::Info:
      return spdlog::level::info;
    case port::Log::Level::Warning:
      return spdlog::level::warn;
    case port::Log::Level::Error:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

std::string_view padded_name(port::Log::Level level) {
  switch (level) {
    case port::Log::Level::Debug:
      return "DEBUG ";
    case port::Log::Level::Info:
      return "INFO  ";
    case port::Log::Level::Warning:
      return "WARN  ";
    case port::Log::Level::Error:
      return "ERROR ";
  }
  return "INFO  ";
}

std::string_view name_of(port::Log::Level level) {
  switch (level) {
    case port::Log::Level::Debug:
      return "debug";
    case port::Log::Level::Info:
      return "info";
    case port::Log::Level::Warning:
      return "warning";
    case port::Log::Level::Error:
      return "error";
  }
  return "info";
}

// Half a character at the end becomes U+FFFD when it is printed.
std::string shortened(const std::string& value) {
  constexpr std::size_t kLongest = 1024;
  return value.size() <= kLongest ? value : value.substr(0, kLongest) + "…";
}

}  // namespace

std::string log_line(std::string_view event, const std::vector<port::LogField>& fields) {
  std::string line(event);
  for (const port::LogField& field : fields) {
    const std::string value = escaped(field.value);
    const bool quote = value.empty() || value.find_first_of(" =\\") != std::string::npos;
    line += " ";
    line += field.name;
    line += "=";
    line += quote ? "\"" + value + "\"" : value;
  }
  return line;
}

std::string json_log_line(WallTime at, port::Log::Level level, std::string_view event,
                          const std::vector<port::LogField>& fields) {
  nlohmann::ordered_json line;
  line["time"] = format_rfc3339_micro(at);
  line["level"] = name_of(level);
  line["event"] = event;
  for (const port::LogField& field : fields) {
    line[std::string(field.name)] = shortened(field.value);
  }
  // ASCII alone: what a terminal would obey comes out as text.
  return line.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

Logging::Logging(port::WallClock& clock, Level least, LogFormat format)
    : clock_(clock), format_(format) {
  // The calling thread is the only one that logs: the single-threaded sink saves a lock.
  auto sink = std::make_shared<spdlog::sinks::stderr_sink_st>();
  logger_ = std::make_shared<spdlog::logger>("moonfence", std::move(sink));
  logger_->set_formatter(std::make_unique<spdlog::pattern_formatter>(
      format == LogFormat::Json ? "%v" : "%Y-%m-%dT%H:%M:%S.%eZ %v",
      spdlog::pattern_time_type::utc));
  logger_->set_level(to_spdlog(least));
  logger_->flush_on(spdlog::level::info);
}

Logging::~Logging() = default;

void Logging::write(Level level, std::string_view event,
                    const std::vector<port::LogField>& fields) {
  if (!logger_->should_log(to_spdlog(level))) {
    return;
  }
  const auto now = std::chrono::time_point_cast<std::chrono::system_clock::duration>(clock_.now());
  logger_->log(now, spdlog::source_loc{}, to_spdlog(level),
               format_ == LogFormat::Json
                   ? json_log_line(clock_.now(), level, event, fields)
                   : std::string(padded_name(level)) + log_line(event, fields));
}

}  // namespace moonfence::app
