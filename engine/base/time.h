#pragma once

// Two kinds of time that cannot be mixed up. A Moment is monotonic and comes from the loop; all
// durations that we measure are differences of Moments. A WallTime comes from an API object or the
// wall clock and serves records and comparisons with other API objects only.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace moonfence {

using Duration = std::chrono::nanoseconds;

// A clock without now(): only loop::Poller implementations make Moments.
struct Monotonic {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<Monotonic, Duration>;
  static constexpr bool is_steady = true;  // NOLINT(readability-identifier-naming): std's word
};
using Moment = Monotonic::time_point;

using WallTime = std::chrono::sys_time<std::chrono::nanoseconds>;

// "90s", "1h30m", "250ms", "0"; units ns us ms s m h. No sign, no exponent; a bare number other
// than 0 is refused because its unit would be a guess. nullopt when the text breaks these rules or
// the value does not fit.
[[nodiscard]] std::optional<Duration> parse_duration(std::string_view text);
// The shortest exact form that parse_duration reads back: "1h", "1m30s", "2.5ms" is "2500us".
[[nodiscard]] std::string format_duration(Duration duration);

// RFC 3339 with optional fraction, as Kubernetes writes metav1.Time and MicroTime. nullopt when the
// text is none.
[[nodiscard]] std::optional<WallTime> parse_rfc3339(std::string_view text);
// In UTC with six digits: "2026-01-02T03:04:05.000006Z" (MicroTime).
[[nodiscard]] std::string format_rfc3339_micro(WallTime time);
// In UTC with whole seconds: "2026-01-02T03:04:05Z" (metav1.Time).
[[nodiscard]] std::string format_rfc3339(WallTime time);
// An HTTP date, RFC 9110 §5.6.7: "Sun, 06 Nov 1994 08:49:37 GMT". nullopt for anything else.
[[nodiscard]] std::optional<WallTime> parse_http_date(std::string_view text);

}  // namespace moonfence
