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

void Tracer::recall(const fence::IncidentRecord& record, Duration ahead) {
  if (!record.closed && earlier_.size() < kMostIncidents) {
    earlier_.insert_or_assign(record.id, std::pair(record.opened - ahead, record.opened_for));
  }
}

void Tracer::hear(const Record& record, WallTime at, const std::optional<WallTime>& fell) {
  if (record.incident.empty()) {
    return;
  }
  auto trace = traces_.find(record.incident);
  if (trace == traces_.end()) {
    // What follows the end of an incident is not part of it. One that ends and was never opened
    // here was left behind by an earlier leader.
    const bool begins =
        record.kind == Record::Kind::IncidentOpened || record.kind == Record::Kind::IncidentClosed;
    if (!begins || traces_.size() >= kMostIncidents) {
      return;
    }
    IncidentTrace::Beginning beginning = {.fell = fell};
    if (const auto known = earlier_.extract(record.incident)) {
      beginning.earlier = known.mapped();
    }
    trace = traces_
                .emplace(record.incident,
                         std::make_unique<IncidentTrace>(record, at, beginning,
                                                         run_ + "/" + std::to_string(++begun_)))
                .first;
  }
  trace->second->hear(record, at, ended_);
  if (trace->second->is_closed()) {
    traces_.erase(trace);
  }
  if (ended_.size() >= OtlpLimits{}.spans) {
    flush();
  } else if (!ended_.empty() && !gather_.pending()) {
    gather_ = loop_.after(kGather, [this] { flush(); });
  }
}

void Tracer::flush() {
  gather_.cancel();
  for (std::string& body : otlp_requests(resource_, version_, ended_)) {
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
  if (number <= 0) {
    return;
  }
  if (rejected_ == 0) {
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
