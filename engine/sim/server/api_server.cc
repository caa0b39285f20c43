#include "sim/server/api_server.h"

#include <array>
#include <cstdio>
#include <utility>

#include "sim/server/answers.h"
#include "sim/server/reads.h"
#include "sim/server/server_state.h"
#include "sim/server/target.h"
#include "sim/server/writes.h"
#include "sim/store/fields.h"
#include "sim/store/refusals.h"

namespace moonfence::sim {
namespace {

constexpr const char* kPriorityLevel = "7a6e593d-2189-41fd-b04d-20e539e2c5e8";

Json version_of(int kubernetes) {
  const std::string minor = std::to_string(kubernetes);
  return {{"major", "1"},
          {"minor", minor},
          {"gitVersion", "v1." + minor + (kubernetes == 20 ? ".2" : ".0")},
          {"platform", "linux/amd64"}};
}

bool is_health(const Target& target) {
  return !target.segments.empty() &&
         (target.segments[0] == "livez" || target.segments[0] == "readyz" ||
          target.segments[0] == "healthz");
}

bool is_collection(const Route& route) {
  return route.name.empty();
}

// As RBAC names what is done.
std::string_view verb_of(const ServerRequest& request, const Route& route, const Target& target) {
  using port::Method;
  switch (request.method) {
    case Method::Get:
      if (!is_collection(route)) {
        return "get";
      }
      return target.flag("watch") ? "watch" : "list";
    case Method::Post:
      return "create";
    case Method::Put:
      return "update";
    case Method::Patch:
      return "patch";
    case Method::Delete:
      return is_collection(route) ? "deletecollection" : "delete";
  }
  return "get";
}

bool wants_metadata_only(const ServerRequest& request) {
  return std::any_of(
      request.headers.begin(), request.headers.end(), [](const port::Header& header) {
        return header.name == "accept" &&
               header.value.find("as=PartialObjectMetadataList;") != std::string::npos;
      });
}

// "/api/v1/nodes/NAME/proxy/…"
bool is_for_kubelet(const Target& target) {
  const auto& segments = target.segments;
  return segments.size() > 5 && segments[0] == "api" && segments[1] == "v1" &&
         segments[2] == "nodes" && segments[4] == "proxy";
}

ServerAnswer unknown_path(const Target& target) {
  // A known group says so in a Status, anything else in plain text.
  const auto& segments = target.segments;
  const bool core = !segments.empty() && segments[0] == "api";
  const std::size_t at = core ? 1 : 2;  // of the version
  if (segments.size() > at + 1 && (core || segments[0] == "apis")) {
    for (const ResourceKind& kind : all_kinds()) {
      if (kind.group == (core ? "" : segments[1]) && kind.version == segments[at]) {
        return refusal_answer(unknown_resource());
      }
    }
  }
  return text_answer(404, "404 page not found\n");
}

ApiFault forbidden(const Route& route, const std::string& why) {
  std::string what(route.kind->resource);
  if (!route.kind->group.empty()) {
    what += '.';
    what += route.kind->group;
  }
  if (!route.name.empty()) {
    what += " \"" + route.name + "\"";
  }
  ApiFault out{.code = 403,
               .reason = "Forbidden",
               .message = what + " is forbidden: " + why,
               .details = {{"kind", route.kind->resource}}};
  if (!route.kind->group.empty()) {
    out.details["group"] = route.kind->group;
  }
  if (!route.name.empty()) {
    out.details["name"] = route.name;
  }
  return out;
}

ApiFault not_allowed() {
  return {.code = 405,
          .reason = "MethodNotAllowed",
          .message = "the server does not allow this method on the requested resource",
          .details = Json::object()};
}

}  // namespace

struct ApiServer::State : ServerState {
  State(loop::Loop& loop_given, ObjectStore& store_given, port::Random& random_given,
        std::function<WallTime()> now_given, ServerRules rules_given)
      : ServerState(loop_given, store_given, random_given, std::move(rules_given)),
        now(std::move(now_given)) {}

