#include "cluster/nodes/ready_condition.h"

#include <algorithm>
#include <array>

namespace moonfence::cluster {

Readiness readiness_of(const kube::Node& node) {
  if (!node.ready) {
    return Readiness::Missing;
  }
  if (node.ready->status == "True") {
    return Readiness::True;
  }
  // A status that is none of the three the API defines tells us nothing: Unknown.
  return node.ready->status == "False" ? Readiness::False : Readiness::Unknown;
}

std::string_view to_string(Readiness readiness) {
  switch (readiness) {
    case Readiness::True:
      return "true";
    case Readiness::False:
      return "false";
    case Readiness::Unknown:
      return "unknown";
    case Readiness::Missing:
      return "missing";
    case Readiness::Gone:
      return "deleted";
    case Readiness::Failed:
      return "failed";
  }
  return "unknown";
}

bool keeps_replacements_off(const kube::Node& node) {
  constexpr std::array<std::string_view, 5> kKeys = {
      "node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready",
      "node.kubernetes.io/out-of-service", "node.kubernetes.io/unschedulable",
      "moonfence.io/fenced"};
  return std::any_of(node.taints.begin(), node.taints.end(), [&kKeys](const kube::Taint& taint) {
    return taint.effect == "NoSchedule" &&
           std::find(kKeys.begin(), kKeys.end(), taint.key) != kKeys.end();
  });
}

}  // namespace moonfence::cluster
