#pragma once

// Times, counts and tones as the status page writes them. Times are UTC; how long ago is said
// beside them.

#include <cstdint>
#include <string>
#include <string_view>

#include "app/status/html.h"
#include "app/status/incident_story.h"
#include "base/time.h"

namespace moonfence::app {

// "1 node", "3 nodes".
[[nodiscard]] std::string counted(std::uint64_t count, std::string_view noun);
// "14:03:09"
[[nodiscard]] std::string clock_text(WallTime time);
// "412 ms", "21.4 s", "3 min", "2 h 05 min", "4 d": to be read, not to be computed with.
[[nodiscard]] std::string span_text(Duration span);
// "just now", "3 min ago"; "in the future" for what another clock wrote.
[[nodiscard]] std::string age_text(WallTime then, WallTime now);
// Of a limit as the snapshot has it: "limit 50 %", "no limit".
[[nodiscard]] std::string limit_text(const std::string& limit);
// A holder of the Lease is "<pod>_<random>": the pod.
[[nodiscard]] std::string holder_name(const std::string& holder);

// <time>: the clock alone for today, with the date otherwise.
[[nodiscard]] Html time_html(WallTime time, WallTime now);
// The same to the millisecond: what follows one another in a timeline is often of one second.
[[nodiscard]] Html exact_time_html(WallTime time, WallTime now);
// With its age.
[[nodiscard]] Html aged_time_html(WallTime time, WallTime now);

// What a colour says, in another way: "✓", "▲" …, hidden from screen readers, which read the word.
[[nodiscard]] Markup sign_of(Tone tone);
// The tone's word, in style sheet and JSON alike.
[[nodiscard]] Markup class_of(Tone tone);
// The sign and the word.
[[nodiscard]] Html badge(Tone tone, std::string_view word);

}  // namespace moonfence::app
