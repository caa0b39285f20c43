// What a policy's functions return: verdicts and requests.

#include <array>
#include <string_view>

#include "fuzz/expressions.h"

namespace moonfence::fuzz {
namespace {

using Kind = Type::Kind;

}  // namespace

std::string Expressions::verdict(int depth) {
  // Now and then one that does not belong here.
  const bool about_node = (place == Place::Node) != choices_.once_in(60);
  return about_node ? node_verdict(depth) : pod_verdict(depth);
}

std::string Expressions::node_verdict(int depth) {
  switch (choices_.below(4)) {
    case 0:
    case 1:
      return "fence.proceed(" + some_text(depth) + ")";
    case 2:
      return "fence.hold(" + some_text(depth) + ", " + of(Kind::Number, depth) + ")";
    default:
      return "fence.taint_out_of_service(" + some_text(depth) + ")";
  }
}

std::string Expressions::volumes() {
  constexpr std::array<std::string_view, 8> kVolumes = {"pod.volumes",
                                                        "{ pod.volumes[1] }",
                                                        "{ pod.volumes[2], pod.volumes[1] }",
                                                        "{ pod.volumes[1], pod.volumes[1] }",
                                                        "pod.claims",
                                                        "{ pod.claims[2] }",
                                                        "{ pod.volumes[1], pod }",
                                                        "{ pod.volumes[1], x = pod.volumes[2] }"};
  return choices_.once_in(24)
             ? of(Kind::Any, 1)
             : std::string(kVolumes[choices_.below(choices_.once_in(8) ? kVolumes.size() : 4)]);
}

std::string Expressions::request(int depth) {
  constexpr std::array<std::string_view, 9> kHttpPaths = {
      "'/v2/nodes'", "'/'",         "'/a', 'b/c', {d = '&'}", "'/' .. pod.name", "'/a/../b'",
      "'//x'",       "'/%2e%2e/x'", "'https://x/'",           "'/a b'"};
  constexpr std::array<std::string_view, 7> kObjects = {
      "'v1', 'persistentvolumes', '', 'pvc-1'",
      "'longhorn.io/v1beta2', 'volumes', 'longhorn-system', 'pvc-1'",
      "'v1', 'pods', pod.namespace, pod.name",
      "'v1', 'secrets', 'a', 'b'",
      "'v1', 'pods', 'a', ''",
      "'apps/v1', 'deployments/scale', 'a', 'b'",
      "'../v1', 'pods', 'a', 'b'"};
  const bool odd = choices_.once_in(12);
  if (choices_.once_in(32)) {
    return "fence.http(" + of(Kind::Text, depth) + ", " + of(Kind::Text, depth) + ")";
  }
  return choices_.below(2) == 0
             ? "fence.http('storage', " +
                   std::string(kHttpPaths[choices_.below(odd ? kHttpPaths.size() : 3)]) + ")"
             : "fence.get(" + std::string(kObjects[choices_.below(odd ? kObjects.size() : 2)]) +
                   ")";
}

std::string Expressions::pod_verdict(int depth) {
  constexpr std::array<std::string_view, 6> kAttachmentOptions = {
      "",
      ", { order = 'attachments-first', wait = '60s', on_timeout = 'delete' }",
      ", { on_timeout = 'hold' }",
      ", { wait = 5 }",
      ", { wait = 0/0 }",
      ", { wiat = 1 }"};
  if (needs.contains("volumes") && choices_.below(2) == 1) {
    if (choices_.below(2) == 0) {
      return "fence.delete_attachments(" + some_text(depth) + ", " + volumes() +
             std::string(kAttachmentOptions[choices_.below(choices_.once_in(12) ? 6 : 4)]) + ")";
    }
    return "fence.delete_pod_and_attachments(" + some_text(depth) +
           (choices_.below(2) == 0 ? "" : ", " + volumes()) +
           (choices_.below(2) == 0 ? "" : ", { release = " + of(Kind::Boolean, 1) + " }") + ")";
  }
  switch (choices_.below(7)) {
    case 0:
    case 1:
      return "fence.skip(" + some_text(depth) + ")";
    case 2:
      return "fence.wait(" + some_text(depth) +
             (choices_.below(3) == 0 ? "" : ", " + of(Kind::Number, depth)) + ")";
    case 3:
      return "fence.forbid(" + some_text(depth) + ")";
    case 4:
      return "(" + of(Kind::Boolean, depth) + " and fence.skip('yes') or " +
             (depth > 0 ? pod_verdict(depth - 1) : "fence.wait('no')") + ")";
    default:
      return "fence.delete_pod(" + some_text(depth) + ")";
  }
}

}  // namespace moonfence::fuzz
