#pragma once

// Text that came from outside and text for people.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moonfence {

// Control characters, quotes and backslashes escaped, invalid UTF-8 replaced, cut at `limit` bytes
// with "…": nothing from outside can forge a log line or paint a terminal.
[[nodiscard]] std::string escaped(std::string_view text, std::size_t limit = 1024);

// Well-formed, without surrogates and overlong forms. ASCII is.
[[nodiscard]] bool is_utf8(std::string_view text);

[[nodiscard]] std::string_view trimmed(std::string_view text);

[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);

[[nodiscard]] std::string joined(std::span<const std::string> parts, std::string_view separator);

// An RFC 1123 label: lower case letters, digits and inner '-', at most 63. What the API server
// takes for the name of a namespace.
[[nodiscard]] bool is_dns_label(std::string_view text);

// The name of a CSI driver, as the API server takes it: letters, digits and inner '-' and '.', at
// most 63.
[[nodiscard]] bool is_csi_driver_name(std::string_view text);

// Lower case for ASCII letters, the rest untouched.
[[nodiscard]] std::string lower_cased(std::string_view text);

// The known word nearest to a misspelled one, for "did you mean"; nullopt when none is near.
[[nodiscard]] std::optional<std::string> nearest(std::string_view word,
                                                 std::span<const std::string_view> known);

// " (did you mean 'x'?)" or "".
[[nodiscard]] std::string did_you_mean(std::string_view word,
                                       std::span<const std::string_view> known);

}  // namespace moonfence
