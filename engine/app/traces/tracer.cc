#include "app/traces/tracer.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include "app/traces/otlp_json.h"
#include "kube/text/json.h"

namespace moonfence::app {
namespace {

using audit::Record;

Attributes resource_of(const TracesSetting& setting, const Tracer::Identity& identity) {
  Attributes resource = {
      {"service.name", std::string("moonfence")}, {"service.namespace", identity.space},
      {"service.version", identity.version},      {"service.instance.id", identity.run},
      {"k8s.namespace.name", identity.space},     {"k8s.pod.name", identity.instance}};
  if (!setting.cluster.empty()) {
    resource.emplace_back("k8s.cluster.name", setting.cluster);
  }
  return resource;
}

// The path that OTLP/HTTP has for traces, below the receiver's base.
cluster::EndpointRules rules_of(cluster::EndpointRules rules) {
  while (rules.url.ends_with('/')) {
    rules.url.pop_back();
  }
  rules.url += "/v1/traces";
  return rules;
}

}  // namespace

Delivery::Refusal refusal_of_traces(int http_status) {
  switch (http_status) {
    case 429:
    case 502:
    case 503:
    case 504:
      return Delivery::Refusal::ForNow;
    default:
      return Delivery::Refusal::OfMessage;
  }
}

Tracer::Tracer(const Surroundings& around, const TracesSetting& setting, const Identity& identity)
    : loop_(around.endpoints.loop),
      log_(around.endpoints.log),
      resource_(resource_of(setting, identity)),
      version_(identity.version),
      run_(identity.run),
      sender_(around.endpoints, "traces", rules_of(setting.endpoint)),
      delivery_({.loop = loop_,
                 .random = around.random,
                 .log = around.endpoints.log,
                 .sender = sender_,
                 .may_send = {},
                 .is_acting = around.is_acting},
                {.name = "traces",
                 .limits = {.messages = 256,
                            .bytes = std::size_t{4} << 20U,
                            .age = std::chrono::hours(24)},
                 .refusal_of = refusal_of_traces,
                 .tries_of_refused = 1,
                 .heard = [this](const auto& answer) { heard(answer); }}) {
  delivery_.lead();  // see the header: it goes on when somebody else acts
}

void Tracer::recall(std::span<const fence::Journal::Found> records, Duration ahead) {
  // Nothing in a record is trusted: times before 1970 are none.
  const auto ours = [ahead](WallTime time) { return std::max(time, WallTime{}) - ahead; };
  earlier_.clear();
  for (const fence::Journal::Found& found : records) {
    const fence::IncidentRecord& record = found.record;
    roots_.erase(record.id);
    if (record.closed || earlier_.size() >= kMostIncidents) {
      continue;
    }
    IncidentTrace::Earlier earlier = {.opened = ours(record.opened),
                                      .opened_for = record.opened_for};
    if (record.last_sign) {
      earlier.last_sign = ours(*record.last_sign);
    }
    earlier_.insert_or_assign(record.id, earlier);
  }
  const std::size_t before = ended_.size();
  for (auto& [id, root] : roots_) {
    ended_.push_back(std::move(root));
  }
  roots_.clear();
  gather(before);
}

void Tracer::hear(const Record& record, WallTime at, const std::optional<WallTime>& fell) {
  if (record.incident.empty()) {
    return;
  }
  auto trace = traces_.find(record.incident);
  if (trace == traces_.end()) {
    // What follows the end of an incident is not part of it. One that ends and was never opened
    // here was left behind by an earlier leader, or there was no room when it was opened.
    const bool begins =
        record.kind == Record::Kind::IncidentOpened ||
        (record.kind == Record::Kind::IncidentClosed && earlier_.contains(record.incident));
    if (!begins) {
      return;
    }
    IncidentTrace::Beginning beginning = {.fell = fell};
    if (const auto known = earlier_.extract(record.incident)) {
      beginning.earlier = known.mapped();
    }
    if (traces_.size() >= kMostIncidents) {
      if (untraced_++ == 0) {
        log_.warning("traces_left_out",
                     {{"incident", record.incident.text()},
                      {"text", "more than " + std::to_string(kMostIncidents) +
                                   " incidents at once: no trace is made of this one and others"}});
      }
      return;
    }
    trace = traces_
                .emplace(record.incident,
                         std::make_unique<IncidentTrace>(record, at, beginning,
                                                         run_ + "/" + std::to_string(++begun_)))
                .first;
  }
  const std::size_t before = ended_.size();
  trace->second->hear(record, at, ended_);
  if (trace->second->is_closed()) {
    left_out_ += trace->second->left_out();
    auto root = trace->second->take_root();
    if (root && roots_.size() < kMostIncidents) {
      roots_.insert_or_assign(record.incident, *std::move(root));
    }
    traces_.erase(trace);
  }
  gather(before);
}

void Tracer::gather(std::size_t before) {
  constexpr std::size_t kFull = OtlpLimits{}.spans;
  if (ended_.size() >= kFull && before < kFull) {
    gather_ = loop_.after(Duration::zero(), [this] { flush(); });
  } else if (!ended_.empty() && !gather_.pending()) {
    gather_ = loop_.after(kGather, [this] { flush(); });
  }
}

void Tracer::flush() {
  gather_.cancel();
  OtlpRequests requests = otlp_requests(resource_, version_, ended_);
  left_out_ += requests.left_out;
  for (std::string& body : requests.bodies) {
    delivery_.add({.id = {}, .body = std::move(body), .content_type = "application/json"});
  }
  ended_.clear();
}

// ExportTracePartialSuccess: never sent again. Its words are not ours to repeat.
void Tracer::heard(const nlohmann::json& answer) {
  kube::Fields fields(answer);
  std::int64_t number = fields.integer({"partialSuccess", "rejectedSpans"});
  if (number == 0) {  // 64 bits may be text
    const std::string told = fields.string({"partialSuccess", "rejectedSpans"});
    std::from_chars(told.data(), told.data() + told.size(), number);
  }
  const bool was_rejecting = std::exchange(is_rejecting_, number > 0);
  if (number <= 0) {
    return;
  }
  if (!was_rejecting) {
    log_.warning("traces_rejected",
                 {{"spans", std::to_string(number)},
                  {"text", "the receiver took a request and not all its spans"}});
  }
  rejected_ += std::min<std::uint64_t>(static_cast<std::uint64_t>(number), OtlpLimits{}.spans);
}

bool Tracer::is_idle() const {
  return ended_.empty() && delivery_.counts().waiting == 0;
}

}  // namespace moonfence::app
