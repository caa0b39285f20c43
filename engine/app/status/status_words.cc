#include "app/status/status_words.h"

#include <chrono>

namespace moonfence::app {
namespace {

using std::chrono::days;
using std::chrono::duration_cast;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

std::string two_digits(std::int64_t number) {
  return (number < 10 ? "0" : "") + std::to_string(number);
}

Html time_element(const std::string& exact, const std::string& clock, WallTime now) {
  const std::string day = exact.substr(0, 10);
  Html html;
  html << "<time datetime=\"" << exact << "\" title=\"" << exact << "\">";
  if (day != format_rfc3339(now).substr(0, 10)) {
    html << day << " ";
  }
  html << clock << "</time>";
  return html;
}

}  // namespace

std::string counted(std::uint64_t count, std::string_view noun) {
  std::string text = std::to_string(count) + " ";
  text += noun;
  return count == 1 ? text : text + "s";
}

std::string clock_text(WallTime time) {
  return format_rfc3339(time).substr(11, 8);
}

std::string span_text(Duration span) {
  if (span < seconds(1)) {
    return std::to_string(duration_cast<milliseconds>(span).count()) + " ms";
  }
  const auto whole = duration_cast<seconds>(span).count();
  if (span < seconds(60)) {
    const auto tenths = duration_cast<milliseconds>(span).count() / 100;
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
  }
  if (span < hours(1)) {
    const auto rest = whole % 60;
    return std::to_string(whole / 60) + " min" + (rest == 0 ? "" : " " + two_digits(rest) + " s");
  }
  if (span < days(2)) {
    return std::to_string(whole / 3600) + " h " + two_digits(whole / 60 % 60) + " min";
  }
  return std::to_string(whole / 86400) + " d";
}

std::string age_text(WallTime then, WallTime now) {
  const Duration age = now - then;
  if (age < -seconds(2)) {
    return "in the future";
  }
  if (age < seconds(1)) {
    return "just now";
  }
  const auto whole = duration_cast<seconds>(age).count();
  if (age < minutes(1)) {
    return std::to_string(whole) + " s ago";
  }
  return (age < hours(1) ? std::to_string(whole / 60) + " min" : span_text(age)) + " ago";
}

std::string limit_text(const std::string& limit) {
  return limit == "off" ? "no limit" : "limit " + limit;
}

std::string holder_name(const std::string& holder) {
  return holder.substr(0, holder.find('_'));
}

Html time_html(WallTime time, WallTime now) {
  return time_element(format_rfc3339(time), clock_text(time), now);
}

Html exact_time_html(WallTime time, WallTime now) {
  const std::string exact = format_rfc3339_micro(time);
  return time_element(exact, exact.substr(11, 12), now);
}

Html aged_time_html(WallTime time, WallTime now) {
  Html html = time_html(time, now);
  html << " <span class=\"age\">" << age_text(time, now) << "</span>";
  return html;
}

Markup sign_of(Tone tone) {
  switch (tone) {
    case Tone::Good:
      return "✓";
    case Tone::Busy:
      return "▶";
    case Tone::Waiting:
      return "…";
    case Tone::Warning:
      return "▲";
    case Tone::Alarm:
      return "✕";
    case Tone::Neutral:
      break;
  }
  return "○";
}

Markup class_of(Tone tone) {
  switch (tone) {
    case Tone::Good:
      return "good";
    case Tone::Busy:
      return "busy";
    case Tone::Waiting:
      return "waiting";
    case Tone::Warning:
      return "warning";
    case Tone::Alarm:
      return "alarm";
    case Tone::Neutral:
      break;
  }
  return "neutral";
}

Html badge(Tone tone, std::string_view word) {
  Html html;
  html << "<span class=\"badge " << class_of(tone) << "\"><span aria-hidden=\"true\">"
       << sign_of(tone) << "</span> " << word << "</span>";
  return html;
}

}  // namespace moonfence::app