  ServerAnswer answer(const ServerRequest& request, WatchSink* sink) {
    if (request.rejected) {
      return refusal_answer({.code = 401, .reason = "Unauthorized", .message = "Unauthorized"});
    }
    const Target target = parse_target(request.target);
    if (is_health(target)) {
      return text_answer(200, "ok");
    }
    if (target.path == "/version") {
      return json_answer(200, version_of(rules.kubernetes).dump());
    }
    if (draw(mood.too_many)) {
      ServerAnswer answer = text_answer(429, "Too many requests, please try again later.\n");
      answer.headers.push_back({"retry-after", "1"});
      return answer;
    }
    if (draw(mood.internal)) {
      return refusal_answer({.code = 500,
                             .reason = "InternalError",
                             .message = "Internal error occurred: simulated",
                             .details = {{"causes", {{{"message", "simulated"}}}}}});
    }
    if (is_for_kubelet(target) && request.method == port::Method::Get && rules.kubelet) {
      return relay(request, target);
    }
    const auto route = find_route(target);
    if (!route) {
      return unknown_path(target);
    }
    if (rules.authorize) {
      std::string resource(route->kind->resource);
      if (!route->subresource.empty()) {
        resource += "/" + route->subresource;
      }
      std::string message =
          rules.authorize(request.user, verb_of(request, *route, target), resource, route->space);
      if (!message.empty()) {
        return refusal_answer(forbidden(*route, message));
      }
    }
    return request.method == port::Method::Get ? read(*route, target, request, sink)
                                               : write(*route, target, request);
  }

  // Whoever may ask one kubelet anything may ask it everything.
  ServerAnswer relay(const ServerRequest& request, const Target& target) {
    const Route node = {.kind = find_kind("nodes"),
                        .version = "v1",
                        .space = {},
                        .name = target.segments[3],
                        .subresource = {}};
    if (rules.authorize) {
      std::string message = rules.authorize(request.user, "get", "nodes/proxy", {});
      if (!message.empty()) {
        return refusal_answer(forbidden(node, message));
      }
    }
    if (store.find(node.key()) == nullptr) {
      return answer_get(*this, node, target);
    }
    constexpr std::string_view kProxy = "/proxy";
    return rules.kubelet(
        node.name, std::string_view(target.path).substr(target.path.find(kProxy) + kProxy.size()));
  }

  ServerAnswer read(const Route& route, const Target& target, const ServerRequest& request,
                    WatchSink* sink) {
    if (!is_collection(route)) {
      auto hidden_away = hidden_answer(hidden, route, loop.now());
      return hidden_away ? *std::move(hidden_away) : answer_get(*this, route, target);
    }
    return target.flag("watch") ? answer_watch(*this, route, target, sink)
                                : answer_list(*this, route, target, wants_metadata_only(request));
  }

  ServerAnswer write(const Route& route, const Target& target, const ServerRequest& request) {
    using port::Method;
    const bool to_collection = request.method == Method::Post;
    if (to_collection != is_collection(route) ||
        (to_collection && route.kind->namespaced && route.space.empty()) ||
        (request.method == Method::Delete && !route.subresource.empty())) {
      return refusal_answer(not_allowed());
    }
    if (auto refused = refused_write(refusals, route, request.method, loop.now())) {
      return *std::move(refused);
    }
    writer = &request.user;
    written = route.key();
    committed.reset();
    ServerAnswer answer = perform(route, target, request);
    writer = nullptr;
    if (committed && draw(mood.internal_after_commit)) {
      answer = lost_answer();
    }
    answer.committed = std::exchange(committed, std::nullopt);
    return answer;
  }

  ServerAnswer perform(const Route& route, const Target& target, const ServerRequest& request) {
    switch (request.method) {
      case port::Method::Post:
        return answer_create(*this, route, target, request);
      case port::Method::Put:
        return answer_replace(*this, route, target, request);
      case port::Method::Patch:
        return answer_patch(*this, route, target, request);
      case port::Method::Delete:
        return answer_delete(*this, route, target, request);
      case port::Method::Get:
        break;
    }
    return refusal_answer(not_allowed());
  }

