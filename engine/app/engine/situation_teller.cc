#include "app/engine/situation_teller.h"

#include <utility>

#include "app/status/situation.h"

namespace moonfence::app {

void SituationTeller::tell(const StatusSnapshot& snapshot, bool acts, Moment now,
                           PolicyFeed& feed) {
  nlohmann::ordered_json situation = situation_of(snapshot, snapshot.taken);
  if (situation == told_) {
    new_since_.reset();
    return;
  }
  const bool says_more = without_times(situation) != without_times(told_);
  const Duration age = now - new_since_.value_or(now);
  new_since_ = now - age;
  const bool idle = snapshot.stands.empty();
  if (age >= kLimit || (says_more && (idle || age >= kPause) && !acts)) {
    new_since_.reset();
    told_ = situation;
    feed.tell(std::move(situation));
  }
}

}  // namespace moonfence::app
