#pragma once

// Live reads of the objects that an incident needs. Nothing here changes the cluster.

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/names.h"
#include "kube/calls/access.h"
#include "kube/calls/find_items.h"
#include "kube/calls/list_items.h"
#include "kube/kubelet/kubelet_api.h"
#include "kube/leases/lease.h"
#include "kube/leases/lease_list.h"
#include "kube/objects/objects.h"
#include "kube/wire/caller.h"

namespace moonfence::kube {

struct PodQuery {
  NodeName node;
  Namespace space;             // empty: all namespaces
  std::string label_selector;  // empty: all pods
  // The answer may come from the server's watch cache but is not older than this; empty: most
  // recent. A node event's version works for pods because both come from one etcd revision counter.
  // Reading 12,000 pods from etcd on 1.20 takes 350 ms, this 6 ms.
  ResourceVersion not_older_than;
};

class Reader {
 public:
  explicit Reader(Caller& caller) : caller_(caller) {}

  // With resourceVersion unset: a quorum read, never a cache. NotFound when the node is gone, by
  // two reads, of which `looks` announces the second (kube/calls/named_read).
  [[nodiscard]] CallHandle get_node(const NodeName& name, std::function<void(Result<Node>)> done,
                                    std::function<void()> looks = nullptr);

  // A VolumeAttachment by name; NotFound when it is gone, likewise.
  [[nodiscard]] CallHandle get_attachment(const std::string& name,
                                          std::function<void(Result<Attachment>)> done);
  // The Lease of the node's kubelet, a quorum read too; NotFound when it has none. An answer that
  // takes longer than `limit` is of no use.
  [[nodiscard]] CallHandle get_node_lease(const NodeName& name, Duration limit,
                                          std::function<void(Result<Lease>)> done);

  // Whether our account has the right.
  [[nodiscard]] CallHandle may(const Right& right, std::function<void(Result<bool>)> done);

  // What the node's kubelet says runs there (kube/kubelet/kubelet_api). Needs a right of its own.
  [[nodiscard]] CallHandle ask_kubelet(const NodeName& name,
                                       std::function<void(Result<KubeletWord>)> done);

  // The Leases of all nodes, in one list that may come from the server's watch cache.
  [[nodiscard]] CallHandle list_node_leases(ListFrom from, Duration limit,
                                            std::function<void(Result<LeaseSigns>)> done);

  // All pages, complete, one JSON text a pod in the server's order (by namespace and name), to be
  // decoded with a PodDecoder: the first can be acted on while the others are still texts.
  // When the server cannot serve the asked version (410, 504 too large) the list is read again
  // without it. `pages`: see kube/calls/list_items.
  [[nodiscard]] CallHandle list_pods(const PodQuery& query,
                                     std::function<void(Result<ItemTexts>)> done,
                                     ItemPages pages = {});

  // The pods of a namespace wherever they are, or the one of this name, one by one; most recent. A
  // namespace may have tens of thousands.
  [[nodiscard]] CallHandle list_namespace_pods(const Namespace& space, const std::string& name,
                                               ItemFlow flow,
                                               std::function<void(Result<ResourceVersion>)> done);

  // GET of any path; and of one that ends with that name, in a collection that we may list.
  [[nodiscard]] CallHandle get(std::string path, std::function<void(Result<ApiReply>)> done);
  [[nodiscard]] CallHandle get_named(std::string path, std::string name,
                                     std::function<void(Result<ApiReply>)> done);
  // The same where we may only list the collection, of this path: the list of that one name, which
  // the server reads by its key. NotFound when it is empty.
  [[nodiscard]] CallHandle get_listed(std::string path, const std::string& name,
                                      std::function<void(Result<ApiReply>)> done);
  // Collections, by path, of which one object by itself was forbidden us: remembered, or every pass
  // would be refused anew.
  void only_list(const std::string& path) { only_listed_.insert(path); }
  [[nodiscard]] bool is_only_listed(const std::string& path) const {
    return only_listed_.contains(path);
  }
  static constexpr std::size_t kListLimit = std::size_t{64} << 20U;
  // How a collection is to be answered.
  struct ListForm {
    std::size_t limit = kListLimit;  // bytes
    bool metadata_only = false;      // see ApiRequest
  };
  // A collection in one answer, on the lane of the lists.
  [[nodiscard]] CallHandle get_list(std::string path, Query query,
                                    std::function<void(Result<ApiReply>)> done, ListForm form);
  // Many named objects of one collection by listing it; see find_items.
  [[nodiscard]] CallHandle find(std::string path, std::function<std::set<std::string>()> names,
                                std::function<void(FoundItems, const Result<void>&)> done);

 private:
  Caller& caller_;
  std::set<std::string> only_listed_;
};

}  // namespace moonfence::kube
