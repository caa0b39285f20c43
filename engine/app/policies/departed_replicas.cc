#include "app/policies/departed_replicas.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "kube/wire/url.h"

namespace moonfence::app {

DepartedReplicas::DepartedReplicas(loop::Loop& loop, kube::Caller& caller, ObjectRef status,
                                   std::string own, Found found)
    : loop_(loop),
      caller_(caller),
      config_maps_(caller),
      status_(std::move(status)),
      own_(std::move(own)),
      found_(std::move(found)) {
  timer_ = loop_.after(kFirst, [this] { look(); });
}

void DepartedReplicas::look() {
  timer_ = loop_.after(kEvery, [this] { look(); });
  auto path = kube::pods_path(status_.space);
  if (status_.space.empty() || !path) {
    return;
  }
  kube::ApiRequest request;
  request.path = *std::move(path);
  request.query = {{"limit", "500"}};
  request.lane = port::Lane::Bulk;
  request.timeout = std::chrono::seconds(30);
  call_ = caller_.call(std::move(request),
                       [this](const Result<kube::ApiReply>& reply) { pods_arrived(reply); });
}

// Only a whole list in which we find ourselves says who is not there.
void DepartedReplicas::pods_arrived(const Result<kube::ApiReply>& reply) {
  const nlohmann::json::json_pointer name("/metadata/name");
  const nlohmann::json::json_pointer phase("/status/phase");
  const nlohmann::json::json_pointer more("/metadata/continue");
  const bool is_list = reply && reply->body.is_object() && reply->body.contains("items") &&
                       reply->body["items"].is_array();
  if (!is_list) {
    return;
  }
  const bool has_token = reply->body.contains(more);
  const auto* token = has_token ? reply->body.at(more).get_ptr<const std::string*>() : nullptr;
  const bool is_whole = !has_token || (token != nullptr && token->empty());
  if (!is_whole) {
    return;
  }
  pods_.clear();
  for (const nlohmann::json& pod : reply->body["items"]) {
    const bool has_phase = pod.contains(phase) && pod.at(phase).is_string();
    const std::string state = has_phase ? pod.at(phase).get<std::string>() : std::string();
    // One that was evicted stays for long, and does nothing any more.
    if (state != "Failed" && state != "Succeeded" && pod.contains(name) &&
        pod.at(name).is_string()) {
      pods_.insert(pod.at(name).get<std::string>());
    }
  }
  if (pods_.contains(own_)) {
    call_ = config_maps_.get(status_,
                             [this](const Result<kube::ConfigMap>& map) { status_arrived(map); });
  }
}

void DepartedReplicas::status_arrived(const Result<kube::ConfigMap>& map) {
  std::set<std::string> departed;
  if (map) {
    for (const auto& [key, text] : map->data) {
      if (!pods_.contains(key)) {
        departed.insert(key);
      }
    }
  }
  if (!departed.empty()) {
    found_(departed);
  }
}

}  // namespace moonfence::app
