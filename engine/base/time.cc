#include "base/time.h"

#include <array>
#include <charconv>
#include <limits>

namespace moonfence {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t nanoseconds;
};

// Longest names first where one begins with another ("ms" before "m").
constexpr std::array<Unit, 6> kUnits = {{
    {"ns", 1},
    {"us", 1'000},
    {"ms", 1'000'000},
    {"s", 1'000'000'000},
    {"m", 60'000'000'000},
    {"h", 3'600'000'000'000},
}};

std::optional<Unit> take_unit(std::string_view& text) {
  for (const Unit& unit : kUnits) {
    if (text.starts_with(unit.name)) {
      text.remove_prefix(unit.name.size());
      return unit;
    }
  }
  return std::nullopt;
}

// Exactly `digits` decimal digits.
std::optional<int> take_number(std::string_view& text, std::size_t digits) {
  if (text.size() < digits) {
    return std::nullopt;
  }
  int value = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    const char c = text[i];
    if (c < '0' || c > '9') {
      return std::nullopt;
    }
    value = value * 10 + (c - '0');
  }
  text.remove_prefix(digits);
  return value;
}

bool take(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) {
    return false;
  }
  text.remove_prefix(expected.size());
  return true;
}

std::optional<Duration> take_fraction(std::string_view& text) {
  if (!take(text, ".")) {
    return Duration::zero();
  }
  std::int64_t value = 0;
  std::int64_t scale = 1'000'000'000;
  std::size_t digits = 0;
  while (!text.empty() && text.front() >= '0' && text.front() <= '9') {
    if (scale > 1) {
      scale /= 10;
      value += (text.front() - '0') * scale;
    }
    text.remove_prefix(1);
    ++digits;
  }
  if (digits == 0) {
    return std::nullopt;
  }
  return Duration(value);
}

// "Z" or "+hh:mm" / "-hh:mm"; the offset that has to be subtracted to get UTC.
std::optional<Duration> take_zone(std::string_view& text) {
  if (take(text, "Z") || take(text, "z")) {
    return Duration::zero();
  }
  const bool east = text.starts_with('+');
  if (!east && !text.starts_with('-')) {
    return std::nullopt;
  }
  text.remove_prefix(1);
  const auto hours = take_number(text, 2);
  if (!hours || *hours > 23 || !take(text, ":")) {
    return std::nullopt;
  }
  const auto minutes = take_number(text, 2);
  if (!minutes || *minutes > 59) {
    return std::nullopt;
  }
  const Duration offset = std::chrono::hours(*hours) + std::chrono::minutes(*minutes);
  return east ? offset : -offset;
}

struct ClockTime {
  int hour;
  int minute;
  int second;
};

std::optional<ClockTime> take_clock_time(std::string_view& text) {
  const auto hour = take_number(text, 2);
  if (!hour || *hour > 23 || !take(text, ":")) {
    return std::nullopt;
  }
  const auto minute = take_number(text, 2);
  if (!minute || *minute > 59 || !take(text, ":")) {
    return std::nullopt;
  }
  const auto second = take_number(text, 2);
  if (!second || *second > 60) {  // 60: a leap second, which becomes the next minute's first
    return std::nullopt;
  }
  return ClockTime{.hour = *hour, .minute = *minute, .second = *second};
}

std::optional<WallTime> to_wall_time(int year, int month, int day, ClockTime clock) {
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  // Nanoseconds in 64 bits reach from 1677 to 2262.
  if (!date.ok() || year < 1678 || year > 2261) {
    return std::nullopt;
  }
  return WallTime(std::chrono::sys_days(date)) + std::chrono::hours(clock.hour) +
         std::chrono::minutes(clock.minute) + std::chrono::seconds(clock.second);
}

void put_digits(std::string& text, std::size_t begin, std::size_t end, unsigned value) {
  for (; end > begin; value /= 10) {
    text[--end] = static_cast<char>('0' + value % 10);
  }
}

// Digit by digit: every audit line has one, every step of a record three, and printf took 5000
// instructions for one. Years have four digits: a WallTime lies between 1677 and 2262.
std::string format_calendar(WallTime time, bool micro) {
  const auto days = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(days);
  const std::chrono::hh_mm_ss clock(std::chrono::floor<std::chrono::microseconds>(time - days));
  std::string text = micro ? "0000-00-00T00:00:00.000000Z" : "0000-00-00T00:00:00Z";
  put_digits(text, 0, 4, static_cast<unsigned>(static_cast<int>(date.year())));
  put_digits(text, 5, 7, static_cast<unsigned>(date.month()));
  put_digits(text, 8, 10, static_cast<unsigned>(date.day()));
  put_digits(text, 11, 13, static_cast<unsigned>(clock.hours().count()));
  put_digits(text, 14, 16, static_cast<unsigned>(clock.minutes().count()));
  put_digits(text, 17, 19, static_cast<unsigned>(clock.seconds().count()));
  if (micro) {
    put_digits(text, 20, 26, static_cast<unsigned>(clock.subseconds().count()));
  }
  return text;
}

}  // namespace

