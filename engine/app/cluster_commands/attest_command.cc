// `moonfence attest`: says that the machine of a node is off, or takes that back.

#include "app/cluster_commands/client_command.h"
#include "base/text.h"
#include "cluster/nodes/ready_condition.h"
#include "fence/proof/attestation.h"
#include "kube/leases/lease.h"
#include "kube/objects/decode.h"
#include "kube/wire/url.h"

namespace moonfence::app {

using nlohmann::json;

namespace {

Result<void> annotate(ClusterClient& client, const std::string& path, const Uid& node,
                      const json& value) {
  const auto answer = client.merge(
      path,
      {{"metadata", {{"uid", node.text()}, {"annotations", {{fence::kAttestedKey, value}}}}}});
  return answer ? Result<void>() : failure(answer.error());
}

Result<kube::Lease> lease_of(ClusterClient& client, const std::string& node) {
  const auto path = kube::lease_path({.space = Namespace("kube-node-lease"), .name = node});
  if (!path) {
    return failure(path.error());
  }
  const auto object = client.get(*path);
  return object ? kube::decode_lease(*object) : failure(object.error());
}

Result<fence::Attestation> new_word(const ClientOptions& options, ClusterClient& client,
                                    const kube::Node& node) {
  if (cluster::readiness_of(node) == cluster::Readiness::True) {
    return failure(Error::Kind::Invalid,
                   "node " + node.name.text() +
                       " is Ready: its kubelet is heard, so an attestation would not count",
                   "wait until Kubernetes calls it NotReady; `kubectl get node` shows it");
  }
  const auto lease = lease_of(client, node.name.text());
  if (!lease) {
    Error error = lease.error();
    error.text = "the kubelet's Lease cannot be read: " + error.text;
    error.hint = error.hint.empty()
                     ? "its pods can be deleted by hand: docs/runbook.md, Deleting by hand"
                     : error.hint;
    return failure(std::move(error));
  }
  auto signs = fence::signs_of(node, *lease);
  if (!signs) {
    return failure(std::move(signs.error()));
  }
  auto by = authenticated_user(client);
  if (!by) {
    return failure(std::move(by.error()));
  }
  return fence::Attestation{.signs = *std::move(signs),
                            .at = client.now(),
                            .by = *std::move(by),
                            .reason = options.reason};
}

}  // namespace

ClientOutput attest_node(const ClientOptions& options, ClientGround& ground) {
  const std::string& name = options.names.front();
  const auto segment = kube::path_segment(name);
  if (!segment) {
    return refused(ClientExit::Usage, segment.error());
  }
  const std::string path = "/api/v1/nodes/" + *segment;
  const auto object = ground.client.get(path);
  if (!object) {
    return refused(object.error());
  }
  const auto node = kube::decode_node(*object, /*keep_raw=*/true);
  if (!node) {
    return refused(ClientExit::Failed, node.error());
  }
  if (options.withdraw) {
    if (auto done = annotate(ground.client, path, node->uid, nullptr); !done) {
      return refused(ClientExit::Failed, done.error());
    }
    return {.code = ClientExit::Ok,
            .out = "Node " + name + " is not attested to be off: it has no annotation " +
                   std::string(fence::kAttestedKey) + ".\n",
            .err = {}};
  }
  const auto word = new_word(options, ground.client, *node);
  if (!word) {
    return refused(ClientExit::Failed, word.error());
  }
  if (auto done = annotate(ground.client, path, node->uid, to_text(*word)); !done) {
    return refused(ClientExit::Failed, done.error());
  }
  return {
      .code = ClientExit::Ok,
      .out = "Node " + name + " is attested to be off, by " + escaped(word->by, 256) +
             ".\nThis counts until its kubelet or its machine is heard again. `moonfence attest " +
             name + " --withdraw` takes it back.\n",
      .err = {}};
}

}  // namespace moonfence::app
