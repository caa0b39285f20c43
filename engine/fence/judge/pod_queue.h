#pragma once

// PodQueue brings the pods of a node before whoever judges them, one after another: each is decoded
// once, what policies need to know about it is gathered (fence/read/fact_reader), and it is judged
// when that is known. It goes in slices of at most kPodsPerTurn verdicts and about kSliceTime, so
// that neither a node with hundreds of pods nor a slow script holds up the loop, and what the first
// of them decide need not wait for the others.

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/names.h"
#include "fence/read/fact_reader.h"
#include "fence/read/surroundings.h"
#include "kube/objects/decode.h"
#include "kube/objects/objects.h"
#include "loop/loop.h"

namespace moonfence::fence {

class PodQueue {
 public:
  static constexpr std::size_t kPodsPerTurn = 32;
  // The first write of the record waits for the first; answers that arrive during one for its end.
  static constexpr Duration kSliceTime = std::chrono::microseconds(250);
  // Few go together: another write of the record for the last of them costs more than the first
  // one's wait.
  static constexpr std::size_t kFew = 16;
  static constexpr Duration kFewTime = std::chrono::milliseconds(2);
  // Of one in which nothing can be judged yet. What is gathered for many pods together is a list,
  // for few one read after another.
  static constexpr Duration kTakingUpTime = std::chrono::milliseconds(20);

  class PodQueueUser {
   public:
    virtual ~PodQueueUser() = default;
    // Each pod once, as it came first: what has to be known about it.
    [[nodiscard]] virtual Wants taken_up(const kube::Pod& pod) = 0;
    // Only where something had to be.
    virtual void gathered(const kube::Pod& pod, const Gathered& known) = 0;
    virtual void judge(kube::Pod pod, const Gathered& known,
                       const policy::ClusterFacts& cluster) = 0;
    // A pod that was taken up before came again, in another version.
    virtual void came_again(const kube::Pod& pod) = 0;
    // One pod that cannot be understood must not keep us from the others.
    virtual void undecodable(const Error& error) = 0;
    // The last call of each slice. May end the queue.
    virtual void slice_ended() = 0;
  };

  // Both must outlive it.
  PodQueue(Surroundings& surroundings, PodQueueUser& user);
  PodQueue(const PodQueue&) = delete;
  PodQueue& operator=(const PodQueue&) = delete;

  // As JSON, or decoded. Before begin() they wait.
  void add(std::vector<std::string> pods) { append(std::move(pods)); }
  void add(std::vector<kube::Pod> pods) { append(std::move(pods)); }
  // `gathering` must outlive it, or its retirement. `first`: pods in the first slice, which is in
  // this turn.
  void begin(FactReader& fact_reader, std::size_t first = kPodsPerTurn);
  // What is taken up from now on is gathered by this one; under the same terms.
  void gather_by(FactReader& fact_reader) { fact_reader_ = &fact_reader; }
  // All that were added are judged.
  [[nodiscard]] bool is_done() const;
  [[nodiscard]] bool has_begun() const { return fact_reader_ != nullptr; }
  // There is more, and a slice is due in the next turn.
  [[nodiscard]] bool goes_on() const { return to_come() > 0; }
  // So many pods.
  [[nodiscard]] std::size_t to_come() const {
    return has_begun() ? known_.size() + pods_.size() : 0;
  }
  // What was added and is not taken up yet is not brought up. It is destroyed with the queue: that
  // takes time which whoever waits for a verdict need not wait for.
  void drop() { dropped_ = std::exchange(pods_, {}); }
  // Those of it that are texts, for another queue; what was added decoded is dropped.
  [[nodiscard]] std::vector<std::string> take_texts();
  // Nothing is brought up any more.
  void retire();

 private:
  using Brought = std::variant<std::string, kube::Pod>;
  // A pod with all that its policies need to know.
  struct Known {
    kube::Pod pod;
    Gathered gathered;
  };
  void go_on(std::size_t most);
  void go_on_soon();
  template <class Pod>
  void append(std::vector<Pod> pods);
  [[nodiscard]] Result<kube::Pod> decoded(Brought brought);
  void take_up(Brought brought);

  Surroundings& around_;
  PodQueueUser& user_;
  FactReader* fact_reader_ = nullptr;
  std::deque<Brought> pods_;  // that were not taken up yet, each decoded when its turn comes
  std::deque<Brought> dropped_;
  kube::PodDecoder decoder_;
  // A pod may come twice: while lists are read page by page, or because they are read twice.
  std::map<Uid, ResourceVersion> seen_;
  std::size_t reading_facts_of_ = 0;
  std::deque<Known> known_;  // ready to be judged
  loop::Timer next_slice_;
  std::shared_ptr<const void> alive_;  // what is gathered may come when we are gone
};

}  // namespace moonfence::fence
