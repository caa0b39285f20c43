#pragma once

// Incidents over the small cluster with claims, volumes and attachments behind its pods.

#include <algorithm>
#include <map>
#include <string>

#include "policy/input/pod_facts.h"
#include "unit/fence/incidents_fixture.h"

namespace moonfence::fence {

struct StorageTest : IncidentsTest {
  const std::string driver = "csi.example.com";
  nlohmann::json claims = nlohmann::json::array();
  std::map<std::string, nlohmann::json> volumes;
  std::map<std::string, nlohmann::json> attachments;
  std::map<std::string, nlohmann::json> robustness;  // Longhorn's own volumes
  std::string broken_volume;                         // cannot be read
  test::FakeAnswer claims_answer;                    // its error, if it has one
  bool may_read_claims = true;                       // one by itself
  Duration detach_delay{};                           // how long the storage takes
  bool storage_lets_go = true;

  StorageTest() {
    http.on(port::Method::Get, "/api/v1/namespaces/db/persistentvolumeclaims",
            [this](const test::FakeRequest& request) {
              test::FakeAnswer answer = claims_answer;
              answer.body = answer.body.empty() ? list_claims(request) : answer.body;
              return answer;
            });
    http.on(port::Method::Get, "/api/v1/namespaces/db/persistentvolumeclaims/*",
            [this](const test::FakeRequest& request) { return read_claim(name_in(request)); });
    http.on(port::Method::Get, "/api/v1/persistentvolumes/*",
            [this](const test::FakeRequest& request) {
              return name_in(request) == broken_volume ? broken() : read(volumes, request);
            });
    http.on(port::Method::Get, "/api/v1/persistentvolumes",
            [this](const test::FakeRequest& request) { return list(volumes, request); });
    http.on(port::Method::Get, "/apis/longhorn.io/v1beta2/namespaces/longhorn-system/volumes/*",
            [this](const test::FakeRequest& request) { return read(robustness, request); });
    http.on(port::Method::Get, kAttachments,
            [this](const test::FakeRequest& request) { return read(attachments, request); });
    http.on(port::Method::Get, "/apis/storage.k8s.io/v1/volumeattachments",
            [this](const test::FakeRequest& request) { return list(attachments, request); });
    http.on(port::Method::Delete, kAttachments,
            [this](const test::FakeRequest& request) { return remove_attachment(request); });
  }

  // All of the namespace, or the one of a name.
  [[nodiscard]] std::string list_claims(const test::FakeRequest& request) const {
    const std::string mark = "fieldSelector=metadata.name%3D";
    const auto named = request.query.find(mark);
    nlohmann::json items = nlohmann::json::array();
    for (const nlohmann::json& claim : claims) {
      if (named == std::string::npos) {
        items.push_back(claim);
      } else if (request.query.substr(named + mark.size()) == claim["metadata"]["name"]) {
        items = nlohmann::json::array({claim});  // the newest that was added
      }
    }
    return nlohmann::json{{"kind", "PersistentVolumeClaimList"},
                          {"metadata", {{"resourceVersion", "9"}}},
                          {"items", items}}
        .dump();
  }
  [[nodiscard]] test::FakeAnswer read_claim(const std::string& name) const {
    test::FakeAnswer answer = claims_answer;
    if (!may_read_claims) {
      answer = status(403, "Forbidden", name);
    } else if (answer.body.empty()) {
      const auto is_it = [&name](const auto& claim) { return claim["metadata"]["name"] == name; };
      const auto found = std::find_if(claims.rbegin(), claims.rend(), is_it);  // the newest
      answer = found == claims.rend() ? status(404, "NotFound", name) : answer;
      answer.body = found == claims.rend() ? answer.body : found->dump();
    }
    return answer;
  }
  // A pod with a volume of its own that is attached to its node. Returns the attachment's name.
  std::string add_pod_with_volume(const std::string& name, const std::string& node = "n1",
                                  const std::string& handle = "") {
    add_pod(name, node);
    return add_volume(name, node, handle.empty() ? "vol-" + name : handle);
  }
  std::string add_volume(const std::string& pod, const std::string& node,
                         const std::string& handle) {
    const std::string claim = "data-" + pod;
    const std::string pv = "pv-" + pod;
    pods[pod]["spec"]["volumes"] = {
        {{"name", "data"}, {"persistentVolumeClaim", {{"claimName", claim}}}}};
    claims.push_back(
        {{"metadata", {{"name", claim}, {"namespace", "db"}}}, {"spec", {{"volumeName", pv}}}});
    volumes[pv] = {{"kind", "PersistentVolume"},
                   {"metadata", {{"name", pv}}},
                   {"spec",
                    {{"accessModes", {"ReadWriteOnce"}},
                     {"csi", {{"driver", driver}, {"volumeHandle", handle}}}}}};
    const std::string attachment = policy::attachment_name(handle, driver, node);
    attachments[attachment] = {
        {"kind", "VolumeAttachment"},
        {"metadata",
         {{"name", attachment},
          {"uid", "va-" + pod},
          {"finalizers", {"external-attacher/csi-example-com"}}}},
        {"spec",
         {{"attacher", driver}, {"nodeName", node}, {"source", {{"persistentVolumeName", pv}}}}}};
    return attachment;
  }
  // The pod's volume is of an old kind, which Kubernetes attaches by the CSI driver of EBS.
  void translate(const std::string& pod, bool annotated = true) {
    const std::string handle = volumes["pv-" + pod]["spec"]["csi"]["volumeHandle"];
    volumes["pv-" + pod]["spec"].erase("csi");
    volumes["pv-" + pod]["spec"]["awsElasticBlockStore"] = {{"volumeID", "aws://zone/" + handle}};
    if (annotated) {
      volumes["pv-" + pod]["metadata"]["annotations"] = {
          {"pv.kubernetes.io/migrated-to", "ebs.csi.aws.com"}};
    }
    for (auto& [name, attachment] : attachments) {
      if (attachment["spec"]["source"]["persistentVolumeName"] == "pv-" + pod) {
        attachment["spec"]["attacher"] = "ebs.csi.aws.com";
      }
    }
  }
  void lets_go(const std::string& attachment) { attachments.erase(attachment); }

