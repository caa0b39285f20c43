#pragma once

// Reads fields of JSON that came from outside: what is not there, or not of that kind, reads as
// nothing.

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "sim/store/object.h"

namespace moonfence::sim {

using Path = std::initializer_list<std::string_view>;

// null when it is not there.
[[nodiscard]] const Json* find_field(const Json& object, Path path);
// "" when it is no string.
[[nodiscard]] const std::string& text_field(const Json& object, Path path);
[[nodiscard]] std::optional<std::int64_t> number_field(const Json& object, Path path);
// A list or an object with something in it.
[[nodiscard]] bool has_content(const Json& object, Path path);

}  // namespace moonfence::sim
