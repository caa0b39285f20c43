#include "fence/read/namespace_reading.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "fence/rules/hold_annotations.h"
#include "kube/text/json.h"

namespace moonfence::fence {

namespace {

// A proxy's page is no word of the API server.
NamespaceWord word_of(const Namespace& space, const Result<kube::ApiReply>& reply) {
  if (!reply) {
    return {.error = reply.error().message()};
  }
  if (!reply->body.is_object() ||
      kube::Fields(reply->body).string({"metadata", "name"}) != space.text()) {
    return {.error = "the answer is no Namespace of that name"};
  }
  return {.known = true, .hold = hold_on(reply->body)};
}

}  // namespace

NamespaceReading::NamespaceReading(Surroundings& surroundings, const PassContext& context,
                                   std::shared_ptr<Authority> authority,
                                   std::function<void()> arrived)
    : around_(surroundings),
      context_(context),
      authority_(std::move(authority)),
      arrived_(std::move(arrived)) {}

Duration NamespaceReading::freshness() const {
  return std::max(kHoldFreshness,
                  std::min(kHoldLifetime, around_.in_force.leadership.limits().reading));
}

bool NamespaceReading::is_younger(const Namespace& space, Duration age) const {
  const auto known = authority_->namespaces.find(space);
  return known != authority_->namespaces.end() &&
         around_.access.loop.now() - known->second.sent <= age;
}

void NamespaceReading::forget_old() {
  std::erase_if(authority_->namespaces, [this](const auto& known) {
    return around_.access.loop.now() - known.second.sent > freshness();
  });
}

void NamespaceReading::refresh(const Namespace& space) {
  if (!is_younger(space, freshness() / 2)) {
    read(space);
  }
}

bool NamespaceReading::ask(const Namespace& space) {
  if (!is_younger(space, freshness())) {
    read(space);
  }
  return !calls_.contains(space);
}

void NamespaceReading::read(const Namespace& space) {
  const Moment now = around_.access.loop.now();
  if (!calls_.contains(space) && is_dns_label(space.text())) {
    calls_[space] = around_.access.reader.get(
        "/api/v1/namespaces/" + space.text(),
        [this, space, now](const Result<kube::ApiReply>& reply) { arrived(space, now, reply); });
  }
}

void NamespaceReading::arrived(const Namespace& space, Moment sent,
                               const Result<kube::ApiReply>& reply) {
  NamespaceWord word = word_of(space, reply);
  word.sent = sent;
  if (!word.known) {
    word.sent = around_.access.loop.now();  // not asked again in this pass
    around_.output.log.warning("namespace_unreadable", {{"incident", context_.incident.text()},
                                                        {"namespace", space.text()},
                                                        {"error", word.error}});
  }
  authority_->namespaces.insert_or_assign(space, std::move(word));
  // The callback may end us.
  const kube::CallHandle over = std::move(calls_[space]);
  calls_.erase(space);
  arrived_();
}

}  // namespace moonfence::fence
