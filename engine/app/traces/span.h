#pragma once

// One span of a trace, as OpenTelemetry means it (specification: trace/api.md). Values.

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/time.h"

namespace moonfence::app {

using AttributeValue = std::variant<std::string, std::int64_t, bool>;
using Attributes = std::vector<std::pair<std::string, AttributeValue>>;

struct Span {
  enum class Kind { Internal = 1, Client = 3 };  // by OTLP's numbers
  enum class Status { Unset = 0, Error = 2 };    // likewise

  std::string trace_id;   // 32 hexadecimal digits
  std::string id;         // 16
  std::string parent_id;  // "": it is the root
  std::string name;       // of few different ones
  Kind kind = Kind::Internal;
  WallTime start{};
  WallTime end{};  // not before the start
  Status status = Status::Unset;
  Attributes attributes;
};

}  // namespace moonfence::app
