#pragma once

// Webhook tells a receiver outside the cluster of incidents (docs/webhook.md): what is told is
// IncidentNews', in which form incident_event.h's, how it is signed signature.h's, and how it gets
// there app/delivery's. It only tells: nothing waits for it, and nothing is decided by it.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/delivery/delivery.h"
#include "app/settings/settings.h"
#include "app/status/status_snapshot.h"
#include "app/webhook/incident_news.h"
#include "audit/trail.h"
#include "base/time.h"
#include "cluster/endpoints/endpoint_sender.h"
#include "fence/record/incident_record.h"
#include "policy/bundle/policy_set.h"
#include "port/files.h"
#include "port/log.h"
#include "port/random.h"

namespace moonfence::app {

class Webhook {
 public:
  struct Surroundings {
    cluster::Endpoints::Surroundings endpoints;
    port::Random& random;
    std::function<WallTime()> now;
    std::function<bool()> may_send;   // we lead
    std::function<bool()> is_acting;  // calls that act are under way
  };

  // All that is referred to must outlive it. Nothing happens before lead(). `source`: which cluster
  // tells it, where the setting does not say.
  Webhook(const Surroundings& around, const WebhookSetting& setting, const std::string& source);
  Webhook(const Webhook&) = delete;
  Webhook& operator=(const Webhook&) = delete;

  void lead();
  void step_down();
  // A record of an earlier leader; before its incident goes on.
  void recall(const fence::IncidentRecord& record);
  void hear(const audit::Record& record);
  // Once a second, with the newest snapshot of the status page.
  void look(const StatusSnapshot& snapshot, const policy::PolicySet& policies);

  [[nodiscard]] const Delivery& delivery() const { return delivery_; }
  // Delivery's, or what is wrong with the signing secret. It is read once a minute, so that this
  // is known before the first incident. "" when all is well.
  [[nodiscard]] std::string problem() const;

 private:
  void check_secret();
  void tell(const IncidentEvent& event);
  [[nodiscard]] Result<std::vector<port::Header>> stamp(const Delivery::Message& message) const;

  loop::Loop& loop_;
  port::Files& files_;
  port::Log& log_;
  const std::function<WallTime()> now_;
  const WebhookSetting setting_;
  const std::string source_;
  bool leads_ = false;
  std::string fault_;                  // of the secret
  Moment checked_{};                   // when it was last read for that
  std::optional<WallTime> looked_at_;  // when the snapshot was taken
  cluster::EndpointSender sender_;
  Delivery delivery_;
  IncidentNews news_;
};

}  // namespace moonfence::app
