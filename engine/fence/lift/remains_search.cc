#include "fence/lift/remains_search.h"

#include <utility>

#include "kube/objects/decode.h"
#include "policy/input/translated.h"

namespace moonfence::fence {

RemainsSearch::RemainsSearch(Surroundings& around, loop::TurnQueue& kubelets, const NodeName& node,
                             Scope scope, Done done)
    : around_(around),
      kubelets_(kubelets),
      node_(node),
      scope_(scope),
      done_(std::move(done)),
      gathering_(around.access.reader, around.access.loop.now(), around.access.allowed_reads) {
  if (scope_.kubelet) {
    turn_ = kubelets_.queue([this] { ask_kubelet(); });
  } else {
    list_pods();
  }
}

void RemainsSearch::ask_kubelet() {
  calls_.push_back(around_.access.reader.ask_kubelet(node_, [this](Result<kube::KubeletWord> word) {
    turn_.reset();
    remains_.word = std::move(word);
    if (*remains_.word) {
      list_pods();
    } else {
      finish();
    }
  }));
}

// After the kubelet's word: a pod that is deleted meanwhile is a doubt, and one that comes is none.
void RemainsSearch::list_pods() {
  calls_.push_back(around_.access.reader.list_pods(
      {.node = node_, .space = {}, .label_selector = {}, .not_older_than = {}},
      [this](const Result<kube::ItemTexts>& pods) { pods_arrived(pods); }));
}

void RemainsSearch::pods_arrived(const Result<kube::ItemTexts>& listed) {
  if (!listed) {
    lacks(listed.error());
    finish();
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
  }
  if (scope_.storage && !doubt_by_pods(node_, remains_)) {
    read_storage();
  } else {
    finish();
  }
}

void RemainsSearch::read_storage() {
  pending_ = 2 + remains_.pods.size();
  calls_.push_back(around_.access.reader.get_list(
      "/apis/storage.k8s.io/v1/volumeattachments", {},
      [this](Result<kube::ApiReply> reply) { attachments_arrived(std::move(reply)); }));
  constexpr Duration kLeaseLimit = std::chrono::seconds(5);
  calls_.push_back(around_.access.reader.get_node_lease(
      node_, kLeaseLimit, [this](const Result<kube::Lease>& lease) { lease_arrived(lease); }));
  Wants wants;
  wants.needs.volumes = true;
  // By value: the last answer may come at once.
  for (const std::vector<kube::Pod> pods = remains_.pods; const kube::Pod& pod : pods) {
    gathering_.gather(pod, wants,
                      [this, pod](const Gathered& gathered) { this->gathered(pod, gathered); });
  }
}

void RemainsSearch::attachments_arrived(Result<kube::ApiReply> reply) {
  if (reply) {
    remains_.attachments = std::move(reply->body);
  } else {
    lacks(reply.error());
  }
  one_ended();
}

// Without one nobody knows how the node's clock is set, which is a doubt of its own.
void RemainsSearch::lease_arrived(const Result<kube::Lease>& lease) {
  if (lease) {
    remains_.lease_renewed = lease->record.renewed;
  } else if (lease.error().kind != Error::Kind::NotFound) {
    lacks(lease.error());
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
    remains_.inline_drivers.merge(policy::inline_drivers(*pod.raw));
    if (gathered.facts.volumes) {
      for (const policy::VolumeFacts& volume : *gathered.facts.volumes) {
        if (volume.handle.empty()) {
          continue;  // known by its attachment alone
        }
        remains_.used_volumes.insert("kubernetes.io/csi/" + volume.driver + "^" + volume.handle);
      }
    }
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
    finish();
  }
}

void RemainsSearch::finish() {
  const Done done = std::move(done_);
  done(remains_);
}

}  // namespace moonfence::fence