  // What a client sees when the storage has written and the answer got lost behind the server.
  ServerAnswer lost_answer() {
    if (random.unit() < 0.5) {
      return refusal_answer(
          {.code = 500, .reason = "", .message = "etcdserver: request timed out"});
    }
    return refusal_answer({.code = 504,
                           .reason = "Timeout",
                           .message = "Timeout: request did not complete within the requested "
                                      "timeout",
                           .details = Json::object()});
  }

  void take(const Change& change) {
    if (change.restores) {
      return;  // begin_anew() follows
    }
    if (writer != nullptr && change.actor == *writer && change.key.resource == written.resource &&
        (written.name.empty() || change.key == written)) {
      committed = change;
    }
    cache.take(change, mood.cache_lag);
    watches.wake();
  }

  std::string audit_id() {
    std::array<char, 40> text{};
    const std::uint64_t id = random.next();
    std::snprintf(text.data(), text.size(), "%08x-%04x-4000-8000-%012x",
                  static_cast<unsigned>(id >> 32U), static_cast<unsigned>(id >> 16U & 0xFFFFU),
                  static_cast<unsigned>(id & 0xFFFFU));
    return text.data();
  }

  std::function<WallTime()> now;
  // The write under way: whose, and of what.
  const std::string* writer = nullptr;
  Key written;
  std::optional<Change> committed;
};

std::string denial(const std::string& user, std::string_view verb, const std::string& resource,
                   const std::string& space) {
  const ResourceKind* kind = find_kind(std::string_view(resource).substr(0, resource.find('/')));
  std::string text = "User \"" + user + "\" cannot ";
  text += verb;
  text += " resource \"" + resource + "\" in API group \"";
  text += kind == nullptr ? "" : kind->group;
  text += space.empty() ? "\" at the cluster scope" : "\" in the namespace \"" + space + "\"";
  return text;
}

ApiServer::ApiServer(loop::Loop& loop, ObjectStore& store, port::Random& random,
                     std::function<WallTime()> now, ServerRules rules)
    : state_(std::make_shared<State>(loop, store, random, std::move(now), std::move(rules))) {
  store.listen([observer = std::weak_ptr<State>(state_)](const Change& change) {
    if (const auto state = observer.lock()) {
      state->take(change);
    }
  });
}

ApiServer::~ApiServer() = default;

ServerAnswer ApiServer::handle(const ServerRequest& request, WatchSink* sink) {
  ServerAnswer answer = state_->answer(request, sink);
  answer.headers.push_back({"date", format_http_date(state_->now())});
  answer.headers.push_back({"audit-id", state_->audit_id()});
  answer.headers.push_back({"cache-control", "no-cache, private"});
  if (answer.watch == nullptr) {
    // By default since 1.20; a watch does not hold its seat, and is not told (seen on 1.20.2).
    answer.headers.push_back({"x-kubernetes-pf-prioritylevel-uid", kPriorityLevel});
  }
  return answer;
}

void ApiServer::set_mood(const ServerMood& mood) {
  const bool goes_down = mood.down && !state_->mood.down;
  state_->mood = mood;
  if (goes_down) {
    state_->watches.end_all();
  }
}

void ApiServer::refuse_writes(const std::string& what, const std::string& how, Moment until) {
  state_->refusals.push_back({.what = what, .how = how, .until = until});
}

void ApiServer::hide_objects(const std::string& what, Moment until, std::optional<int> times) {
  HiddenObjects hidden = {.what = what, .until = until};
  hidden.times = times.value_or(hidden.times);
  state_->hidden.push_back(std::move(hidden));
}

void ApiServer::end_refusals() {
  state_->refusals.clear();
  state_->hidden.clear();
  state_->watches.end_hushes();
}

void ApiServer::hush_watches(const std::string& what, Moment until) {
  state_->watches.hush(what, until);
}

const ServerMood& ApiServer::mood() const {
  return state_->mood;
}

void ApiServer::restart() {
  state_->cache.catch_up();
  state_->watches.end_all();
}

void ApiServer::begin_anew() {
  state_->cache.catch_up();
  state_->compacted = state_->store.version();
}

void ApiServer::compact() {
  state_->cache.compact();
  state_->compacted = state_->store.version();
}

}  // namespace moonfence::sim
