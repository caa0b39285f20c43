#pragma once

// JSON from outside, read without exceptions and without trust. parse_json bounds the depth,
// because whoever walks the tree later (a policy's table, a destructor) may recurse; duplicate keys
// resolve to the last one, as Kubernetes' own decoder does it; invalid UTF-8 and numbers that do
// not fit are Malformed. Fields looks values up by path and remembers the first wrong type instead
// of returning a Result per field, so that a decoder reads like the object it decodes.

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "base/time.h"

namespace moonfence::kube {

constexpr int kJsonDepthLimit = 64;

[[nodiscard]] Result<nlohmann::json> parse_json(std::string_view text);

// Whether the text ends inside the JSON value it begins: what a lost connection leaves behind.
// False for a whole value and for text that no further bytes could repair at its first character.
[[nodiscard]] bool is_cut_short(std::string_view text);

// Compact text; never throws (invalid UTF-8 in strings is replaced).
[[nodiscard]] std::string to_text(const nlohmann::json& value);

// By a JSON pointer; "" where there is none or where it is no string.
[[nodiscard]] std::string text_at(const nlohmann::json& value, const char* pointer);

class Fields {
 public:
  // Keys from the outside in; a key may contain dots and slashes as annotations do.
  using Path = std::initializer_list<std::string_view>;

  // `place` goes in front of every field name in messages. The value must outlive the Fields.
  explicit Fields(const nlohmann::json& value, std::string place = {});

  // Missing and null give the default; a wrong type too, and it becomes the fault.
  [[nodiscard]] std::string string(Path path);
  [[nodiscard]] std::int64_t integer(Path path, std::int64_t missing = 0);
  [[nodiscard]] bool boolean(Path path);
  [[nodiscard]] std::optional<WallTime> time(Path path);
  [[nodiscard]] std::map<std::string, std::string> strings(Path path);
  // Null when missing.
  [[nodiscard]] const nlohmann::json* object(Path path);
  [[nodiscard]] const nlohmann::json* array(Path path);
  // Missing and "" are faults.
  [[nodiscard]] std::string required(Path path);

  void refuse(Path path, std::string_view rule);
  // Takes over the fault of a part that was read by its own Fields.
  void adopt(const Fields& part);
  [[nodiscard]] const std::optional<Error>& fault() const { return fault_; }

 private:
  [[nodiscard]] const nlohmann::json* find(Path path);

  const nlohmann::json& value_;
  std::string place_;
  std::optional<Error> fault_;
};

}  // namespace moonfence::kube
