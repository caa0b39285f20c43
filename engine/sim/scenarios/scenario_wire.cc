#include "sim/scenarios/scenario_wire.h"

#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "loop/loop.h"

namespace moonfence::sim {
namespace {

constexpr Duration kAnswerTime = std::chrono::milliseconds(1);

bool matches(const RequestPattern& pattern, const SeenRequest& request) {
  using Verb = RequestPattern::Verb;
  const std::string_view verb = pattern.verb == Verb::List     ? "LIST"
                                : pattern.verb == Verb::Delete ? "DELETE"
                                                               : "GET";
  const bool of_lease = request.path.find("/leases/") != std::string::npos;
  return request.verb == verb && of_lease == (pattern.verb == Verb::Lease) &&
         !request.subject.empty() && matches_subject(pattern.subject, request.subject);
}

std::string status_body(int code) {
  const std::string_view reason = code == 403   ? "Forbidden"
                                  : code == 404 ? "NotFound"
                                  : code == 409 ? "Conflict"
                                  : code == 429 ? "TooManyRequests"
                                  : code == 503 ? "ServiceUnavailable"
                                                : "InternalError";
  return nlohmann::json{{"apiVersion", "v1"},
                        {"kind", "Status"},
                        {"status", "Failure"},
                        {"reason", reason},
                        {"message", "the scenario answers " + std::to_string(code)},
                        {"code", code}}
      .dump();
}

// A reply that never reached the cluster, or that never reached the engine.
class OwnAnswer final : public port::Transfer {
 public:
  OwnAnswer(loop::Loop& loop, port::HttpRequest request, int status, port::HttpSink& sink)
      : request_(std::move(request)), status_(status), sink_(sink) {
    timer_ = loop.after(kAnswerTime, [this] { answer(); });
  }

 private:
  void answer() {
    port::HttpSink& sink = sink_;  // may end us
    if (request_.may_send && !request_.may_send()) {
      sink.on_end({.error = Error{.kind = Error::Kind::Cancelled,
                                  .text = "the request was not allowed to be sent"}});
      return;
    }
    sink.on_head({.status = status_, .headers = {{"content-type", "application/json"}}});
    sink.on_body(status_body(status_));
    sink.on_end({.error = std::nullopt, .sent = true});
  }

  port::HttpRequest request_;
  int status_;
  port::HttpSink& sink_;
  loop::Timer timer_;
};

// Stands between a transfer and whoever hears it.
class Listening final : public port::Transfer, public port::HttpSink {
 public:
  Listening(port::HttpSink& sink, bool lost, std::function<void()> answered)
      : sink_(sink), lost_(lost), answered_(std::move(answered)) {}

  void start(port::Http& http, port::HttpRequest request) {
    inner_ = http.start(std::move(request), *this);
  }

  void on_head(const port::HttpHead& head) override {
    if (answered_) {
      std::exchange(answered_, nullptr)();
    }
    if (!lost_) {
      sink_.on_head(head);
    }
  }
  void on_body(std::string_view bytes) override {
    if (!lost_) {
      sink_.on_body(bytes);
    }
  }
  void on_end(const port::HttpEnd& end) override {
    if (lost_ && !end.error) {
      sink_.on_end({.error = Error{.kind = Error::Kind::Retryable,
                                   .text = "connection reset: the scenario loses the reply"},
                    .sent = true});
      return;
    }
    sink_.on_end(end);
  }

 private:
  port::HttpSink& sink_;
  bool lost_;
  std::function<void()> answered_;
  std::unique_ptr<port::Transfer> inner_;
};

// The path below the version: "namespaces/x/pods/y".
std::string_view resource_path(std::string_view path) {
  for (const std::string_view root : {"/api/v1/", "/apis/"}) {
    if (path.starts_with(root)) {
      path.remove_prefix(root.size());
      return path;
    }
  }
  return path;
}

}  // namespace

SeenRequest describe_request(port::Method method, std::string_view url) {
  SeenRequest seen{.verb = std::string(port::to_string(method))};
  const std::size_t scheme = url.find("://");
  const std::size_t slash = url.find('/', scheme == std::string_view::npos ? 0 : scheme + 3);
  const std::string_view target = slash == std::string_view::npos ? "/" : url.substr(slash);
  seen.path = target;
  const std::size_t question = target.find('?');
  const std::string_view query =
      question == std::string_view::npos ? std::string_view() : target.substr(question + 1);
  const auto parts = split(resource_path(target.substr(0, question)), '/');
  const bool named = parts.size() % 2 == 0;
  if (method == port::Method::Get && !named) {
    const bool watch = query.find("watch=true") != std::string_view::npos ||
                       query.find("watch=1") != std::string_view::npos;
    seen.verb = watch ? "WATCH" : "LIST";
  }
  if (parts.size() == 4 && parts[0] == "namespaces" && parts[2] == "pods") {
    seen.subject = parts[1];
    seen.subject += "/";
    seen.subject += parts[3];
  } else if (parts.size() == 2 && parts[0] == "nodes") {
    seen.subject = parts[1];
  } else if (parts.size() == 6 && parts[3] == "kube-node-lease") {
    seen.subject = parts[5];
  } else if (seen.verb == "LIST" && parts.back() == "pods") {
    static constexpr std::string_view kNode = "spec.nodeName%3D";
    const std::size_t at = query.find(kNode);
    if (at != std::string_view::npos) {
      const std::string_view rest = query.substr(at + kNode.size());
      seen.subject = rest.substr(0, rest.find_first_of("&%,"));
    }
  }
  return seen;
}

// What one replica has for a network.
class ScenarioWire::Line final : public port::Http {
 public:
  Line(ScenarioWire& wire, const ReplicaSurroundings& around) : wire_(wire), around_(around) {}

