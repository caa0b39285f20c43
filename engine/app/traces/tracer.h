#pragma once

// Tracer tells a receiver of OpenTelemetry traces (OTLP over HTTP, docs/traces.md) of incidents:
// each is one trace, made of the audit's records by IncidentTrace. Spans are sent when they have
// ended, two seconds after the first of them or when a request is full. app/delivery sends them, so
// nothing waits for it, and nothing is decided by it.
//
// A replica that does not act any more still sends what it has: spans say what it did itself, and
// no other replica sends those. What a process that was killed had not sent is not told.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/delivery/delivery.h"
#include "app/settings/settings.h"
#include "app/traces/incident_trace.h"
#include "app/traces/span.h"
#include "audit/trail.h"
#include "base/names.h"
#include "base/time.h"
#include "cluster/endpoints/endpoint_sender.h"
#include "fence/record/journal.h"
#include "loop/loop.h"
#include "port/log.h"
#include "port/random.h"

namespace moonfence::app {

class Tracer {
 public:
  // Spans wait for others for so long.
  static constexpr Duration kGather = std::chrono::seconds(2);
  // Of more incidents at once no traces are made; see untraced().
  static constexpr std::size_t kMostIncidents = 1'000;

  struct Surroundings {
    cluster::Endpoints::Surroundings endpoints;
    port::Random& random;
    std::function<bool()> is_acting;  // calls that act are under way
  };
  // Who tells it.
  struct Identity {
    std::string space;     // the engine's namespace
    std::string instance;  // our name among the replicas
    std::string version;
    std::string run;  // of this process, never the same twice
  };

  // All that is referred to must outlive it.
  Tracer(const Surroundings& around, const TracesSetting& setting, const Identity& identity);
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  // All records that stand, when we begin to lead; before their incidents go on. `ahead`: of our
  // clock the API server's, zero if they agree. What we had left when the store went back in time
  // and is not among them has ended: its root is sent. A replica that never leads again keeps it.
  void recall(std::span<const fence::Journal::Found> records, Duration ahead);
  // `fell`: when the record's node did, by our clock, if that is known.
  void hear(const audit::Record& record, WallTime at, const std::optional<WallTime>& fell);
  // Sends what was gathered so far.
  void flush();
  // Nothing is left to be sent.
  [[nodiscard]] bool is_idle() const;

  [[nodiscard]] const Delivery& delivery() const { return delivery_; }
  // Spans that the receiver did not keep of requests that it took.
  [[nodiscard]] std::uint64_t rejected() const { return rejected_; }
  // Incidents of which no trace is made, and spans that were left out of ended traces.
  [[nodiscard]] std::uint64_t untraced() const { return untraced_; }
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }

 private:
  // In a turn of its own: whoever tells us of an intent has not sent its call yet.
  void gather(std::size_t before);
  void heard(const nlohmann::json& answer);

  loop::Loop& loop_;
  port::Log& log_;
  const Attributes resource_;
  const std::string version_;
  const std::string run_;
  cluster::EndpointSender sender_;
  Delivery delivery_;
  std::map<IncidentId, IncidentTrace::Earlier> earlier_;         // that others opened
  std::map<IncidentId, std::unique_ptr<IncidentTrace>> traces_;  // of open incidents
  std::map<IncidentId, Span> roots_;                             // see recall()
  std::uint64_t begun_ = 0;
  std::uint64_t rejected_ = 0;
  bool is_rejecting_ = false;  // by its newest answer
  std::uint64_t untraced_ = 0;
  std::uint64_t left_out_ = 0;
  std::vector<Span> ended_;  // that wait for others
  loop::Timer gather_;
};

// What OTLP/HTTP says of an answer that is not 2xx: 429, 502, 503 and 504 may be tried again.
[[nodiscard]] Delivery::Refusal refusal_of_traces(int http_status);

}  // namespace moonfence::app
