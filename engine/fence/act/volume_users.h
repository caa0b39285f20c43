#pragma once

// VolumeUsers knows which pods of a failed node use which volumes, so that nothing is detached that
// another pod of the node uses (hazard H24). A volume is known by driver and handle, and by the
// attachment's name. Who uses a volume whose attachment nobody can name may use each of its driver,
// and while the volumes of one pod are unknown, that pod may use each of them. Filled in every pass
// anew; pure.

#include <map>
#include <set>
#include <string>

#include "base/names.h"
#include "fence/read/fact_reader.h"
#include "kube/objects/objects.h"
#include "policy/values/facts.h"

namespace moonfence::fence {

class VolumeUsers {
 public:
  // A pod of the node. `of_successor`: of the machine that has the node's name now.
  void saw(const kube::Pod& pod, const Gathered& gathered, bool of_successor);
  // There may be more pods.
  void incomplete();
  void pod_gone(const Uid& pod) { gone_.insert(pod); }

  [[nodiscard]] bool has_seen(const Uid& pod) const { return seen_.contains(pod); }
  [[nodiscard]] bool is_gone(const Uid& pod) const { return gone_.contains(pod); }
  [[nodiscard]] bool is_there(const Uid& pod) const { return has_seen(pod) && !is_gone(pod); }
  // Who but this pod may use the volume, for people; "" for nobody.
  [[nodiscard]] std::string other_user(const policy::VolumeFacts& volume, const Uid& pod) const;
  [[nodiscard]] bool is_used_by_successor(const policy::VolumeFacts& volume) const;
  // Of an attachment, by name: some pod uses it, or may.
  [[nodiscard]] bool may_use(const std::string& attachment) const {
    return !blind_.empty() || used_.contains(attachment);
  }
  // Some pod uses a volume of the driver, and nobody can tell which.
  [[nodiscard]] bool has_inline_user(const std::string& driver) const;

 private:
  // The name of a pod that is noted under the key, "" for none but this one.
  [[nodiscard]] std::string other_user(const std::string& key, const Uid& pod) const;

  // By volume, attachment or driver: pods, with their names.
  std::map<std::string, std::map<Uid, std::string>> users_;
  std::set<Uid> seen_;
  std::set<Uid> gone_;
  std::set<Uid> of_successor_;
  std::set<std::string> used_;  // attachments, by name
  std::string blind_;           // why some pod's volumes are unknown; "" when all are known
};

}  // namespace moonfence::fence
