#include "app/policies/bound_namespaces.h"

#include <utility>

#include "base/text.h"

namespace moonfence::app {

void BoundNamespaces::look_for(std::set<Namespace> bound) {
  if (bound == bound_) {
    return;
  }
  bound_ = std::move(bound);
  rounds_ = 0;
  std::erase_if(absent_, [this](const Namespace& space) { return !bound_.contains(space); });
  // In a turn of its own: whoever tells us is not done yet.
  timer_ = loop_.in_next_turn([this] { look(); });
}

void BoundNamespaces::look() {
  const std::set<Namespace>& due = rounds_ % kAll == 0 ? bound_ : absent_;
  ++rounds_;
  queue_.assign(due.begin(), due.end());
  timer_ = loop_.after(kEvery, [this] { look(); });
  ask_next();
}

void BoundNamespaces::ask_next() {
  call_.reset();
  while (!queue_.empty() && !is_dns_label(queue_.front().text())) {
    queue_.pop_front();
  }
  if (queue_.empty()) {
    return;
  }
  const Namespace space = std::move(queue_.front());
  queue_.pop_front();
  call_ =
      reader_.get("/api/v1/namespaces/" + space.text(),
                  [this, space](const Result<kube::ApiReply>& reply) { arrived(space, reply); });
}

void BoundNamespaces::arrived(const Namespace& space, const Result<kube::ApiReply>& reply) {
  // A page of a proxy is no word of the API server.
  const bool absent =
      !reply && reply.error().kind == Error::Kind::NotFound && reply.error().reason == "NotFound";
  const bool changed =
      absent ? absent_.insert(space).second : reply.has_value() && absent_.erase(space) > 0;
  ask_next();
  if (changed) {
    changed_();
  }
}

}  // namespace moonfence::app
