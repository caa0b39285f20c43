#include "fence/read/idle_nodes.h"

#include <algorithm>
#include <utility>

#include "fence/rules/selection.h"
#include "kube/objects/decode.h"

namespace moonfence::fence {
namespace {

// Bare pods count, and so do finished ones whose deletion is under way: somebody waits for them.
bool could_move(const kube::Pod& pod) {
  if (left_alone(pod, {.bare_pods = true, .finished_pods = true})) {
    return false;
  }
  return !pod.has_finished() || pod.deletion_timestamp;
}

}  // namespace

bool carries_nothing(const std::vector<std::string>& pods) {
  kube::PodDecoder decoder;
  return std::none_of(pods.begin(), pods.end(), [&decoder](const std::string& text) {
    const auto pod = decoder.decode(text);
    return !pod || could_move(*pod);
  });
}

IdleNodes::IdleNodes(loop::Loop& loop, kube::Reader& reader, const Brake& brake, port::Log& log,
                     std::function<void(const NodeName&)> excuse)
    : loop_(loop), reader_(reader), brake_(brake), log_(log), excuse_(std::move(excuse)) {}

void IdleNodes::look() {
  if (call_) {
    return;
  }
  const Brake::Count down = brake_.newly_down();
  std::erase_if(asked_, [&](const auto& entry) {
    return entry.second <= loop_.now() ||
           !std::binary_search(down.names.begin(), down.names.end(), entry.first);
  });
  if (!brake_.too_many_down()) {
    return;
  }
  const auto next =
      std::find_if(down.names.begin(), down.names.end(), [this](const NodeName& name) {
        return !asked_.contains(name) && !brake_.dealt_with(name, loop_.now());
      });
  if (next != down.names.end()) {
    read(*next);
  }
}

void IdleNodes::read(const NodeName& node) {
  call_ =
      reader_.list_pods({.node = node, .space = {}, .label_selector = {}, .not_older_than = {}},
                        [this, node](const Result<kube::ItemTexts>& pods) { arrived(node, pods); });
}

void IdleNodes::arrived(const NodeName& node, const Result<kube::ItemTexts>& pods) {
  const kube::CallHandle ended = std::move(call_);
  if (!pods) {
    asked_[node] = loop_.now() + kAskedAgain;
    log_.warning("pods_of_a_fallen_node_unreadable",
                 {{"node", node.text()}, {"error", pods.error().message()}});
  } else {
    asked_[node] = Moment::max();
    if (carries_nothing(pods->texts)) {
      log_.info("nothing_to_move", {{"node", node.text()}});
      excuse_(node);
    }
  }
  next_ = loop_.after({}, [this] { look(); });
}

}  // namespace moonfence::fence
