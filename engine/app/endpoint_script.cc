#include "app/endpoint_script.h"

#include <algorithm>
#include <array>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "kube/json.h"

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
  static constexpr std::array<std::string_view, 3> kKeys = {"from", "status", "body"};
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
  if (value.contains("from")) {
    const auto from =
        value["from"].is_string() ? parse_duration(value["from"].get<std::string>()) : std::nullopt;
    if (!from) {
      return failure(Error::Kind::Invalid, place + ": from is no time",
                     "write a time since the start of the run, such as 30s");
    }
    reply.from = *from;
  }
  reply.body = reply.status == 0 ? "" : kube::to_text(value.value("body", json()));
  return reply;
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
    std::vector<Reply>& replies = script->replies_[request];
    for (const json& each : given.is_array() ? given : json::array({given})) {
      auto reply = reply_of(each, here);
      if (!reply) {
        return failure(std::move(reply.error()));
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

std::string scripted_url(std::string_view endpoint) {
  return std::string(kScheme) + std::string(endpoint) + std::string(kHostEnd);
}

// One exchange; the script is asked when the request arrives.
class ScriptedEndpoints::Answer final : public port::Transfer {
 public:
  Answer(ScriptedEndpoints& owner, const port::HttpRequest& request, port::HttpSink& sink)
      : owner_(owner), sink_(sink) {
    const std::string_view rest = std::string_view(request.url).substr(kScheme.size());
    const std::size_t end = rest.find(kHostEnd);
    request_ = "http " + std::string(rest.substr(0, end)) + " " +
               std::string(rest.substr(std::min(end + kHostEnd.size(), rest.size())));
    timer_ = owner_.loop_.after(kRoundTrip, [this] { deliver(); });
  }

 private:
  void deliver() {
    const Reply* reply = owner_.script_->reply_to(request_, owner_.loop_.now().time_since_epoch());
    if (reply == nullptr || reply->status == 0) {
      sink_.on_end({.error = Error{.kind = Error::Kind::Retryable,
                                   .text = reply == nullptr ? "the scenario has no response to '" +
                                                                  request_ + "'"
                                                            : "cannot connect"},
                    .sent = false});
      return;
    }
    sink_.on_head({.status = reply->status, .headers = {{"content-type", "application/json"}}});
    sink_.on_body(reply->body);
    sink_.on_end({.error = std::nullopt, .sent = true});
  }

  ScriptedEndpoints& owner_;
  port::HttpSink& sink_;
  std::string request_;
  loop::Timer timer_;
};

ScriptedEndpoints::ScriptedEndpoints(port::Http& others, loop::Loop& loop,
                                     std::shared_ptr<EndpointScript> script)
    : others_(others), loop_(loop), script_(std::move(script)) {}

std::unique_ptr<port::Transfer> ScriptedEndpoints::start(port::HttpRequest request,
                                                         port::HttpSink& sink) {
  const std::size_t host_end = request.url.find('/', kScheme.size());
  if (!std::string_view(request.url).substr(0, host_end).ends_with(kHostEnd)) {
    return others_.start(std::move(request), sink);
  }
  return std::make_unique<Answer>(*this, request, sink);
}

}  // namespace moonfence::app
