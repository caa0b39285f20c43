#include "app/webhook/webhook.h"

#include <algorithm>
#include <utility>

#include "app/webhook/signature.h"

namespace moonfence::app {
namespace {

constexpr const char* kName = "webhook";

constexpr Duration kCheckEvery = std::chrono::minutes(1);

// Standard Webhooks: whatever is not 2xx is tried again, and 410 wants no more. What the receiver
// will not read in any try must not hold up what comes after it. Of 400 and the like nobody knows:
// it is what many receivers answer to a signature by another secret, which somebody will put right.
Delivery::Refusal refusal_of(int http_status) {
  switch (http_status) {
    case 410:
      return Delivery::Refusal::ForEver;
    case 413:
    case 415:
    case 422:
      return Delivery::Refusal::OfMessage;
    case 401:
    case 403:
    case 408:
    case 429:
      return Delivery::Refusal::ForNow;
    default:
      return http_status >= 400 && http_status < 500 ? Delivery::Refusal::StepOver
                                                     : Delivery::Refusal::ForNow;
  }
}

}  // namespace

Webhook::Webhook(const Surroundings& around, const WebhookSetting& setting,
                 const std::string& source)
    : loop_(around.endpoints.loop),
      files_(around.endpoints.files),
      log_(around.endpoints.log),
      now_(around.now),
      setting_(setting),
      source_(setting.source.empty() ? source : setting.source),
      sender_(around.endpoints, kName, setting.endpoint),
      delivery_({.loop = around.endpoints.loop,
                 .random = around.random,
                 .log = around.endpoints.log,
                 .sender = sender_,
                 .may_send = around.may_send,
                 .is_acting = around.is_acting},
                {.name = kName,
                 .refusal_of = refusal_of,
                 .stamp = [this](const Delivery::Message& message) { return stamp(message); }}),
      news_([this](const IncidentEvent& event) { tell(event); }) {}

void Webhook::lead() {
  leads_ = true;
  news_.forget();
  delivery_.lead();
  check_secret();
}

void Webhook::step_down() {
  leads_ = false;
  news_.forget();
  delivery_.step_down();
  fault_.clear();
}

void Webhook::recall(const fence::IncidentRecord& record) {
  if (leads_) {
    news_.recall(record, now_());
  }
}

void Webhook::hear(const audit::Record& record) {
  if (leads_) {
    news_.hear(record, now_());
  }
}

void Webhook::look(const StatusSnapshot& snapshot, const policy::PolicySet& policies) {
  if (leads_ && loop_.now() - checked_ >= kCheckEvery) {
    check_secret();
  }
  // What was heard since may not stand in one that we have seen.
  if (leads_ && std::exchange(looked_at_, snapshot.taken) != snapshot.taken) {
    const bool enforces =
        std::any_of(policies.bindings.begin(), policies.bindings.end(),
                    [](const auto& binding) { return binding.mode == policy::Mode::Enforce; });
    news_.look(snapshot, enforces, loop_.now(), now_());
  }
}

void Webhook::tell(const IncidentEvent& event) {
  if (setting_.events.contains(event.phase)) {
    delivery_.add({.id = id_of(event),
                   .body = cloud_event(event, source_),
                   .content_type = std::string(kEventType),
                   .matters = event.phase == IncidentPhase::Attention ||
                              event.phase == IncidentPhase::Settled});
  }
}

std::string Webhook::problem() const {
  const std::string problem = delivery_.problem();
  return problem.empty() ? fault_ : problem;
}

void Webhook::check_secret() {
  checked_ = loop_.now();
  const auto secrets = read_signing_secrets(files_, setting_.secret_file);
  const std::string was = std::exchange(
      fault_, secrets ? std::string() : Error(secrets.error()).within(kName).message());
  if (was.empty() && !fault_.empty()) {
    log_.warning("webhook_unfit", {{"text", fault_}});
  }
}

Result<std::vector<port::Header>> Webhook::stamp(const Delivery::Message& message) const {
  const auto secrets = read_signing_secrets(files_, setting_.secret_file);
  if (!secrets) {
    return failure(secrets.error());
  }
  return webhook_headers(*secrets, message.id, now_(), message.body);
}

}  // namespace moonfence::app
