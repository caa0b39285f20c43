#pragma once

// A rehearsal is the engine itself (app/engine/engine.h), not one line of it replaced, in front of
// a live cluster of which it can only read (app/rehearsal/rehearsal_http.h): what it comes to is
// what `moonfence run` would come to. It is told which nodes to look at, and ends when nothing is
// left to do but to wait. Hold-downs are not waited for: time runs ahead
// (app/rehearsal/hasty_poller.h).

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/engine/engine.h"
#include "app/rehearsal/rehearsal_http.h"
#include "policy/bundle/policy_set.h"
#include "policy/lua/trace.h"

namespace moonfence::app {

// A policy that was asked about a pod, or whose word on the whole node stands for the pod too.
struct Evaluated {
  PodRef pod;
  std::string policy;
  std::string digest;
  policy::Mode mode = policy::Mode::Observe;
  std::vector<policy::FieldRead> reads;
};

struct Rehearsed {
  struct Node {
    NodeName name;
    Engine::Supposed supposed = Engine::Supposed::Unknown;
    bool although_up = false;  // it was only supposed to be down
  };
  std::vector<Node> nodes;
  std::vector<nlohmann::json> records;  // of the audit, in order
  std::vector<Write> writes;            // in order
  std::vector<Evaluated> evaluated;
  Duration ahead{};                // how long the hold-downs are that were not waited for
  std::vector<std::string> notes;  // what the engine warned of
  bool complete = true;            // false: it was cut short
  std::shared_ptr<const policy::PolicySet> policies;
};

// `although_up`: nodes that are up are supposed to be down; those that are down are read as they
// are. An error says what to do.
[[nodiscard]] Result<Rehearsed> rehearse(Assignment assignment, const std::vector<NodeName>& nodes,
                                         bool although_up);

// The same beside another world than the real one.
struct RehearsalGround {
  loop::Poller& poller;
  port::Http& http;
  port::Files& files;
  port::WallClock& wall_clock;
  port::CpuClock& cpu_clock;
  port::Random& random;
  std::function<std::unique_ptr<port::Processes>(loop::Loop&)> processes;
};
[[nodiscard]] Result<Rehearsed> rehearse(Assignment assignment, const std::vector<NodeName>& nodes,
                                         bool although_up, const RehearsalGround& ground);

}  // namespace moonfence::app
