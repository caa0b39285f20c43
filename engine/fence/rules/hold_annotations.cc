#include "fence/rules/hold_annotations.h"

#include <nlohmann/json.hpp>

#include "base/text.h"

namespace moonfence::fence {

using nlohmann::json;

std::optional<std::string> hold_on(const json& object) {
  constexpr std::size_t kLongest = 256;
  const json::json_pointer path("/metadata/annotations/moonfence.io~1hold");
  if (!object.contains(path)) {
    return std::nullopt;
  }
  const json& why = object.at(path);
  const std::string text =
      why.is_string() ? escaped(trimmed(why.get_ref<const std::string&>()), kLongest) : "";
  return text.empty() ? "no reason is given" : text;
}

std::optional<std::string> hold_on_node(const json& node, const HoldMarks& marks) {
  if (auto why = hold_on(node)) {
    return why;
  }
  const json::json_pointer path("/metadata/annotations");
  if (!node.contains(path) || !node.at(path).is_object()) {
    return std::nullopt;
  }
  const json& annotations = node.at(path);
  for (const std::string& mark : marks) {
    const auto equals = mark.find('=');
    const auto found = annotations.find(mark.substr(0, equals));
    if (found != annotations.end() &&
        (equals == std::string::npos || *found == mark.substr(equals + 1))) {
      return "annotation " + mark;
    }
  }
  return std::nullopt;
}

std::string hold_text(const NodeName& node, const std::optional<std::string>& of_node,
                      const kube::Pod& pod, const NamespaceWords& words, const HeldPods& pods) {
  if (of_node) {
    return "node " + node.text() + ": " + *of_node;
  }
  const auto word = words.find(pod.ref.space);
  if (word != words.end() && word->second.hold) {
    return "namespace " + pod.ref.space.text() + ": " + *word->second.hold;
  }
  const auto held = pods.find(pod.uid);
  return held != pods.end() ? "pod " + pod.ref.text() + ": " + held->second : std::string();
}

}  // namespace moonfence::fence
