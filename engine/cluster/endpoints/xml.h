#pragma once

// The XML that a service answers, as the values that JSON has: an element with elements in it is an
// object, one without is its text. Elements named `item` or `member`, as AWS writes lists, make an
// array of what they lie in, also a single one. Attributes, comments and processing instructions
// are read over. What could be read in two ways is Malformed: an element twice, text beside
// elements. A DOCTYPE is refused before anything that it declares is read: nothing is expanded or
// fetched.

#include <cstddef>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"

namespace moonfence::cluster {

constexpr std::size_t kXmlDepth = 32;
constexpr std::size_t kXmlElements = 65'536;

// {"Root": …}. Malformed, or Limit beyond the limits; the text quotes nothing.
[[nodiscard]] Result<nlohmann::json> parse_xml(std::string_view text);

}  // namespace moonfence::cluster
