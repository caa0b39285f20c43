#include "fence/brake/brake.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "base/check.h"

namespace moonfence::fence {

using audit::Reason;
using cluster::Census;

bool Limit::exceeded_by(std::int64_t nodes, std::int64_t workers) const {
  return value && (percent ? nodes * 100 > *value * workers : nodes > *value);
}

std::int64_t Limit::room(std::int64_t workers) const {
  if (!value) {
    return std::numeric_limits<std::int64_t>::max();
  }
  return percent ? std::max<std::int64_t>(1, *value * workers / 100) : *value;
}

Brake::Place::Place(Place&& other) noexcept
    : brake_(std::exchange(other.brake_, nullptr)), node_(std::move(other.node_)) {}

Brake::Place& Brake::Place::operator=(Place&& other) noexcept {
  if (this != &other) {
    leave();
    brake_ = std::exchange(other.brake_, nullptr);
    node_ = std::move(other.node_);
  }
  return *this;
}

void Brake::Place::leave() {
  if (Brake* brake = std::exchange(brake_, nullptr)) {
    brake->leave(node_);
  }
}

void Brake::Trip::note(bool is_over, Moment now) {
  if (over && !is_over) {
    ended = now;
  }
  over = is_over;
}

bool Brake::Trip::holds(Moment now, Duration cool_down) const {
  return over || (ended && now < *ended + cool_down);
}

void Brake::count(const cluster::Census& census, Moment now) {
  census_ = census;
  counted_ = true;
  workers_ = storm_in(census_.workers(), nullptr, now);
  machines_ = storm_in(census_.machines(), nullptr, now);
  down_.note(workers_.too_many || machines_.too_many, now);
  count_zones(now);
}

void Brake::pass_time(Moment now) {
  const auto is_due = [now](const Storm& storm) { return storm.changes && *storm.changes <= now; };
  if (is_due(workers_) || is_due(machines_)) {
    count(census_, now);
  }
}

Storm Brake::storm_in(const Census::Group& group, const std::string* zone, Moment now) const {
  std::vector<Moment> falls;
  for (const auto& [fell, fallen] : group.falls) {
    if (zone == nullptr || fallen.zone == *zone) {
      falls.push_back(fell);
    }
  }
  std::int64_t up = group.up;
  if (zone != nullptr) {
    const auto known = group.up_in.find(*zone);
    up = known == group.up_in.end() ? 0 : known->second;
  }
  const bool whole = zone == nullptr;
  const auto too_many = [this, whole](std::int64_t down, std::int64_t workers) {
    return whole ? rules_.max_down.exceeded_by(down, workers)
                 : down > rules_.zone_min_down && rules_.zone_max_down.exceeded_by(down, workers);
  };
  return storm_of(falls, up,
                  {.window = rules_.window, .memory = rules_.memory, .too_many = too_many}, now);
}

void Brake::count_zones(Moment now) {
  std::set<std::string> names;
  for (const auto& [fell, fallen] : census_.machines().falls) {
    if (!fallen.zone.empty()) {
      names.insert(fallen.zone);
    }
  }
  for (const std::string& name : names) {
    const bool over = storm_in(census_.workers(), &name, now).too_many ||
                      storm_in(census_.machines(), &name, now).too_many;
    if (over || zones_.contains(name)) {
      zones_[name].note(over, now);
    }
  }
  for (auto& [name, zone] : zones_) {
    if (!names.contains(name)) {
      zone.note(false, now);
    }
  }
  std::erase_if(zones_, [&](const auto& zone) {
    const bool is_empty =
        !names.contains(zone.first) && !census_.machines().up_in.contains(zone.first);
    return is_empty || !zone.second.holds(now, rules_.cool_down);
  });
}

std::string Brake::Count::text() const {
  constexpr std::size_t kNamed = 10;
  std::string text = std::to_string(down) + " of " + std::to_string(workers) +
                     (dedicated_too ? " machines" : " workers") +
                     (down == 1 ? " is newly down" : " are newly down");
  for (std::size_t i = 0; i < std::min(names.size(), kNamed); ++i) {
    text += (i == 0 ? ": " : ", ") + names[i].text();
  }
  if (names.size() > kNamed) {
    text += " and " + std::to_string(names.size() - kNamed) + " more";
  }
  return text;
}

std::int64_t Brake::workers(const std::string* zone) const {
  const auto count = [zone](const Census::Group& group) {
    std::int64_t all = 0;
    for (const auto& [fell, fallen] : group.falls) {
      all += zone == nullptr || fallen.zone == *zone ? 1 : 0;
    }
    if (zone == nullptr) {
      return all + group.up;
    }
    const auto up = group.up_in.find(*zone);
    return all + (up == group.up_in.end() ? 0 : up->second);
  };
  const std::int64_t workers = count(census_.workers());
  return workers > 0 ? workers : count(census_.machines());
}

Brake::Count Brake::newly_down() const {
  const bool all = machines_.too_many && !workers_.too_many;
  const Storm& storm = all ? machines_ : workers_;
  Count count = {.workers = storm.workers, .down = storm.down, .dedicated_too = all};
  const auto& falls = (all ? census_.machines() : census_.workers()).falls;
  for (auto fall = falls.lower_bound(storm.since); fall != falls.end(); ++fall) {
    count.names.push_back(fall->second.node);
  }
  std::sort(count.names.begin(), count.names.end());
  return count;
}

std::map<std::string, bool> switched_off(const BrakeRules& rules) {
  return {{"maxDown", !rules.max_down.value},
          {"maxAtOnce", !rules.cluster.at_once.value},
          {"maxPerWindow", !rules.cluster.per_window.value},
          {"zone.maxDown", !rules.zone_max_down.value}};
}

bool is_braking(Reason reason) {
  return reason == Reason::TooManyDown || reason == Reason::TooManyAtOnce ||
         reason == Reason::TooManyInWindow || reason == Reason::ZoneDisrupted ||
         reason == Reason::DoubtsItself;
}

std::optional<Reason> Brake::refuse(const Candidate& candidate, Moment now) const {
  if (engaged(now)) {
    return Reason::TooManyDown;
  }
  const bool known = acted_lately(candidate.node, now);
  if (const auto reason =
          refuse_by(rules_.cluster, before(candidate, nullptr, now), known, workers())) {
    return reason;
  }
  if (candidate.zone.empty()) {
    return std::nullopt;
  }
  const Before in_zone = before(candidate, &candidate.zone, now);
  const auto disrupted = zones_.find(candidate.zone);
  if (disrupted != zones_.end() && disrupted->second.holds(now, rules_.cool_down) &&
      in_zone.at_once > 0) {
    return Reason::ZoneDisrupted;
  }
  return refuse_by(rules_.zone, in_zone, known, workers(&candidate.zone));
}

std::optional<Reason> Brake::refuse_by(const BrakeRules::Pace& pace, const Before& before,
                                       bool known, std::int64_t workers) const {
  if (before.at_once >= pace.at_once.room(workers)) {
    return Reason::TooManyAtOnce;
  }
  // One that stands in the window already takes no further place in it.
  if (!known && before.in_window >= pace.per_window.room(workers)) {
    return Reason::TooManyInWindow;
  }
  return std::nullopt;
}

Brake::Before Brake::before(const Candidate& candidate, const std::string* zone, Moment now) const {
  Before before;
  for (const Entry& entry : ledger_) {
    if (entry.who.node == candidate.node) {
      break;
    }
    before.at_once += zone == nullptr || entry.who.zone == *zone ? 1 : 0;
  }
  before.in_window = before.at_once;
  for (const auto& acted : acted_) {
    const bool counts =
        (zone == nullptr || acted.second.zone == *zone) && acted_lately(acted.first, now);
    const bool listed = std::any_of(ledger_.begin(), ledger_.end(), [&acted](const Entry& entry) {
      return entry.who.node == acted.first;
    });
    before.in_window += counts && !listed ? 1 : 0;
  }
  return before;
}

bool Brake::acted_lately(const NodeName& node, Moment now) const {
  const auto found = acted_.find(node);
  return found != acted_.end() && now < found->second.last + rules_.window;
}

bool Brake::dealt_with(const NodeName& node, Moment now) const {
  const auto found = acted_.find(node);
  return found != acted_.end() && now < found->second.last + std::max(rules_.window, rules_.memory);
}

Brake::Place Brake::begin(const Candidate& candidate) {
  auto entry = std::find_if(ledger_.begin(), ledger_.end(), [&candidate](const Entry& other) {
    return other.who.node == candidate.node;
  });
  if (entry == ledger_.end()) {
    entry = ledger_.insert(ledger_.end(), Entry{.who = candidate});
  }
  ++entry->places;
  return {*this, candidate.node};
}

void Brake::leave(const NodeName& node) {
  const auto entry = std::find_if(ledger_.begin(), ledger_.end(),
                                  [&node](const Entry& other) { return other.who.node == node; });
  MOONFENCE_CHECK(entry != ledger_.end());
  if (--entry->places == 0) {
    ledger_.erase(entry);
    for (const auto& [who, room] : room_) {
      room();
    }
  }
}

void Brake::on_room(const void* who, std::function<void()> room) {
  std::erase_if(room_, [who](const auto& known) { return known.first == who; });
  if (room) {
    room_.emplace_back(who, std::move(room));
  }
}

void Brake::acted(const Candidate& candidate, Moment now) {
  std::erase_if(acted_, [&](const auto& acted) { return !dealt_with(acted.first, now); });
  acted_.insert_or_assign(candidate.node, Acted{.zone = candidate.zone, .last = now});
}

void Brake::recall(const Candidate& candidate, Moment at) {
  const auto [entry, is_new] =
      acted_.try_emplace(candidate.node, Acted{.zone = candidate.zone, .last = at});
  entry->second.last = std::max(entry->second.last, at);
}

bool Brake::engaged(Moment now) const {
  return !counted_ || down_.holds(now, rules_.cool_down) || suspects(now);
}

bool Brake::too_many_with(std::int64_t workers, std::int64_t machines) const {
  return rules_.max_down.exceeded_by(workers_.down + workers, workers_.workers) ||
         rules_.max_down.exceeded_by(machines_.down + machines, machines_.workers);
}

bool Brake::suspects(Moment now) const {
  return suspected_ && now < *suspected_ + suspicion();
}

// Without a cool-down the same signs must be there again a second later.
Duration Brake::suspicion() const {
  return std::max(rules_.cool_down, Duration(std::chrono::seconds(1)));
}

std::size_t Brake::disrupted_zones(Moment now) const {
  return static_cast<std::size_t>(
      std::count_if(zones_.begin(), zones_.end(),
                    [&](const auto& zone) { return zone.second.holds(now, rules_.cool_down); }));
}

std::optional<Moment> Brake::next_release(Moment now) const {
  std::optional<Moment> next;
  const auto consider = [&next, now](Moment moment) {
    if (moment > now) {
      next = std::min(next.value_or(moment), moment);
    }
  };
  if (!down_.over && down_.ended) {
    consider(*down_.ended + rules_.cool_down);
  }
  if (down_.over) {  // even a storm is forgotten in the end
    for (const Storm* storm : {&workers_, &machines_}) {
      if (storm->too_many && storm->changes) {
        consider(*storm->changes);
      }
    }
  }
  if (suspected_) {
    consider(*suspected_ + suspicion());
  }
  for (const auto& [name, zone] : zones_) {
    if (!zone.over && zone.ended) {
      consider(*zone.ended + rules_.cool_down);
    }
  }
  for (const auto& [node, acted] : acted_) {
    consider(acted.last + rules_.window);
  }
  return next;
}

}  // namespace moonfence::fence