std::optional<Duration> parse_duration(std::string_view text) {
  if (text == "0") {
    return Duration::zero();
  }
  if (text.empty()) {
    return std::nullopt;
  }
  std::int64_t total = 0;
  while (!text.empty()) {
    std::int64_t count = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (fault != std::errc() || text.front() == '-') {
      return std::nullopt;
    }
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    const auto unit = take_unit(text);
    std::int64_t part = 0;
    if (!unit || __builtin_mul_overflow(count, unit->nanoseconds, &part) ||
        __builtin_add_overflow(total, part, &total)) {
      return std::nullopt;
    }
  }
  return Duration(total);
}

std::string format_duration(Duration duration) {
  std::int64_t rest = duration.count();
  if (rest == 0) {
    return "0s";
  }
  std::string text;
  if (rest < 0) {
    text = "-";
    rest = rest == std::numeric_limits<std::int64_t>::min()
               ? std::numeric_limits<std::int64_t>::max()
               : -rest;
  }
  // Whole hours, minutes and seconds, then the smallest unit that holds the remainder exactly.
  for (std::size_t i = kUnits.size(); i-- > 0;) {
    const Unit& unit = kUnits[i];
    const bool exact = rest % unit.nanoseconds == 0;
    if (rest >= unit.nanoseconds && (exact || unit.nanoseconds >= 1'000'000'000)) {
      text += std::to_string(rest / unit.nanoseconds);
      text += unit.name;
      rest %= unit.nanoseconds;
    }
  }
  return text;
}

std::optional<WallTime> parse_rfc3339(std::string_view text) {
  const auto year = take_number(text, 4);
  if (!year || !take(text, "-")) {
    return std::nullopt;
  }
  const auto month = take_number(text, 2);
  if (!month || !take(text, "-")) {
    return std::nullopt;
  }
  const auto day = take_number(text, 2);
  if (!day || (!take(text, "T") && !take(text, "t"))) {
    return std::nullopt;
  }
  const auto clock = take_clock_time(text);
  if (!clock) {
    return std::nullopt;
  }
  const auto fraction = take_fraction(text);
  if (!fraction) {
    return std::nullopt;
  }
  const auto zone = take_zone(text);
  const auto time = to_wall_time(*year, *month, *day, *clock);
  if (!zone || !time || !text.empty()) {
    return std::nullopt;
  }
  return *time + *fraction - *zone;
}

std::string format_rfc3339_micro(WallTime time) {
  return format_calendar(time, true);
}

std::string format_rfc3339(WallTime time) {
  return format_calendar(time, false);
}

std::optional<WallTime> parse_http_date(std::string_view text) {
  constexpr std::array<std::string_view, 12> kMonths = {
      {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"}};
  if (text.size() != 29 || text.substr(3, 2) != ", ") {
    return std::nullopt;
  }
  text.remove_prefix(5);  // the weekday adds nothing
  const auto day = take_number(text, 2);
  if (!day || !take(text, " ")) {
    return std::nullopt;
  }
  int month = 0;
  for (std::size_t i = 0; i < kMonths.size(); ++i) {
    if (take(text, kMonths[i])) {
      month = static_cast<int>(i) + 1;
      break;
    }
  }
  if (month == 0 || !take(text, " ")) {
    return std::nullopt;
  }
  const auto year = take_number(text, 4);
  if (!year || !take(text, " ")) {
    return std::nullopt;
  }
  const auto clock = take_clock_time(text);
  if (!clock || text != " GMT") {
    return std::nullopt;
  }
  return to_wall_time(*year, month, *day, *clock);
}

}  // namespace moonfence
