#include "app/simulate/endpoint_script.h"

#include <algorithm>
#include <array>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "kube/text/json.h"
#include "kube/wire/url.h"
#include "sim/store/object_store.h"

namespace moonfence::app {
namespace {

using nlohmann::json;
using Reply = EndpointScript::Reply;

// There and back in one data center.
constexpr Duration kRoundTrip = std::chrono::milliseconds(5);
constexpr std::string_view kScheme = "http://";
constexpr std::string_view kHostEnd = ".endpoint.sim";
constexpr const char* kForm = R"(write {"http vendor /v2/nodes": {"status": 200, "body": ...}})";

Result<Reply> reply_of(const json& value, const std::string& place) {
  static constexpr std::array<std::string_view, 5> kKeys = {"from", "status", "body", "text",
                                                            "takes"};
  if (!value.is_object()) {
    return failure(Error::Kind::Invalid, place + ": an answer is an object", kForm);
  }
  for (const auto& [key, unused] : value.items()) {
    if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end()) {
      return failure(Error::Kind::Invalid,
                     place + ": unknown key '" + escaped(key, 64) + "'" + did_you_mean(key, kKeys));
    }
  }
  Reply reply;
  const json status = value.value("status", json(200));
  if (!status.is_number_integer() || status < 0 || status > 599) {
    return failure(Error::Kind::Invalid, place + ": status is a number such as 200, 0 for nobody",
                   kForm);
  }
  reply.status = status.get<int>();
  for (const auto& [key, time] :
       {std::pair("from", &reply.from), std::pair("takes", &reply.takes)}) {
    if (value.contains(key)) {
      const json& text = value[key];
      const auto given = text.is_string() ? parse_duration(text.get<std::string>()) : std::nullopt;
      if (!given) {
        return failure(Error::Kind::Invalid, place + ": " + key + " is no time",
                       "write a time, such as 30s");
      }
      *time = *given;
    }
  }
  if (value.contains("text")) {
    if (value.contains("body") || !value["text"].is_string()) {
      return failure(Error::Kind::Invalid, place + ": text is a text that is no JSON",
                     R"(write {"status": 200, "text": "<html>"} without a body)");
    }
    reply.body = value["text"].get<std::string>();
    reply.type = "text/html";
  } else {
    reply.body = reply.status == 0 ? "" : kube::to_text(value.value("body", json()));
  }
  return reply;
}

// "get example.com/v1 clusters shop/db", or "list example.com/v1 clusters shop": its path at the
// API server, "" of what asks an endpoint. Kinds that the simulated cluster has are answered by it.
Result<std::string> path_of(const std::string& request, const std::string& place) {
  const std::vector<std::string_view> words = split(request, ' ');
  const std::string_view verb = words.front();
  if (verb != "get" && verb != "list" && verb != "list-metadata") {
    return std::string();
  }
  const bool one = verb == "get";
  const std::size_t most = 4;
  if (words.size() > most || words.size() < (one ? most : most - 1)) {
    return failure(Error::Kind::Invalid, place + ": this names no object and no list",
                   one ? "write get GROUP/VERSION RESOURCE NAMESPACE/NAME"
                       : "write list GROUP/VERSION RESOURCE NAMESPACE; it answers with any labels");
  }
  if (sim::find_kind(words[2]) != nullptr) {
    return failure(Error::Kind::Invalid,
                   place + ": the simulated cluster has " + std::string(words[2]),
                   "leave it out; steps of the scenario change what is there");
  }
  const std::string_view last = words.size() == most ? words[3] : std::string_view();
  const std::size_t slash = last.find('/');
  const bool has_space = !one || slash != std::string_view::npos;
  const Namespace space(std::string(has_space ? last.substr(0, slash) : std::string_view()));
  auto path =
      one ? kube::object_path(words[1], words[2], space, has_space ? last.substr(slash + 1) : last)
          : kube::objects_path(words[1], words[2], space);
  return path ? path : failure(Error(path.error()).within(place));
}

}  // namespace

