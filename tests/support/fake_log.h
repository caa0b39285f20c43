#pragma once

// Collects log lines as "level event key=value …". Tests count lines; they do not read decisions
// out of them.

#include <string>
#include <string_view>
#include <vector>

#include "port/log.h"

namespace moonfence::test {

class FakeLog final : public port::Log {
 public:
  void write(Level level, std::string_view event,
             const std::vector<port::LogField>& fields) override {
    std::string line = std::string(word(level)) + " " + std::string(event);
    for (const port::LogField& field : fields) {
      line += " " + std::string(field.name) + "=" + field.value;
    }
    lines.push_back(std::move(line));
  }

  [[nodiscard]] std::size_t count(std::string_view part) const {
    std::size_t found = 0;
    for (const std::string& line : lines) {
      found += line.find(part) != std::string::npos ? 1U : 0U;
    }
    return found;
  }

  std::vector<std::string> lines;

 private:
  static std::string_view word(Level level) {
    switch (level) {
      case Level::Debug:
        return "debug";
      case Level::Info:
        return "info";
      case Level::Warning:
        return "warning";
      case Level::Error:
        return "error";
    }
    return "";
  }
};

}  // namespace moonfence::test
