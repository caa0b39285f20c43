#pragma once

// JSON to objects. Every field is looked up with its type and none is trusted: a wrong type is a
// Malformed error naming the field, a missing one gets its default, null counts as missing.

#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "kube/objects/objects.h"
#include "kube/text/object_parser.h"

namespace moonfence::kube {

// name and uid are required. `keep_raw` stores the object without
// metadata.managedFields for a policy to read.
[[nodiscard]] Result<Node> decode_node(const nlohmann::json& object, bool keep_raw = false);
// The large parts of a Node that decode_node() does not look at: images alone are most of one.
// Where its kubelet listens is left out too where nobody wants to know.
enum class KubeletAddresses { LeftOut, Kept };
[[nodiscard]] Omitted omitted_of_nodes(KubeletAddresses addresses = KubeletAddresses::LeftOut);
// From the whole object that a live read kept.
[[nodiscard]] Result<NodeStorage> decode_node_storage(const nlohmann::json& node);
// name, namespace and uid are required.
[[nodiscard]] Result<Pod> decode_pod(const nlohmann::json& object, bool keep_raw = false);
// name, uid, attacher and nodeName are required.
[[nodiscard]] Result<Attachment> decode_attachment(const nlohmann::json& object);

// Pods of a list, from text, keeping the raw object without metadata.managedFields, which nobody
// asks for and which is half of it. For many of them: its buffers stay from one to the next.
class PodDecoder {
 public:
  PodDecoder();
  [[nodiscard]] Result<Pod> decode(std::string_view text);

 private:
  ObjectParser parser_;
};
[[nodiscard]] Result<Pod> decode_pod_text(std::string_view text);

}  // namespace moonfence::kube
