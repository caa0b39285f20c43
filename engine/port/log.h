#pragma once

// The log: for people, one event a line. A constant event name and key=value fields; a line about
// an incident carries its id. Tests never assert on it, and no decision reads it.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moonfence::port {

struct LogField {
  LogField(std::string_view name_given, std::string_view value_given)
      : name(name_given), value(value_given) {}
  LogField(std::string_view name_given, std::int64_t number)
      : name(name_given), value(std::to_string(number)) {}

  std::string_view name;
  std::string value;
};

class Log {
 public:
  enum class Level { Debug, Info, Warning, Error };

  virtual ~Log() = default;
  // `event` is lower_snake_case and constant; values are escaped by the implementation.
  virtual void write(Level level, std::string_view event, const std::vector<LogField>& fields) = 0;

  void debug(std::string_view event, const std::vector<LogField>& fields = {}) {
    write(Level::Debug, event, fields);
  }
  void info(std::string_view event, const std::vector<LogField>& fields = {}) {
    write(Level::Info, event, fields);
  }
  void warning(std::string_view event, const std::vector<LogField>& fields = {}) {
    write(Level::Warning, event, fields);
  }
  void error(std::string_view event, const std::vector<LogField>& fields = {}) {
    write(Level::Error, event, fields);
  }
};

}  // namespace moonfence::port
