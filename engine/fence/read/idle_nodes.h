#pragma once

// IdleNodes finds out which of the nodes that pull the brake carry nothing that could be moved: a
// machine that only ran what belongs to every machine is no loss, and no sign of a storm. It reads
// the pods of one such node at a time, most recent, each node once for each time it falls, and only
// while too many are down; whoever cannot be read counts on, and so does one on which we acted: it
// carries nothing because we deleted it.

#include <functional>
#include <map>

#include "base/names.h"
#include "fence/brake/brake.h"
#include "kube/calls/reader.h"
#include "loop/loop.h"
#include "port/log.h"

namespace moonfence::fence {

// Whether a node that carries these pods carries nothing that could run elsewhere; false for what
// cannot be decoded.
[[nodiscard]] bool carries_nothing(const std::vector<std::string>& pods);

class IdleNodes {
 public:
  static constexpr Duration kAskedAgain = std::chrono::minutes(1);  // after an error

  // `excuse` hears of each that carries nothing. All references must outlive it.
  IdleNodes(loop::Loop& loop, kube::Reader& reader, const Brake& brake, port::Log& log,
            std::function<void(const NodeName&)> excuse);
  IdleNodes(const IdleNodes&) = delete;
  IdleNodes& operator=(const IdleNodes&) = delete;

  // To be called now and then while we act.
  void look();

 private:
  void read(const NodeName& node);
  void arrived(const NodeName& node, const Result<kube::ItemTexts>& pods);

  loop::Loop& loop_;
  kube::Reader& reader_;
  const Brake& brake_;
  port::Log& log_;
  const std::function<void(const NodeName&)> excuse_;
  std::map<NodeName, Moment> asked_;  // until when that holds
  kube::CallHandle call_;
  loop::Timer next_;
};

}  // namespace moonfence::fence
