#include "fence/incident/storage_poll.h"

#include <algorithm>
#include <utility>

#include "kube/objects/decode.h"

namespace moonfence::fence {

StorageWait waits_for_storage(const Memory& memory) {
  StorageWait wait;
  for (const auto& [name, detachment] : memory.detachments) {
    if (detachment.releases && detachment.asked &&
        wait.attachments.size() < StoragePoll::kMostAttachments) {
      wait.attachments.insert(name);
    }
  }
  for (const auto& [name, pending] : memory.releases) {
    if (pending.sent_at) {
      wait.volumes.insert(pending.name);
    }
  }
  return wait;
}

StoragePoll::StoragePoll(Surroundings& surroundings, NodeName node, std::function<void()> moved)
    : around_(surroundings), node_(std::move(node)), moved_(std::move(moved)) {}

void StoragePoll::keep(StorageWait wait) {
  if (wait != wait_) {
    wait_ = std::move(wait);
    since_ = around_.access.loop.now();
    told_ = false;
  }
  if (wait_ == StorageWait{} || told_) {
    rest();
  } else if (!next_.pending() && pending_ == 0) {
    look();
  }
}

void StoragePoll::rest() {
  next_.cancel();
  reads_.clear();
  pending_ = 0;
}

void StoragePoll::look() {
  reads_.clear();
  has_moved_ = false;
  pending_ = wait_.attachments.size() + (wait_.volumes.empty() ? 0 : 1);
  for (const std::string& name : wait_.attachments) {
    reads_.push_back(around_.access.reader.get_attachment(
        name, [this](const Result<kube::Attachment>& attachment) {
          saw(!attachment && attachment.error().kind == Error::Kind::NotFound);
        }));
  }
  if (!wait_.volumes.empty()) {
    reads_.push_back(around_.access.reader.get_node(node_, [this](const Result<kube::Node>& node) {
      const auto storage = node ? kube::decode_node_storage(*node->raw)
                                : Result<kube::NodeStorage>(failure(Error(node.error())));
      saw(storage &&
          std::any_of(wait_.volumes.begin(), wait_.volumes.end(),
                      [&storage](const auto& name) { return !is_attached(*storage, name); }));
    }));
  }
}

void StoragePoll::saw(bool has_moved) {
  has_moved_ = has_moved_ || has_moved;
  if (--pending_ > 0) {
    return;
  }
  const auto objects = static_cast<Duration::rep>(wait_.attachments.size() + wait_.volumes.size());
  const Duration pause = std::clamp((around_.access.loop.now() - since_) / 10,
                                    Duration(kFirstPause), Duration(kLongestPause));
  // Not inside the answer to a read of ours.
  next_ = around_.access.loop.after(
      has_moved_ ? Duration::zero() : std::max(pause, kEach * objects), [this] {
        if (std::exchange(has_moved_, false)) {
          told_ = true;
          moved_();
        } else {
          look();
        }
      });
}

}  // namespace moonfence::fence