Result<std::shared_ptr<EndpointScript>> EndpointScript::parse(const std::string& text,
                                                              const std::string& place) {
  auto script = std::make_shared<EndpointScript>();
  if (trimmed(text).empty()) {
    return script;
  }
  const auto value = kube::parse_json(text);
  if (!value || !value->is_object()) {
    return failure(Error::Kind::Malformed,
                   place + ": " + (value ? "not an object" : value.error().text), kForm);
  }
  for (const auto& [request, given] : value->items()) {
    const std::string here = place + ": " + escaped(request, 128);
    const auto path = path_of(request, here);
    if (!path) {
      return failure(Error(path.error()));
    }
    if (!path->empty()) {
      script->by_path_.emplace(*path, request);
    }
    std::vector<Reply>& replies = script->replies_[request];
    for (const json& each : given.is_array() ? given : json::array({given})) {
      auto reply = reply_of(each, here);
      if (!reply) {
        return failure(std::move(reply.error()));
      }
      if (!path->empty() && reply->status == 404) {
        reply->body = kube::to_text({{"kind", "Status"},
                                     {"apiVersion", "v1"},
                                     {"status", "Failure"},
                                     {"reason", "NotFound"},
                                     {"message", "not found"},
                                     {"code", 404}});
      }
      replies.push_back(std::move(*reply));
    }
    std::stable_sort(replies.begin(), replies.end(),
                     [](const Reply& a, const Reply& b) { return a.from < b.from; });
  }
  return script;
}

const Reply* EndpointScript::reply_to(const std::string& request, Duration elapsed) {
  const auto found = replies_.find(request);
  const Reply* newest = nullptr;
  if (found != replies_.end()) {
    for (const Reply& reply : found->second) {
      newest = reply.from <= elapsed ? &reply : newest;
    }
  }
  if (newest == nullptr) {
    unanswered_.insert(request);
  }
  return newest;
}

const std::string* EndpointScript::request_of(std::string_view path) const {
  const auto found = by_path_.find(path.substr(0, path.find('?')));
  return found == by_path_.end() ? nullptr : &found->second;
}

std::string scripted_url(std::string_view endpoint) {
  return std::string(kScheme) + std::string(endpoint) + std::string(kHostEnd);
}

// One exchange; the script is asked when the request arrives.
class ScriptedEndpoints::Answer final : public port::Transfer {
 public:
  Answer(ScriptedEndpoints& owner, std::string request, Duration timeout, port::HttpSink& sink)
      : owner_(owner), sink_(sink), request_(std::move(request)), timeout_(timeout) {
    timer_ = owner_.loop_.after(kRoundTrip, [this] { arrive(); });
  }

 private:
  void arrive() {
    const Reply* reply = owner_.script_->reply_to(request_, owner_.loop_.now().time_since_epoch());
    const Duration takes = reply == nullptr ? Duration::zero() : reply->takes;
    if (takes == Duration::zero()) {
      deliver(reply);
    } else if (timeout_ > Duration::zero() && kRoundTrip + takes > timeout_) {
      timer_ = owner_.loop_.after(timeout_ - kRoundTrip, [this] {
        sink_.on_end({.error = Error{.kind = Error::Kind::Retryable, .text = "no answer in time"},
                      .sent = true});
      });
    } else {
      timer_ = owner_.loop_.after(takes, [this, reply] { deliver(reply); });
    }
  }

  void deliver(const Reply* reply) {
    if (reply == nullptr || reply->status == 0) {
      sink_.on_end({.error = Error{.kind = Error::Kind::Retryable,
                                   .text = reply == nullptr ? "the scenario has no response to '" +
                                                                  request_ + "'"
                                                            : "cannot connect"},
                    .sent = false});
      return;
    }
    sink_.on_head({.status = reply->status, .headers = {{"content-type", reply->type}}});
    sink_.on_body(reply->body);
    sink_.on_end({.error = std::nullopt, .sent = true});
  }

  ScriptedEndpoints& owner_;
  port::HttpSink& sink_;
  std::string request_;
  Duration timeout_{};
  loop::Timer timer_;
};

ScriptedEndpoints::ScriptedEndpoints(port::Http& others, loop::Loop& loop,
                                     std::shared_ptr<EndpointScript> script)
    : others_(others), loop_(loop), script_(std::move(script)) {}

std::unique_ptr<port::Transfer> ScriptedEndpoints::start(port::HttpRequest request,
                                                         port::HttpSink& sink) {
  const std::string_view url = request.url;
  const std::size_t host = url.find("://") + 3;
  const std::size_t host_end = std::min(url.find('/', host), url.size());
  const std::string_view path = url.substr(host_end);
  if (url.substr(0, host_end).ends_with(kHostEnd)) {
    const std::string name(url.substr(host, host_end - host - kHostEnd.size()));
    return std::make_unique<Answer>(*this, "http " + name + " " + std::string(path),
                                    request.timeout, sink);
  }
  const std::string* scripted =
      request.method == port::Method::Get ? script_->request_of(path) : nullptr;
  return scripted == nullptr ? others_.start(std::move(request), sink)
                             : std::make_unique<Answer>(*this, *scripted, request.timeout, sink);
}

}  // namespace moonfence::app
