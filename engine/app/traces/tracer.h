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
#include <string>
#include <utility>
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
#include "fence/record/incident_record.h"
#include "loop/loop.h"
#include "port/log.h"
#include "port/random.h"

namespace moonfence::app {

class Tracer {
 public:
  // Spans wait for others for so long.
  static constexpr Duration kGather = std::chrono::seconds(2);
  // Of more incidents at once no traces are made.
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

  // A record of an earlier leader; before its incident goes on. `ahead`: of our clock the API
  // server's, zero if they agree.
  void recall(const fence::IncidentRecord& record, Duration ahead);
  // `fell`: when the record's node did, by our clock, if that is known.
  void hear(const audit::Record& record, WallTime at, const std::optional<WallTime>& fell);
  // Sends what was gathered so far.
  void flush();
  // Nothing is left to be sent.
  [[nodiscard]] bool is_idle() const;

  [[nodiscard]] const Delivery& delivery() const { return delivery_; }
  // Spans that the receiver did not keep of requests that it took.
  [[nodiscard]] std::uint64_t rejected() const { return rejected_; }

 private:
  void heard(const nlohmann::json& answer);

  loop::Loop& loop_;
  port::Log& log_;
  const Attributes resource_;
  const std::string version_;
  const std::string run_;
  cluster::EndpointSender sender_;
  Delivery delivery_;
  std::map<IncidentId, std::pair<WallTime, audit::Reason>> earlier_;  // that others opened
  std::map<IncidentId, std::unique_ptr<IncidentTrace>> traces_;       // of open incidents
  std::uint64_t begun_ = 0;
  std::uint64_t rejected_ = 0;
  std::vector<Span> ended_;  // that wait for others
  loop::Timer gather_;
};

// What OTLP/HTTP says of an answer that is not 2xx: 429, 502, 503 and 504 may be tried again.
[[nodiscard]] Delivery::Refusal refusal_of_traces(int http_status);

}  // namespace moonfence::app
