#pragma once

// NodeHealthFeed is a HealthSource that also tells by itself what is news, and keeps what it has
// said of every node: a policy's own source (fence/sources/health_source_poll), or what the engine
// has heard of the machines (fence/sources/lost_nodes).

#include <functional>
#include <string>

#include "fence/read/health_source.h"
#include "fence/sources/source_health.h"

namespace moonfence::fence {

class NodeHealthFeed : public HealthSource {
 public:
  // Of a node that is called failed false means that it could not be used yet; it is told again
  // after the next reading, or by tell_again().
  using Tell = std::function<bool(const SourceHealth::News&)>;

  // From nothing: what was known before may be long untrue.
  virtual void start() = 0;
  virtual void stop() = 0;
  virtual void tell_again() = 0;
  // From now on every reading that succeeds is taken to call it failed.
  virtual void suppose_failed(const NodeName& node) = 0;

  [[nodiscard]] virtual const SourceHealth& source_health() const = 0;
  // Whose it is: a policy, or "detection".
  [[nodiscard]] virtual const std::string& origin() const = 0;
  // See SourceState.
  [[nodiscard]] virtual std::string lasting_fault() const = 0;
};

}  // namespace moonfence::fence
