#include "fence/lift/leftovers_reader.h"

#include <utility>

#include "kube/objects/decode.h"
#include "policy/input/translated.h"

namespace moonfence::fence {

LeftoversReader::LeftoversReader(Surroundings& around, loop::TurnQueue& kubelets,
                                 const NodeName& node, Scope scope, Done done)
    : around_(around),
      kubelets_(kubelets),
      node_(node),
      scope_(scope),
      done_(std::move(done)),
      fact_reader_(around.access.reader, around.access.loop.now(), around.access.allowed_reads) {
  if (scope_.kubelet) {
    turn_ = kubelets_.queue([this] { ask_kubelet(); });
  } else {
    list_pods();
  }
}

void LeftoversReader::ask_kubelet() {
  calls_.push_back(around_.access.reader.ask_kubelet(node_, [this](Result<kube::KubeletWord> word) {
    turn_.reset();
    leftovers_.word = std::move(word);
    if (*leftovers_.word) {
      list_pods();
    } else {
      finish();
    }
  }));
}

// After the kubelet's word: a pod that is deleted meanwhile is a doubt, and one that comes is none.
void LeftoversReader::list_pods() {
  calls_.push_back(around_.access.reader.list_pods(
      {.node = node_, .space = {}, .label_selector = {}, .not_older_than = {}},
      [this](const Result<kube::ItemTexts>& pods) { pods_arrived(pods); }));
}

void LeftoversReader::pods_arrived(const Result<kube::ItemTexts>& listed) {
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
    leftovers_.pods.push_back(*pod);
  }
  if (scope_.storage && !doubt_by_pods(node_, leftovers_)) {
    read_storage();
  } else {
    finish();
  }
}

void LeftoversReader::read_storage() {
  pending_ = 2 + leftovers_.pods.size();
  calls_.push_back(around_.access.reader.get_list(
      "/apis/storage.k8s.io/v1/volumeattachments", {},
      [this](Result<kube::ApiReply> reply) { attachments_arrived(std::move(reply)); }, {}));
  constexpr Duration kLeaseLimit = std::chrono::seconds(5);
  calls_.push_back(around_.access.reader.get_node_lease(
      node_, kLeaseLimit, [this](const Result<kube::Lease>& lease) { lease_arrived(lease); }));
  Wants wants;
  wants.needs.volumes = true;
  // By value: the last answer may come at once.
  for (const std::vector<kube::Pod> pods = leftovers_.pods; const kube::Pod& pod : pods) {
    fact_reader_.gather(pod, wants,
                        [this, pod](const Gathered& gathered) { this->gathered(pod, gathered); });
  }
}

void LeftoversReader::attachments_arrived(Result<kube::ApiReply> reply) {
  if (reply) {
    leftovers_.attachments = std::move(reply->body);
  } else {
    lacks(reply.error());
  }
  one_ended();
}

// Without one nobody knows how the node's clock is set, which is a doubt of its own.
void LeftoversReader::lease_arrived(const Result<kube::Lease>& lease) {
  if (lease) {
    leftovers_.lease_renewed = lease->record.renewed;
  } else if (lease.error().kind != Error::Kind::NotFound) {
    lacks(lease.error());
  }
  one_ended();
}

void LeftoversReader::gathered(const kube::Pod& pod, const Gathered& gathered) {
  if (!gathered.volumes_missing.empty() && leftovers_.unread.empty()) {
    leftovers_.unread = gathered.volumes_missing;
  }
  if (is_there_to_stay(pod)) {
    for (const auto& [name, attachment] : gathered.attachments) {
      leftovers_.used_attachments.insert(name);
    }
    leftovers_.inline_drivers.merge(policy::inline_drivers(*pod.raw));
    if (gathered.facts.volumes) {
      for (const policy::VolumeFacts& volume : *gathered.facts.volumes) {
        if (volume.handle.empty()) {
          continue;  // known by its attachment alone
        }
        leftovers_.used_volumes.insert("kubernetes.io/csi/" + volume.driver + "^" + volume.handle);
      }
    }
  }
  one_ended();
}

void LeftoversReader::lacks(const Error& error) {
  if (leftovers_.unread.empty()) {
    leftovers_.unread = error.message();
  }
}

void LeftoversReader::one_ended() {
  if (--pending_ == 0) {
    finish();
  }
}

void LeftoversReader::finish() {
  const Done done = std::move(done_);
  done(leftovers_);
}

}  // namespace moonfence::fence
