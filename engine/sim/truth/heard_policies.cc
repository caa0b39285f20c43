#include "sim/truth/heard_policies.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "sim/store/fields.h"

namespace moonfence::sim {
namespace {

std::int64_t to_number(const std::string& text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::pair<int, std::int64_t> version_of(const PolicyEdit& edit) {
  return {edit.restores, edit.version};
}

}  // namespace

void HeardPolicies::heard(std::string_view text, int restores, Moment at) {
  const Json said = Json::parse(text, nullptr, false);
  if (said.is_discarded()) {
    return;
  }
  std::int64_t version = 0;
  if (const Json* event = find_field(said, {"object"})) {  // a line of the watch
    version = to_number(text_field(*event, {"metadata", "resourceVersion"}));
    if (text_field(said, {"type"}) == "BOOKMARK" || text_field(said, {"type"}) == "ERROR") {
      return;
    }
  } else {
    version = to_number(text_field(said, {"metadata", "resourceVersion"}));  // of the list
  }
  hearings_.push_back({.version = {restores, version}, .at = at});
}

void HeardPolicies::read_kept(std::string_view text) {
  const Json map = Json::parse(text, nullptr, false);
  if (!map.is_discarded()) {
    kept_ = text_field(map, {"data", "moonfence.yaml"});
  }
}

HeardPolicies::Reaches HeardPolicies::in_force(const std::vector<PolicyEdit>& edits,
                                               Moment now) const {
  Reaches found;
  for (auto hearing = hearings_.rbegin(); hearing != hearings_.rend(); ++hearing) {
    const auto after =
        std::find_if(edits.begin(), edits.end(), [&hearing](const PolicyEdit& candidate) {
          return version_of(candidate) > hearing->version;
        });
    if (after != edits.begin() && !(after - 1)->lowered) {
      add_behind(edits, static_cast<std::size_t>(after - edits.begin()) - 1, found);
    }
    if (now - hearing->at > kReloadTime) {
      break;
    }
  }
  return found;
}

bool HeardPolicies::must_rest(const std::vector<PolicyEdit>& edits, Moment now) {
  const auto known = std::find_if(edits.rbegin(), edits.rend(), [now](const PolicyEdit& edit) {
    return now - edit.at > kLongestUnheard;
  });
  // One that came after it may permit it again.
  return known != edits.rend() && std::all_of(edits.rbegin(), std::next(known),
                                              [](const PolicyEdit& edit) { return edit.lowered; });
}

void HeardPolicies::add_behind(const std::vector<PolicyEdit>& edits, std::size_t edit,
                               Reaches& found) const {
  if (edits[edit].reach != nullptr) {
    found.push_back(edits[edit].reach);
    return;
  }
  bool is_newest = true;
  bool was_heard = false;
  for (std::size_t older = edit; older-- > 0 && !edits[older].deleted;) {
    if (edits[older].reach == nullptr) {
      continue;
    }
    const auto stood_for = stood(edits, older);
    const bool was_kept = !was_heard && !kept_.empty() && edits[older].bindings == kept_;
    if (is_newest || stood_for || was_kept) {
      found.push_back(edits[older].reach);
    }
    is_newest = false;
    was_heard = was_heard || stood_for;
    if (was_kept || (stood_for && *stood_for >= kReloadTime)) {
      return;
    }
  }
}

std::optional<Duration> HeardPolicies::stood(const std::vector<PolicyEdit>& edits,
                                             std::size_t edit) const {
  const auto end = edit + 1 < edits.size()
                       ? version_of(edits[edit + 1])
                       : std::pair(std::numeric_limits<int>::max(), std::int64_t{0});
  std::optional<Moment> first;
  for (const Hearing& hearing : hearings_) {
    if (first && hearing.version >= end) {
      return hearing.at - *first;
    }
    if (!first && hearing.version >= version_of(edits[edit]) && hearing.version < end) {
      first = hearing.at;
    }
  }
  return first ? std::optional(Duration::max()) : std::nullopt;
}

}  // namespace moonfence::sim
