#include <utility>

#include "sim/controllers/kubelet.h"
#include "sim/ground/facts.h"
#include "sim/server/answers.h"

// What a kubelet says of itself, as an API server hands it through.

namespace moonfence::sim {
namespace {

using namespace std::chrono_literals;

// k/k pkg/kubelet/kubelet.go, runtimeCacheRefreshPeriod.
constexpr Duration kRuntimeCache = 3s;
// How long an API server tries to reach a machine that does not answer at all.
constexpr Duration kDialling = 30s;
// Nor for longer on one whose kernel has accepted the connection (k/k apimachinery
// pkg/util/net/http.go, SetOldTransportDefaults: TLSHandshakeTimeout).
constexpr Duration kHandshake = 10s;

Json pod_entry(const std::string& uid, const std::string& space, const std::string& name) {
  return {{"metadata",
           {{"name", name}, {"namespace", space}, {"uid", uid}, {"creationTimestamp", nullptr}}},
          {"spec", {{"containers", nullptr}}},
          {"status", Json::object()}};
}

// A kubelet that has none encodes null.
ServerAnswer pod_list(const Json& pods) {
  const Json list = {{"kind", "PodList"},
                     {"apiVersion", "v1"},
                     {"metadata", Json::object()},
                     {"items", pods.empty() ? Json() : pods}};
  return json_answer(200, list.dump());
}

}  // namespace

ServerAnswer unreachable_kubelet() {
  return refusal_answer({.code = 503,
                         .reason = "ServiceUnavailable",
                         .message = "error trying to reach service: dial tcp: i/o timeout"});
}

ServerAnswer Kubelet::answer(std::string_view path) {
  if (!machine_.connected || !is_awake()) {
    ServerAnswer lost = unreachable_kubelet();
    // One that is only stopped: its machine refuses the connection at once.
    lost.took = !machine_.answers() ? kDialling : machine_.kubelet ? kHandshake : Duration::zero();
    return lost;
  }
  if (path == "/pods") {
    return pod_list(wanted_pods());
  }
  if (path == "/runningpods/") {
    return machine_.healthy ? pod_list(running_pods())
                            : text_answer(500, "rpc error: container runtime is down\n");
  }
  if (path == "/metrics") {
    const auto started = std::chrono::duration<double>(machine_.kubelet_started.time_since_epoch());
    return text_answer(200, "kubelet_node_name{node=\"" + plan_.name +
                                "\"} 1\nprocess_start_time_seconds " +
                                Json(started.count()).dump() + "\n");
  }
  return text_answer(404, "404 page not found\n");
}

// Before it has heard of the API server's pods after a start it knows of its static ones only.
Json Kubelet::wanted_pods() const {
  Json pods = Json::array();
  for (const auto& [uid, work] : works_) {
    if (knows_pods_ && !work.gone && work.stage != Stage::Stopped) {
      Json entry = pod_entry(uid, space_of(*work.pod), name_of(*work.pod));
      entry["spec"]["nodeName"] = plan_.name;
      pods.push_back(std::move(entry));
    }
  }
  for (const auto& [path, pod] : mirrors_) {
    Json entry =
        pod_entry(text_field(pod, {"metadata", "annotations", "kubernetes.io/config.hash"}),
                  space_of(pod), name_of(pod));
    entry["spec"]["nodeName"] = plan_.name;
    pods.push_back(std::move(entry));
  }
  return pods;
}

const Json& Kubelet::running_pods() {
  const Moment now = ground_.loop.now();
  if (!runtime_asked_ || now - *runtime_asked_ > kRuntimeCache) {
    runtime_asked_ = now;
    runtime_said_ = Json::array();
    for (const auto& [uid, container] : machine_.containers) {
      runtime_said_.push_back(pod_entry(uid, container.space, container.pod));
    }
  }
  return runtime_said_;
}

}  // namespace moonfence::sim
