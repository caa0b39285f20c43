#pragma once

// The storage of a small cluster with what a release needs beside it: a node that reports its
// volumes, kube-controller-manager and the attacher by their Leases.

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "fence/act/volume_releaser.h"
#include "unit/fence/storage_fixture.h"

namespace moonfence::fence {

using nlohmann::json;

// Of a Lease by which a controller leads.
enum class Renewal { GoesOn, StandsStill, RanOut, Unreadable };

// Beside the storage a kubelet that was, and a controller that detaches what is not in use.
struct VolumeReleaserTest : StorageTest {
  std::vector<std::string> in_use;
  std::vector<std::string> attached;
  bool attach_managed = true;  // by the controller, as the node says
  std::string boot = "boot-1";
  std::string heartbeat = "2026-01-02T04:59:00Z";
  Renewal controller_lease = Renewal::GoesOn;
  Duration controller_delay = 50ms;
  std::vector<Moment> released;       // when a patch came
  std::vector<std::size_t> portions;  // how many volumes it took out
  // Asked before a patch is looked at.
  std::function<void()> on_patch = [] {};

  VolumeReleaserTest() {
    release.on = true;
    http.on(port::Method::Get, "/api/v1/nodes/*", [this](const test::FakeRequest& request) {
      return nodes.contains(name_in(request)) ? test::FakeAnswer{.body = node().dump()}
                                              : status(404, "NotFound", "n1");
    });
    http.on(port::Method::Patch, "/api/v1/nodes/*",
            [this](const test::FakeRequest& request) { return patch(request); });
    http.on(port::Method::Get,
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager",
            [this](const test::FakeRequest&) {
              return lease_of("kube-controller-manager", controller_lease);
            });
  }

  static std::string name_of(const std::string& handle) {
    return "kubernetes.io/csi/csi.example.com^" + handle;
  }
  std::string add(const std::string& pod, const std::string& handle) {
    const std::string attachment = add_pod_with_volume(pod, "n1", handle);
    if (std::find(in_use.begin(), in_use.end(), name_of(handle)) == in_use.end()) {
      in_use.push_back(name_of(handle));
      attached.push_back(name_of(handle));
    }
    return attachment;
  }
  void open() {
    take_up_nodes(on_every_signal_with_volumes(
        "return fence.delete_pod_and_attachments('its node is dead', { release = true })"));
  }
  [[nodiscard]] Lines patches() const {
    Lines lines;
    for (const test::FakeRequest& request : http.requests) {
      if (request.method == port::Method::Patch && request.path.starts_with("/api/v1/nodes/")) {
        lines.push_back(request.path);
      }
    }
    return lines;
  }
  [[nodiscard]] json node() const {
    json made = node_json("n1");
    if (attach_managed) {
      made["metadata"]["annotations"]["volumes.kubernetes.io/controller-managed-attach-detach"] =
          "true";
    }
    made["status"]["nodeInfo"]["bootID"] = boot;
    made["status"]["volumesInUse"] = in_use;
    made["status"]["volumesAttached"] = json::array();
    for (const std::string& volume : attached) {
      made["status"]["volumesAttached"].push_back({{"name", volume}, {"devicePath", ""}});
    }
    for (json& condition : made["status"]["conditions"]) {
      condition["lastHeartbeatTime"] = heartbeat;
    }
    return made;
  }
  [[nodiscard]] bool was_refused(Reason reason) const {
    return story.count(Record::Kind::Refusal, reason) > 0;
  }

  // Its stamps are those of a clock that is an hour behind.
  test::FakeAnswer lease_of(const std::string& name, Renewal renewal) {
    if (renewal == Renewal::Unreadable) {
      return status(403, "Forbidden", name);
    }
    store_is_at_hand();
    const json lease = {{"metadata",
                         {{"name", name},
                          {"uid", "lease-" + name},
                          {"resourceVersion", renewal == Renewal::GoesOn   ? kWrittenSince
                                              : renewal == Renewal::RanOut ? "150"
                                                                           : kWrittenLongAgo}}},
                        {"spec",
                         {{"holderIdentity", name + "-1"},
                          {"leaseDurationSeconds", 15},
                          {"renewTime", "2026-01-02T04:00:00.000000Z"}}}};
    return {.body = lease.dump()};
  }

 private:
  test::FakeAnswer patch(const test::FakeRequest& request) {
    on_patch();
    EXPECT_EQ(request.header("Content-Type"), "application/json-patch+json");
    try {
      const json after = node().patch(json::parse(request.body));
      const std::size_t before = in_use.size();
      in_use = after["status"]["volumesInUse"].get<std::vector<std::string>>();
      released.push_back(loop.now());
      portions.push_back(before - in_use.size());
    } catch (const json::exception&) {
      return status(422, "Invalid", "n1");
    }
    controller.push_back(loop.after(controller_delay, [this] { attached = in_use; }));
    return {.body = node().dump()};
  }

  std::vector<loop::Timer> controller;
};

struct AttacherTest : VolumeReleaserTest {
  Renewal attacher_lease = Renewal::GoesOn;

  AttacherTest() {
    release.attachers = {{driver, {.space = Namespace("storage"), .name = "attacher"}}};
    http.on(port::Method::Get, "/apis/coordination.k8s.io/v1/namespaces/storage/leases/attacher",
            [this](const test::FakeRequest&) { return lease_of("attacher", attacher_lease); });
  }
};

}  // namespace moonfence::fence
