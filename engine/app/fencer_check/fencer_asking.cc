#include "app/fencer_check/fencer_asking.h"

#include <memory>
#include <utility>

#include "cluster/nodes/ready_condition.h"

namespace moonfence::app {
namespace {

// A dead BMC takes up one place for its time-out.
constexpr std::size_t kAtOnce = 16;

class Round {
 public:
  Round(const FencerAsking& asking, const std::vector<kube::Node>& nodes)
      : asking_(asking), nodes_(nodes), line_(asking), questions_(nodes.size()) {}

  std::vector<FencerReport::Node> play() {
    for (const kube::Node& node : nodes_) {
      told_.push_back({.name = node.name.text(),
                       .is_ready = cluster::readiness_of(node) == cluster::Readiness::True});
    }
    do {
      while (next_ < nodes_.size() && under_way_ < kAtOnce) {
        ask(next_++);
      }
      if (under_way_ > 0) {
        line_.loop().turn();
      }
    } while (next_ < nodes_.size() || under_way_ > 0);
    return std::move(told_);
  }

 private:
  void ask(std::size_t at) {
    auto whom = fence::fencers_of(nodes_[at], asking_.fencers);
    if (whom.empty()) {
      return;
    }
    ++under_way_;
    questions_[at] = std::make_shared<fence::PowerQuestion>(
        line_.around(), nodes_[at], std::move(whom), fence::PowerQuestion::Until::All,
        [this, at](const fence::PowerQuestion& question) {
          told_[at].words = question.words();
          --under_way_;
          fence::PowerQuestion::leave(line_.loop(), std::exchange(questions_[at], nullptr));
        });
  }

  const FencerAsking& asking_;
  const std::vector<kube::Node>& nodes_;
  std::vector<FencerReport::Node> told_;
  std::size_t next_ = 0;
  std::size_t under_way_ = 0;
  FencerLine line_;
  std::vector<std::shared_ptr<fence::PowerQuestion>> questions_;
};

}  // namespace

std::vector<FencerReport::Node> ask_fencers(const FencerAsking& asking,
                                            const std::vector<kube::Node>& nodes) {
  return Round(asking, nodes).play();
}

}  // namespace moonfence::app
