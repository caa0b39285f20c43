#include "app/engine/rewind.h"

namespace moonfence::app {

void Rewind::heard() {
  stage_ = Stage::Heard;
}

void Rewind::begin(const Subjects& subjects, Moment now) {
  log_.error("store_went_back",
             {{"text",
               "the API server's store was restored from a backup: what was changed since is lost, "
               "the key mode and policies too; nothing is deleted before all was read anew"}});
  began_ = now;
  node_lists_ = subjects.nodes.health().lists;
  subjects.drop();
  subjects.nodes.list_anew();
  if (subjects.policies != nullptr) {
    policy_lists_ = subjects.policies->watch_health().lists;
    subjects.policies->begin_anew();
  }
}

void Rewind::look(const Subjects& subjects, Moment now) {
  std::string awaited;
  switch (stage_) {
    case Stage::Nothing:
      return;
    case Stage::Heard:
      stage_ = Stage::Listing;
      begin(subjects, now);
      awaited = unlisted(subjects);
      break;
    case Stage::Listing:
      awaited = unlisted(subjects);
      if (awaited.empty()) {
        stage_ = Stage::Recording;
        subjects.take_up();
        awaited = unwritten(subjects);
      }
      break;
    case Stage::Recording:
      awaited = unwritten(subjects);
      if (awaited.empty()) {
        stage_ = Stage::Nothing;
        log_.info("store_taken_up", {{"took", format_duration(now - began_)}});
      }
      break;
  }
  problem_ = lasts() ? "the API server's store went back in time; awaited: " + awaited : "";
}

std::string Rewind::unlisted(const Subjects& subjects) const {
  if (subjects.nodes.health().lists <= node_lists_) {
    return "a list of the nodes";
  }
  const PolicyFeed* policies = subjects.policies;
  if (policies != nullptr &&
      (policies->watch_health().lists <= policy_lists_ || policies->proven_at() < began_)) {
    return "a list and a live reading of the policies";
  }
  return {};
}

std::string Rewind::unwritten(const Subjects& subjects) {
  if (!subjects.journal.is_complete()) {
    return "the records of incidents";
  }
  return subjects.policies != nullptr && !subjects.policies->kept()
             ? "our status and the last good policies"
             : std::string();
}

}  // namespace moonfence::app
