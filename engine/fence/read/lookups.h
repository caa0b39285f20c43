#pragma once

// Lookups reads each object of the API at most once in a pass, whoever asks for it how often, and a
// bounded number at a time: live reads of the node must find room beside them.
//
// Objects of a collection that may be listed are read one by one while there are few. When
// kListFrom of one collection are asked for together, or wait for their turn, it is listed in their
// place (kube/calls/find_items), unless its first page shows that it has more than kItemsForOneRead
// items for each that is looked for; what the list did not tell is read one by one after all.

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "kube/calls/reader.h"
#include "kube/wire/caller.h"

namespace moonfence::fence {

class Lookups {
 public:
  // The path without the name, and the kind of its objects, which items of a list lack.
  struct Collection {
    std::string_view path;
    std::string_view kind;
    // An account of before the right to read one by itself may list them: then that one is listed.
    bool may_be_only_listed = false;
  };
  static constexpr std::size_t kParallelReads = 32;
  // One page of a list costs as much as so many reads (docs/performance.md).
  static constexpr std::size_t kListFrom = 64;

  using Body = std::shared_ptr<const nlohmann::json>;  // null: there is no such object (404)
  using Done = std::function<void(const Result<Body>&)>;

  explicit Lookups(kube::Reader& reader) : reader_(reader) {}
  Lookups(const Lookups&) = delete;
  Lookups& operator=(const Lookups&) = delete;

  // While one lives nothing is sent: what is asked for meanwhile is asked for together. It may
  // outlive its Lookups.
  class Together {
   public:
    explicit Together(Lookups& lookups) : lookups_(lookups), alive_(lookups.alive_) {
      ++lookups_.held_;
    }
    Together(const Together&) = delete;
    Together& operator=(const Together&) = delete;
    ~Together() {
      if (!alive_.expired() && --lookups_.held_ == 0) {
        lookups_.pump();
      }
    }

   private:
    Lookups& lookups_;
    const std::weak_ptr<bool> alive_;
  };

  // Calls back at once when the answer is here, else in a later turn; never after destruction. A
  // path that could not be made is answered by its error.
  void get(const Result<std::string>& path, Done done);
  // The same of an object whose collection may be listed; `path` tells it apart from others.
  void get_of(const Collection& collection, const std::string& name,
              const Result<std::string>& path, Done done);
  // A collection: it may be large, and goes where it holds up no live read.
  void list(const Result<std::string>& path, const kube::Query& query, Done done,
            kube::Reader::ListForm form = {});

  [[nodiscard]] std::size_t requests() const { return lookups_.size(); }

 private:
  // Objects of one collection, while they wait.
  struct Group;
  struct Lookup {
    std::string path;
    kube::Query query;
    bool is_list = false;
    kube::Reader::ListForm form;  // of a list
    Group* group = nullptr;       // null: it is read by itself
    std::string name;             // within the group
    bool is_listed = false;       // read from a list of its name
    std::optional<Result<Body>> answer;
    std::vector<Done> waiting;
    kube::CallHandle call;
  };
  struct Group {
    std::string path;
    std::string kind;
    bool may_be_only_listed = false;
    std::deque<Lookup*> queue;                  // for their turn, or for the end of the list
    std::map<std::string, Lookup*> looked_for;  // by the list under way
    bool given_up = false;                      // a list did not pay, or failed
    kube::CallHandle list;
  };
  [[nodiscard]] Lookup* look_up(const Result<std::string>& path, const kube::Query& query,
                                Done done, kube::Reader::ListForm form = {});
  void pump();
  void pump(Group& group);
  void send(Lookup& next);
  void arrived(Lookup& lookup, Result<kube::ApiReply> reply);
  void list(Group& group);
  [[nodiscard]] static std::set<std::string> begin(Group& group);
  void listed(Group& group, kube::FoundItems found);
  void answer(Lookup& lookup, Result<Body> answer);

  kube::Reader& reader_;
  // By path, query and form; its elements stay where they are.
  std::map<std::string, Lookup> lookups_;
  std::map<std::string, Group> groups_;  // by path; so do these
  std::deque<Lookup*> queue_;            // those without a group
  std::size_t in_flight_ = 0;
  std::size_t held_ = 0;  // by so many Together
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

constexpr Lookups::Collection kVolumes = {"/api/v1/persistentvolumes", "PersistentVolume"};
constexpr Lookups::Collection kAttachments = {"/apis/storage.k8s.io/v1/volumeattachments",
                                              "VolumeAttachment"};

}  // namespace moonfence::fence
