#pragma once

// RemainsSearch reads what a node that came back may still hold (fence/remains): its pods with
// their volumes, all VolumeAttachments, and the events that tell of a started kubelet.

#include <functional>
#include <memory>
#include <vector>

#include "fence/gathering.h"
#include "fence/remains.h"
#include "fence/surroundings.h"

namespace moonfence::fence {

class RemainsSearch {
 public:
  using Done = std::function<void(const Remains&)>;

  // `done` hears it in a later turn, and may destroy this.
  RemainsSearch(Surroundings& around, const NodeName& node, Done done);
  RemainsSearch(const RemainsSearch&) = delete;
  RemainsSearch& operator=(const RemainsSearch&) = delete;

 private:
  void pods_arrived(const Result<kube::ItemTexts>& listed);
  void list_arrived(Result<kube::ApiReply> reply, nlohmann::json& into);
  void gathered(const kube::Pod& pod, const Gathered& facts);
  void lacks(const Error& error);
  void one_ended();

  Done done_;
  Remains remains_;
  Gathering gathering_;
  std::size_t pending_ = 3;
  std::vector<kube::CallHandle> calls_;
};

}  // namespace moonfence::fence
