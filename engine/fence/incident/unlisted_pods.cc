#include "fence/incident/unlisted_pods.h"

#include <utility>

namespace moonfence::fence {

using audit::Reason;
using audit::Record;

UnlistedPods::UnlistedPods(Surroundings& surroundings, const PassContext& context,
                           std::shared_ptr<const Authority> authority, Memory& memory)
    : around_(surroundings), context_(context), authority_(std::move(authority)), memory_(memory) {}

void UnlistedPods::retire() {
  next_.cancel();
  left_.clear();
  reads_.clear();
}

bool UnlistedPods::look(PassResult& result, std::function<void()> looked) {
  if (std::exchange(has_looked_, true) || authority_->ledger == nullptr) {
    return false;
  }
  result_ = &result;
  looked_ = std::move(looked);
  for (const IncidentRecord::Step& step : authority_->ledger->record().steps) {
    if (step.kind == IncidentRecord::Step::Kind::DeletePod && !step.settled() &&
        !memory_.pods_read.pods.contains(step.pod_uid)) {
      left_.emplace_back(step.pod, step.pod_uid);
    }
  }
  read_next();
  return is_looking();
}

void UnlistedPods::read_next() {
  while (!left_.empty() && reads_.size() < kMostReads) {
    auto [pod, uid] = std::move(left_.front());
    left_.pop_front();
    const auto read =
        reads_.insert(reads_.end(), Read{.pod = std::move(pod), .uid = std::move(uid)});
    kube::ItemFlow flow = {.begin = [read] { read->text.clear(); },
                           .take = [this, read](std::string text) -> Result<void> {
                             const auto found = decoder_.decode(text);
                             if (!found) {
                               return failure(Error(found.error()));  // it may be the very pod
                             }
                             if (found->uid == read->uid) {
                               read->text = std::move(text);
                             }
                             return {};
                           }};
    read->call = around_.access.reader.list_namespace_pods(
        read->pod.space, read->pod.name, std::move(flow),
        [this, read](const Result<ResourceVersion>& whole) { arrived(read, whole); });
  }
}

void UnlistedPods::arrived(std::list<Read>::iterator read, const Result<ResourceVersion>& whole) {
  std::list<Read> over;
  over.splice(over.begin(), reads_, read);
  if (!whole) {
    result_->fail("pod " + read->pod.text() + " could not be read: " + whole.error().message(),
                  whole.error().retry_after);
  } else if (read->text.empty()) {
    conclude_gone(*read);
  } else {
    present_.push_back(std::move(read->text));
  }
  read_next();
  if (reads_.empty()) {
    // What follows may end us; the answer's own call dies first.
    next_ = around_.access.loop.in_next_turn([this] { looked_(); });
  }
}

void UnlistedPods::conclude_gone(const Read& read) {
  const IncidentRecord::Step* step = authority_->ledger->record().find(read.uid);
  if (step == nullptr) {
    return;
  }
  result_->deleted +=
      step->sent ? 1U : 0U;  // by us, perhaps: what replaces it is to be looked after
  Record record;
  record.kind = Record::Kind::Outcome;
  record.reason = Reason::AlreadyGone;
  record.incident = context_.incident;
  record.node = authority_->node;
  record.node_uid = authority_->node_uid;
  record.pod = read.pod;
  record.pod_uid = read.uid;
  record.policy = step->policy;
  record.policy_digest = step->policy_digest;
  record.action = "delete_pod";
  record.attempt = context_.attempt;
  (void)around_.output.trail.write(record);
  authority_->ledger->found_gone(read.uid);
  gone_.push_back(read.uid);
}

}  // namespace moonfence::fence