  // Deletions in order, by kind of object and name.
  [[nodiscard]] Lines deleted() const {
    Lines lines;
    for (const test::FakeRequest& request : http.requests) {
      if (request.method == port::Method::Delete) {
        const bool of_pod = request.path.find("/pods/") != std::string::npos;
        lines.push_back((of_pod ? "pod " : "attachment ") + name_in(request));
      }
    }
    return lines;
  }

  // Pod web-0 is gone, its attachment is not, and the engine is.
  void crash_before_the_attachment(const std::shared_ptr<const policy::Policy>& policy) {
    storage_lets_go = false;
    take_up_nodes(policy);
    story.hook = [this](const Record& record) {
      if (record.kind == Record::Kind::Outcome && record.pod_uid == Uid("uid-web-0")) {
        leadership.until.reset();  // nothing more leaves
      }
    };
    tell(Look::Fell);
    run_for(1s);
    ASSERT_EQ(deleted(), Lines{"pod web-0"});
    story.hook = [](const Record&) {};
    incidents.reset();
    journal.reset();
    leadership.until = Moment::max();
    storage_lets_go = true;
  }
  void restart() {
    start_journal("moonfence-0_b");
    incidents.emplace(surroundings(), IncidentRules{},
                      [this] { return IncidentId("i" + std::to_string(++made_ids)); });
    incidents->await_records();
    journal->read(
        [this](const std::vector<Journal::Found>& found) { incidents->take_over(found); });
  }

  static std::shared_ptr<const policy::Policy> detaching_policy() {
    return on_every_signal_with_volumes(
        "return fence.delete_pod_and_attachments('its node is dead')");
  }
  static std::shared_ptr<const policy::Policy> on_every_signal_with_volumes(
      const std::string& body) {
    return policy_of(body, "trigger = { live_kubelet = true }, needs = { 'volumes' },");
  }

 private:
  static constexpr const char* kAttachments = "/apis/storage.k8s.io/v1/volumeattachments/*";

  test::FakeAnswer read(const std::map<std::string, nlohmann::json>& objects,
                        const test::FakeRequest& request) {
    const auto found = objects.find(name_in(request));
    return found == objects.end() ? status(404, "NotFound", name_in(request))
                                  : test::FakeAnswer{.body = found->second.dump()};
  }

  // All, or the one of a name.
  static test::FakeAnswer list(const std::map<std::string, nlohmann::json>& objects,
                               const test::FakeRequest& request) {
    const std::string by_name = "fieldSelector=metadata.name%3D";
    nlohmann::json items = nlohmann::json::array();
    const auto named = request.query.find(by_name);
    for (const auto& [name, object] : objects) {
      if (named == std::string::npos ||
          request.query.compare(named + by_name.size(), name.size(), name) == 0) {
        items.push_back(object);
      }
    }
    return {.body = nlohmann::json{
                {"kind", "List"},
                {"metadata", {{"resourceVersion", "9"}}},
                {"items",
                 items}}.dump()};
  }

  test::FakeAnswer remove_attachment(const test::FakeRequest& request) {
    const auto found = attachments.find(name_in(request));
    if (found == attachments.end()) {
      return status(404, "NotFound", name_in(request));
    }
    const auto wanted = nlohmann::json::parse(request.body)["preconditions"]["uid"];
    if (wanted != found->second["metadata"]["uid"]) {
      return status(409, "Conflict", name_in(request));
    }
    found->second["metadata"]["deletionTimestamp"] = "2026-01-02T06:00:00Z";
    const std::string body = found->second.dump();
    if (storage_lets_go) {
      timers.push_back(loop.after(detach_delay, [this, name = found->first] { lets_go(name); }));
    }
    return {.body = body};
  }

  std::vector<loop::Timer> timers;
};

}  // namespace moonfence::fence