  [[nodiscard]] std::unique_ptr<port::Transfer> start(port::HttpRequest request,
                                                      port::HttpSink& sink) override {
    SeenRequest seen = describe_request(request.method, request.url);
    seen.replica = around_.name;
    seen.at = wire_.world_.elapsed();
    Fate fate = wire_.see(std::move(seen));
    if (fate.answer != nullptr && fate.answer->status != 0) {
      return std::make_unique<OwnAnswer>(around_.loop, std::move(request), fate.answer->status,
                                         sink);
    }
    if (fate.answer == nullptr && fate.when_answered.empty()) {
      return around_.http.start(std::move(request), sink);
    }
    auto listening = std::make_unique<Listening>(
        sink, fate.answer != nullptr, [&world = wire_.world_, steps = fate.when_answered] {
          for (const Step* step : steps) {
            world.perform(*step);
          }
        });
    listening->start(around_.http, std::move(request));
    return listening;
  }
  void use_tls(port::TlsSettings settings) override { around_.http.use_tls(std::move(settings)); }
  void drop_connections() override { around_.http.drop_connections(); }

 private:
  ScenarioWire& wire_;
  ReplicaSurroundings around_;
};

class ScenarioWire::Wrapped final : public Replica {
 public:
  Wrapped(ScenarioWire& wire, const ReplicaFactory& make, const ReplicaSurroundings& around)
      : line_(wire, around) {
    const ReplicaSurroundings inner{around.loop,      line_,
                                    around.links,     around.files,
                                    around.processes, around.wall_clock,
                                    around.cpu_clock, around.random,
                                    around.log,       around.append_audit,
                                    around.name,      around.server,
                                    around.node,      around.address};
    replica_ = make(inner);
  }
  void start() override { replica_->start(); }
  void drain(std::function<void()> left) override { replica_->drain(std::move(left)); }
  std::optional<std::string> answer(std::string_view path, Moment now) override {
    return replica_->answer(path, now);
  }

 private:
  Line line_;
  std::unique_ptr<Replica> replica_;
};

ScenarioWire::ScenarioWire(const Scenario& scenario, World world)
    : scenario_(scenario),
      world_(std::move(world)),
      answered_(scenario.answers.size()),
      fired_(scenario.triggers.size()) {}

ReplicaFactory ScenarioWire::wrap(ReplicaFactory inner) {
  return [this, inner = std::move(inner)](const ReplicaSurroundings& around) {
    return std::make_unique<Wrapped>(*this, inner, around);
  };
}

ScenarioWire::Fate ScenarioWire::see(SeenRequest request) {
  Fate fate;
  for (std::size_t i = 0; i < scenario_.triggers.size(); ++i) {
    const Trigger& trigger = scenario_.triggers[i];
    if (fired_[i] || !matches(trigger.pattern, request)) {
      continue;
    }
    fired_[i] = true;
    if (trigger.pattern.verb == RequestPattern::Verb::List) {
      fate.when_answered.push_back(&trigger.step);
    } else {
      world_.perform(trigger.step);
    }
  }
  for (std::size_t i = 0; i < scenario_.answers.size() && fate.answer == nullptr; ++i) {
    const AnswerRule& rule = scenario_.answers[i];
    const bool now = request.at >= rule.from && request.at < rule.until &&
                     (rule.times < 0 || answered_[i] < rule.times);
    if (now && matches(rule.pattern, request)) {
      ++answered_[i];
      fate.answer = &rule;
    }
  }
  seen_.push_back(std::move(request));
  return fate;
}

}  // namespace moonfence::sim
