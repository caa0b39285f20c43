#include "fence/remains_search.h"

#include <utility>

#include "kube/decode.h"

namespace moonfence::fence {

RemainsSearch::RemainsSearch(Surroundings& around, const NodeName& node, Done done)
    : done_(std::move(done)), gathering_(around.reader, around.allowed_reads) {
  calls_.push_back(around.reader.list_pods(
      {.node = node, .space = {}, .label_selector = {}, .not_older_than = {}},
      [this](const Result<kube::ItemTexts>& pods) { pods_arrived(pods); }));
  calls_.push_back(around.reader.get_list("/apis/storage.k8s.io/v1/volumeattachments", {},
                                          [this](Result<kube::ApiReply> reply) {
                                            list_arrived(std::move(reply), remains_.attachments);
                                          }));
  // Events about nodes live in this namespace.
  calls_.push_back(around.reader.get_list(
      "/api/v1/namespaces/default/events",
      {{"fieldSelector",
        "involvedObject.kind=Node,involvedObject.name=" + node.text() + ",reason=Starting"}},
      [this](Result<kube::ApiReply> reply) { list_arrived(std::move(reply), remains_.starts); }));
}

void RemainsSearch::pods_arrived(const Result<kube::ItemTexts>& listed) {
  if (!listed) {
    lacks(listed.error());
    one_ended();
    return;
  }
  kube::PodDecoder decoder;
  for (const std::string& text : listed->texts) {
    auto pod = decoder.decode(text);
    if (!pod) {
      lacks(pod.error());
      continue;
    }
    remains_.pods.push_back(*pod);
    ++pending_;
  }
  Wants wants;
  wants.needs.volumes = true;
  // By value: the last answer may come at once.
  for (const std::vector<kube::Pod> pods = remains_.pods; const kube::Pod& pod : pods) {
    gathering_.gather(pod, wants,
                      [this, pod](const Gathered& gathered) { this->gathered(pod, gathered); });
  }
  one_ended();
}

void RemainsSearch::gathered(const kube::Pod& pod, const Gathered& gathered) {
  if (!gathered.volumes_missing.empty() && remains_.unread.empty()) {
    remains_.unread = gathered.volumes_missing;
  }
  if (is_there_to_stay(pod)) {
    for (const auto& [name, attachment] : gathered.attachments) {
      remains_.used_attachments.insert(name);
    }
    if (gathered.facts.volumes) {
      for (const policy::VolumeFacts& volume : *gathered.facts.volumes) {
        remains_.used_volumes.insert("kubernetes.io/csi/" + volume.driver + "^" + volume.handle);
      }
    }
  }
  one_ended();
}

void RemainsSearch::list_arrived(Result<kube::ApiReply> reply, nlohmann::json& into) {
  if (reply) {
    into = std::move(reply->body);
  } else {
    lacks(reply.error());
  }
  one_ended();
}

void RemainsSearch::lacks(const Error& error) {
  if (remains_.unread.empty()) {
    remains_.unread = error.message();
  }
}

void RemainsSearch::one_ended() {
  if (--pending_ == 0) {
    const Done done = std::move(done_);
    done(remains_);
  }
}

}  // namespace moonfence::fence
