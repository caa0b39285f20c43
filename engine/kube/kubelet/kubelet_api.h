#pragma once

// One question to a kubelet, through the API server: what it means to run, what runs, and since
// when its process lives. Three requests, one after the other, on the lane of what may be slow or
// hostile; the first that fails is the answer. The API server hands them through to the address
// that the Node object names, whoever listens there: the answer must be held against the node
// (KubeletWord::process.node, KubeletPod::node).
//
// /runningpods/ comes from a cache that is up to three seconds old (k/k pkg/kubelet/kubelet.go,
// runtimeCacheRefreshPeriod), and holds pods with a running container or a ready sandbox.

#include <functional>
#include <vector>

#include "kube/kubelet/kubelet_answer.h"
#include "kube/wire/caller.h"

namespace moonfence::kube {

struct KubeletWord {
  std::vector<KubeletPod> wanted;   // /pods: what it was told to run, static pods among it
  std::vector<KubeletPod> running;  // /runningpods/
  KubeletProcess process;
};

// Of each of the requests.
constexpr Duration kKubeletLimit = std::chrono::seconds(5);

// `done` is called once, in a later turn, and may destroy the handle.
[[nodiscard]] CallHandle ask_kubelet(Caller& caller, const NodeName& node,
                                     std::function<void(Result<KubeletWord>)> done);

}  // namespace moonfence::kube
