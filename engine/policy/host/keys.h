#pragma once

// The keys that the tables of a policy file may have. Reading a declaration, its "did you mean" and
// the reference documentation use these.

#include <array>
#include <string_view>

#include "policy/lua/spec.h"

namespace moonfence::policy {

inline constexpr std::array<Key, 14> kPolicyKeys = {{
    {"api", "integer", "The version of the policy API: 1.", true},
    {"name", "string", "[a-z][a-z0-9-]* of at most 40 letters; the file's name demands it.", true},
    {"version", "string", "The policy's own semantic version, such as 1.0.0.", true},
    {"summary", "string", "One line on what it does; at most 256 bytes.", true},
    {"doc", "string", "More, for people; at most 16 KiB."},
    {"select", "PolicySelect", "Which pods it is asked about; all of them without it."},
    {"needs",
     "(\"volumes\"|\"placement\"|\"root_owner\"|\"siblings\")[]|fun(s: Settings): string[]",
     "What it reads beside the pod's own object."},
    {"settings", "table<string, PolicySetting>", "What a binding may set, by name."},
    {"trigger", "PolicyTrigger|fun(s: Settings): PolicyTrigger",
     "When a node counts as down for it; the first observation without it."},
    {"source", "PolicySource|fun(s: Settings): PolicySource",
     "Where it learns itself which nodes are down, instead of from the Node."},
    {"node", "fun(node: Node, s: Settings, cluster: Cluster): NodeVerdict",
     "Judges the node before any of its pods is looked at."},
    {"node_fetch",
     "fun(node: Node, s: Settings, got: table<string, Answer>): table<string, Request>?",
     "Names what has to be read before node() is called; called again with the answers until it "
     "returns nil."},
    {"fetch", "fun(pod: Pod, s: Settings, got: table<string, Answer>): table<string, Request>?",
     "Names what has to be read for a pod; called again with the answers until it returns nil."},
    {"pod", "fun(pod: Pod, s: Settings, cluster: Cluster, node: Node): Verdict",
     "Judges one pod of the node.", true},
}};

inline constexpr std::array<Key, 10> kFencerKeys = {{
    {"api", "integer", "The version of the policy API: 1.", true},
    {"name", "string", "[a-z][a-z0-9-]* of at most 40 letters; the file's name demands it.", true},
    {"version", "string", "The fencer's own semantic version, such as 1.0.0.", true},
    {"summary", "string", "One line on whom it asks; at most 256 bytes.", true},
    {"doc", "string", "More, for people; at most 16 KiB."},
    {"settings", "table<string, PolicySetting>",
     "What the engine's configuration may set, by name."},
    {"plan", "fun(node: Node, s: Settings, got: table<string, Answer>): table<string, Request>?",
     "Names what has to be read about the machine; called again with the answers until it returns "
     "nil.",
     true},
    {"state",
     "fun(node: Node, s: Settings, got: table<string, Answer>): "
     "\"on\"|\"off\"|\"isolated\"|\"served\"|\"unknown\"|\"failed\", string, { drivers: string[] "
     "}?",
     "What the answers say of the machine's power, and why; isolated with the CSI drivers whose "
     "storage refuses it, served where nothing refuses it. Only off and isolated are evidence: a "
     "state that is not known to mean it is unknown.",
     true},
    {"off", "fun(node: Node, s: Settings, got: table<string, Answer>): Request?, string?",
     "How the machine is switched off, when state has said on by these answers: a request of "
     "fence.post, fence.create or fence.annotate; or nil, and why it cannot be."},
    {"isolate",
     "fun(node: Node, s: Settings, got: table<string, Answer>): Request?, string|{ drivers: "
     "string[] }",
     "How the storage is told to refuse the machine, when state has said served or isolated by "
     "these answers: such a request and the CSI drivers whose storage that is; or nil, "
     "and why it cannot be. A fencer has off or isolate, not both."},
}};

inline constexpr std::array<Key, 1> kSelectKeys = {{
    {"labels", "string", "A label selector, such as app=web,tier in (a, b)."},
}};

inline constexpr std::array<Key, 6> kTriggerKeys = {{
    {"failures", "integer", "Down observations before it acts; 1 to 1000, 1 acts at once."},
    {"interval", "string|number", "Between the observations; seconds or a text such as 30s."},
    {"sweep", "boolean", "Whether nodes that are down when the engine starts count; true."},
    {"deleted", "boolean", "Whether a node that is gone from the API counts as down; false."},
    {"live_kubelet", "boolean",
     "Whether Ready=False or missing counts as down while the kubelet's Lease lives; false."},
    {"live_kernel", "boolean",
     "Whether a node whose kubelet is dead counts as down while its machine answers; false."},
}};

inline constexpr std::array<Key, 4> kSourceKeys = {{
    {"every", "string|number", "How often it is asked; 1s to 1h.", true},
    {"expiry", "string|number", "How long a node keeps its state unmentioned; at most 24h.", true},
    {"plan", "fun(s: Settings, got: table<string, Answer>): table<string, Request>?",
     "Names what has to be read; called again with the answers until it returns nil.", true},
    {"nodes",
     "fun(s: Settings, got: table<string, Answer>): "
     "table<string, \"healthy\"|\"failed\"|\"unknown\">",
     "The state of each node by name.", true},
}};

inline constexpr std::array<Key, 8> kSettingKeys = {{
    {"type", "\"string\"|\"integer\"|\"number\"|\"boolean\"|\"duration\"|\"enum\"|\"list\"",
     "What a value of it is.", true},
    {"default", "any", "The value when the binding sets none.", true},
    {"min", "number|string", "Of integer, number, duration: the smallest value."},
    {"max", "number|string", "Of integer, number, duration: the largest value."},
    {"values", "string[]", "Of enum: what it may be."},
    {"of", "\"string\"|\"integer\"|\"number\"", "Of list: the type of its items."},
    {"doc", "string", "One line for people; at most 1 KiB."},
    {"clamp", "boolean", "Moves a value out of range to the limit, with a notice; false."},
}};

// The options of fence.list.
inline constexpr std::array<Key, 2> kListOptionKeys = {{
    {"labels", "string", "A label selector: only objects that it selects; all of them without it."},
    {"metadata", "boolean",
     "Of each object its metadata alone, which is a fraction of it: no spec, no status; false."},
}};

// The options of fence.delete_pod.
inline constexpr std::array<Key, 2> kDeleteOptionKeys = {{
    {"fail", "boolean",
     "Set the pod's phase to Failed before it is deleted, for Jobs that replace failed pods only; "
     "false."},
    {"proof", "(\"silent\"|\"unreachable\"|\"isolated\"|\"off\"|\"attested\")[]",
     "One of these has to be known of the node before anything is deleted; none."},
}};

// The options of fence.taint_out_of_service.
inline constexpr std::array<Key, 1> kProofOptionKeys = {{
    {"proof", "(\"silent\"|\"unreachable\"|\"isolated\"|\"off\"|\"attested\")[]",
     "One of these has to be known of the node before anything is deleted; none."},
}};

// The options of fence.delete_pod_and_attachments.
inline constexpr std::array<Key, 3> kReleaseOptionKeys = {{
    {"fail", "boolean",
     "Set the pod's phase to Failed before it is deleted, for Jobs that replace failed pods only; "
     "false."},
    {"release", "boolean",
     "Release the volumes to another node once every attachment is absent; false."},
    {"proof", "(\"silent\"|\"unreachable\"|\"isolated\"|\"off\"|\"attested\")[]",
     "One of these has to be known of the node before anything is deleted; none."},
}};

// The options of fence.delete_attachments.
inline constexpr std::array<Key, 4> kAttachmentOptionKeys = {{
    {"order", "\"attachments-first\"", "Before the pod; the only order."},
    {"wait", "string|number", "How long the attachments may take; 60s, from 1s to 1h."},
    {"on_timeout", "\"hold\"|\"delete\"",
     "What becomes of the pod when they do not go in time; hold."},
    {"proof", "(\"silent\"|\"unreachable\"|\"isolated\"|\"off\"|\"attested\")[]",
     "One of these has to be known of the node before anything is deleted; none."},
}};

}  // namespace moonfence::policy
