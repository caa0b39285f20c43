#include "fence/brake/storm.h"

#include <algorithm>

namespace moonfence::fence {
namespace {

using Falls = std::vector<Moment>;

// A sum that does not run over where a moment stands for "nobody knows".
Moment after(Moment moment, Duration time) {
  return moment > Moment::max() - time ? Moment::max() : moment + time;
}

// The first of those that fell within a window of one another and were too many.
Falls::const_iterator begin_of_storm(const Falls& falls, Falls::const_iterator from,
                                     std::int64_t up, const StormRules& rules) {
  return std::find_if(from, falls.end(), [&](const Moment& first) {
    const auto begin = falls.begin() + (&first - falls.data());
    const auto end = std::upper_bound(begin, falls.end(), after(first, rules.window));
    return rules.too_many(end - begin, up + (falls.end() - begin));
  });
}

}  // namespace

Storm storm_of(const Falls& falls, std::int64_t up, const StormRules& rules, Moment now) {
  const auto remembered = std::upper_bound(falls.begin(), falls.end(), now - rules.memory);
  const auto lately = std::upper_bound(remembered, falls.end(), now - rules.window);
  const auto begin = std::min(lately, begin_of_storm(falls, remembered, up, rules));
  Storm storm = {.down = falls.end() - begin};
  storm.workers = up + storm.down;
  storm.too_many = rules.too_many(storm.down, storm.workers);
  storm.since = begin == falls.end() ? Moment::max() : *begin;
  if (begin != falls.end()) {
    const bool lasts = begin < lately;  // only because it was a storm
    storm.changes = after(*begin, lasts ? rules.memory : std::min(rules.window, rules.memory));
    if (lately != falls.end()) {
      storm.changes = std::min(*storm.changes, after(*lately, rules.window));
    }
  }
  if (storm.changes == Moment::max()) {
    storm.changes = std::nullopt;
  }
  return storm;
}

}  // namespace moonfence::fence
