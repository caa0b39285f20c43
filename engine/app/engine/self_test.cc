#include "app/engine/self_test.h"

#include <algorithm>
#include <string>

namespace moonfence::app {

// A write is refused by whoever was asked about it: a webhook whose pods died with the node answers
// 500 to every deletion, and the server is there all the same.
void SelfTest::on_exchange(port::Method method, int status, Duration /*took*/,
                           std::optional<WallTime> /*server_date*/) {
  doubt_.call_ended(is_failure(method, status), loop_.now());
}

void SelfTest::look(const Subjects& subjects) {
  const fence::SelfDoubt::Outcome outcome = doubt_.look(signs_of(subjects), loop_.now());
  tell(outcome);
  if (outcome.list_nodes) {
    subjects.nodes.list_anew();
  }
  if (outcome.trusts_again) {
    subjects.trusted_again();
  }
}

// A gap counts from its beginning: that all was known may have been proven a minute before it.
fence::SelfDoubt::Signs SelfTest::signs_of(const Subjects& subjects) {
  const auto since = [this](Moment proven) { return loop_.now() - std::max(proven, born_); };
  const kube::WatchHealth& nodes = subjects.nodes.health();
  if (nodes.connected) {
    nodes_watched_at_ = loop_.now();
  }
  const Moment known =
      nodes.connected ? nodes.whole_at : std::max(nodes.whole_at, nodes_watched_at_);
  fence::SelfDoubt::Signs signs = {
      .nodes_silent = since(known), .nodes_watched = nodes.connected, .node_lists = nodes.lists};
  if (subjects.policies != nullptr) {
    signs.policies_silent = since(subjects.policies->proven_at());
  }
  signs.went_back = subjects.went_back;
  if (subjects.elector != nullptr) {
    if (const auto until = subjects.elector->leading_until()) {
      signs.term = subjects.elector->term();
      signs.term_left = *until - loop_.now();
    }
  }
  return signs;
}

void SelfTest::tell(const fence::SelfDoubt::Outcome& outcome) {
  for (const fence::SelfDoubt::Cause cause : outcome.begun) {
    metrics_.count_doubt(std::string(to_string(cause)));
    log_.warning("self_doubt", {{"cause", to_string(cause)}});
  }
  if (outcome.trusts_again) {
    log_.info("trust_restored", {});
  }
  metrics_.set_doubts(!doubt_.causes().empty());
}

}  // namespace moonfence::app
