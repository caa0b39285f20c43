#include "fence/namespace_reading.h"

#include <utility>

#include "base/text.h"
#include "fence/holds.h"
#include "kube/json.h"

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

NamespaceReading::NamespaceReading(Surroundings& surroundings, const Occasion& occasion,
                                   std::shared_ptr<Authority> authority,
                                   std::function<void()> arrived)
    : around_(surroundings),
      occasion_(occasion),
      authority_(std::move(authority)),
      arrived_(std::move(arrived)) {}

void NamespaceReading::forget_old() {
  std::erase_if(authority_->namespaces, [now = around_.loop.now()](const auto& known) {
    return now - known.second.sent > kHoldFreshness;
  });
}

bool NamespaceReading::ask(const Namespace& space) {
  const Moment now = around_.loop.now();
  const auto known = authority_->namespaces.find(space);
  if (known != authority_->namespaces.end() && now - known->second.sent <= kHoldFreshness) {
    return true;
  }
  if (!calls_.contains(space) && is_dns_label(space.text())) {
    calls_[space] = around_.reader.get(
        "/api/v1/namespaces/" + space.text(),
        [this, space, now](const Result<kube::ApiReply>& reply) { arrived(space, now, reply); });
  }
  return !calls_.contains(space);
}

void NamespaceReading::arrived(const Namespace& space, Moment sent,
                               const Result<kube::ApiReply>& reply) {
  NamespaceWord word = word_of(space, reply);
  word.sent = sent;
  if (!word.known) {
    word.sent = around_.loop.now();  // not asked again in this pass
    around_.log.warning("namespace_unreadable", {{"incident", occasion_.incident.text()},
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
