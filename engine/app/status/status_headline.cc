#include "app/status/status_headline.h"

#include <algorithm>

#include "app/status/status_words.h"
#include "base/text.h"

namespace moonfence::app {
namespace {

using State = policy::PolicyStatus::State;

std::string words_of_doubt(const std::string& cause) {
  if (cause == "stopped") {
    return "the engine itself stood still";
  }
  if (cause == "calls_fail") {
    return "most calls to the API server fail";
  }
  if (cause == "nodes_unwatched") {
    return "nothing was heard of the nodes";
  }
  if (cause == "policies_unwatched") {
    return "nothing was heard of the policies";
  }
  if (cause == "went_back") {
    return "the store of the API server went back in time";
  }
  return cause == "renews_late" ? "the Lease is renewed late" : cause;
}

void note_policies(const StatusSnapshot& snapshot, std::vector<Notice>& notices) {
  for (const std::string& fault : snapshot.policies.faults) {
    notices.push_back({.tone = Tone::Alarm,
                       .text = "Policies: " + fault,
                       .hint = "What ran before goes on. Mend the ConfigMap moonfence-policies."});
  }
  const policy::Idleness idle = snapshot.policies.idleness();
  if (idle.kind != policy::Idleness::Kind::None &&
      idle.kind != policy::Idleness::Kind::NoConfigMap) {
    notices.push_back({.tone = Tone::Warning,
                       .text = "Nothing is fenced, whatever fails: " + idle.text,
                       .hint = "Bind a policy in the ConfigMap moonfence-policies."});
  }
  for (const std::string& name : snapshot.policies.unbound) {
    notices.push_back({.tone = Tone::Warning,
                       .text = "Policy " + name + " has no binding: it is not in force",
                       .hint = "Name it in moonfence.yaml, or take its key out."});
  }
  for (const policy::PolicyStatus& policy : snapshot.policies.policies) {
    for (const Namespace& space : policy.absent) {
      notices.push_back({.tone = Tone::Warning,
                         .text = "Policy " + policy.name + " is bound to namespace " +
                                 space.text() + ", which does not exist",
                         .hint = "Make it, or mend the binding in moonfence.yaml."});
    }
    if (policy.held_back) {
      notices.push_back({.tone = Tone::Warning,
                         .text = "Policy " + policy.name + " for namespaces " + policy.namespaces +
                                 " " + held_back_text(policy, snapshot.policies) +
                                 ": it deletes nothing",
                         .hint = "Raise that, or let the binding say observe."});
    }
    if (policy.state == State::Rejected) {
      notices.push_back({.tone = Tone::Alarm,
                         .text = "Policy " + policy.name + " was rejected, and nothing of it runs" +
                                 (policy.holds ? "; the pods in its scope are held" : ""),
                         .hint = policy.error ? policy.error->text() : ""});
    } else if (policy.state == State::Stale) {
      notices.push_back(
          {.tone = Tone::Warning,
           .text = "An edit of policy " + policy.name + " was rejected; what ran before goes on",
           .hint = policy.error ? policy.error->text() : ""});
    } else if (policy.state == State::Failing) {
      notices.push_back(
          {.tone = Tone::Alarm,
           .text = "Policy " + policy.name + " fails; it is asked again, at least every minute",
           .hint = "Read the verdicts of the incident; mend the policy."});
    }
  }
}

void note_guard(const StatusSnapshot& snapshot, std::vector<Notice>& notices) {
  const StatusSnapshot::Guard& guard = snapshot.guard;
  if (guard.disrupted_zones > 0) {
    notices.push_back({.tone = Tone::Warning,
                       .text = "Most of " + counted(guard.disrupted_zones, "zone") +
                               (guard.disrupted_zones == 1 ? " is" : " are") +
                               " down: one node at a time is fenced there",
                       .hint = "Look at the zone."});
  }
  if (!guard.slowness.empty()) {
    notices.push_back({.tone = Tone::Alarm,
                       .text = "Nothing can be done: " + guard.slowness,
                       .hint = "Look at etcd's disks, at servers that are missing, at webhooks."});
  }
  if (snapshot.replica.leads && snapshot.replica.seat != kube::Seat::Well) {
    const bool down = snapshot.replica.seat == kube::Seat::Down;
    notices.push_back(
        {.tone = down ? Tone::Alarm : Tone::Warning,
         .text = "This replica acts from node " + snapshot.replica.node + ", which is " +
                 (down ? "down" : "being emptied") + "; no replica that sits better asks to lead" +
                 (down ? ", and this node's own pods are left alone" : ""),
         .hint = "Run a second replica on another node, or find out why it does not answer."});
  }
  if (guard.doubtful_nodes > 0) {
    std::string text = counted(guard.doubtful_nodes, "node") + " came back and " +
                       (guard.doubtful_nodes == 1 ? "is" : "are") +
                       " not proven clean; our taint stays";
    for (const auto& [node, why] : guard.kept) {
      text += "; " + node.text() + ": " + why;
    }
    notices.push_back({.tone = Tone::Warning,
                       .text = std::move(text),
                       .hint = "Reboot it, or take the taint moonfence.io/fenced off yourself."});
  }
  if (guard.audit_failures > 0) {
    notices.push_back({.tone = Tone::Alarm,
                       .text = counted(guard.audit_failures, "audit record") +
                               " could not be written; without an intent nothing is deleted",
                       .hint = "Free space for the audit log."});
  }
}

void note_sources(const StatusSnapshot& snapshot, std::vector<Notice>& notices) {
  for (const fence::SourceState& source : snapshot.guard.sources) {
    if (const std::string text = unreadable_text(source); !text.empty()) {
      notices.push_back({.tone = Tone::Alarm,
                         .text = text,
                         .hint = "Look at the endpoint and at allowedReads in the engine's "
                                 "configuration, and at the policy's source."});
    }
    if (const std::string text = strangers_text(source); !text.empty()) {
      notices.push_back({.tone = Tone::Warning,
                         .text = text,
                         .hint = "The policy's source must call nodes as `kubectl get nodes` does; "
                                 "those that are gone can be taken off the storage too."});
    }
  }
}

void note_fencers(const StatusSnapshot& snapshot, std::vector<Notice>& notices) {
  const std::size_t broken = snapshot.fencers ? snapshot.fencers->counts.broken : 0;
  if (broken > 0) {
    notices.push_back({.tone = Tone::Warning,
                       .text = counted(broken, "node") + (broken == 1 ? " has" : " have") +
                               " a fencer that does not work: it could not prove that the machine "
                               "is off",
                       .hint = "`moonfence fencer check` says why, and asks again."});
  }
}

Notice unready(const std::string& check, const std::string& why) {
  return {.tone = Tone::Alarm, .text = "Not ready, " + check + ": " + why, .hint = {}};
}

std::vector<Notice> notices_of(const StatusSnapshot& snapshot) {
  std::vector<Notice> notices;
  for (const auto& [check, why] : snapshot.not_ready) {
    notices.push_back(unready(check, why));
  }
  note_policies(snapshot, notices);
  note_guard(snapshot, notices);
  note_sources(snapshot, notices);
  note_fencers(snapshot, notices);
  std::stable_sort(notices.begin(), notices.end(),
                   [](const Notice& one, const Notice& other) { return one.tone > other.tone; });
  return notices;
}

Headline frozen_by_doubt(const StatusSnapshot& snapshot) {
  std::vector<std::string> causes;
  for (const std::string& cause : snapshot.guard.doubts) {
    causes.push_back(words_of_doubt(cause));
  }
  return {.tone = Tone::Alarm,
          .title = "Frozen: the engine doubts itself",
          .text = "Nothing is deleted: " + joined(causes, ", ") +
                  ". It goes on by itself when that is over and the nodes were listed anew.",
          .notices = {}};
}

Headline frozen_by_brake(const StatusSnapshot& snapshot) {
  const StatusSnapshot::Guard& guard = snapshot.guard;
  return {.tone = Tone::Alarm,
          .title = "Frozen: too many nodes are down",
          .text = "The brake lets nothing be deleted: " + guard.down_text + "; the limit is " +
                  guard.max_down +
                  ". Find out what they have in common: network, control plane, power.",
          .notices = {}};
}

}  // namespace

std::string unreadable_text(const fence::SourceState& source) {
  return source.fault.empty() ? std::string()
                              : "The health source of policy " + source.policy +
                                    " cannot be read, and no node that it would call failed is "
                                    "fenced by it: " +
                                    source.fault;
}

std::string strangers_text(const fence::SourceState& source) {
  constexpr std::size_t kMostNames = 5;
  if (source.strangers.empty()) {
    return {};
  }
  std::vector<std::string> names;
  for (const NodeName& name : source.strangers) {
    if (names.size() == kMostNames) {
      names.emplace_back("…");
      break;
    }
    names.push_back(escaped(name.text(), 64));
  }
  return "The health source of policy " + source.policy + " names " +
         counted(source.strangers.size(), "node") +
         " that the cluster does not have: " + joined(names, ", ");
}

std::string states_text(const StatusSnapshot& snapshot) {
  std::vector<std::string> parts;
  for (const fence::IncidentStatus::State state : fence::IncidentStatus::kStates) {
    const std::uint64_t number = snapshot.count(state);
    if (number > 0 && state != fence::IncidentStatus::State::UnderWay) {
      parts.push_back(std::to_string(number) + " " + std::string(to_string(state)));
    }
  }
  return joined(parts, ", ");
}

namespace {

// The ceiling permits it, and some binding goes as far.
bool may_act(const StatusSnapshot& snapshot) {
  const std::vector<policy::PolicyStatus>& policies = snapshot.policies.policies;
  return snapshot.policies.mode == policy::Mode::Enforce &&
         (policies.empty() || std::any_of(policies.begin(), policies.end(), [](const auto& policy) {
            return policy.mode == policy::Mode::Enforce;
          }));
}

Headline fencing(const StatusSnapshot& snapshot) {
  const bool enforces = may_act(snapshot);
  const std::uint64_t waiting = snapshot.guard.waiting;
  Headline headline = {.tone = Tone::Busy,
                       .title = (enforces ? "Fencing: " : "Observing: ") +
                                counted(snapshot.open_incidents, "incident") + " under way",
                       .text = enforces ? "Pods of nodes that are down are judged, and deleted if "
                                          "a policy says so and the guard agrees."
                                        : "Pods of nodes that are down are judged. Nothing is "
                                          "deleted.",
                       .notices = {}};
  if (const std::string states = states_text(snapshot); !states.empty()) {
    headline.text += " Of them " + states + ".";
  }
  if (waiting > 0) {
    headline.text += " " + counted(waiting, "incident") + (waiting == 1 ? " waits" : " wait") +
                     " for the brake.";
  }
  if (snapshot.guard.failing > 0) {
    headline.tone = Tone::Alarm;
    headline.text += " In " + counted(snapshot.guard.failing, "incident") +
                     " something has failed for more than a minute; it is tried again at least "
                     "every minute. The incident says what.";
  }
  return headline;
}

Headline state_of(const StatusSnapshot& snapshot, WallTime now) {
  if (now - snapshot.taken > kStale) {
    return {.tone = Tone::Alarm,
            .title = "This picture is old",
            .text = "The engine's loop has not told anything since " + clock_text(snapshot.taken) +
                    " UTC: it is frozen or starved. Look at /healthz and at its CPU.",
            .notices = {}};
  }
  if (!snapshot.synced) {
    return {.tone = Tone::Waiting,
            .title = "Starting",
            .text = "The nodes were not listed yet; nothing is done before they are.",
            .notices = {}};
  }
  if (!snapshot.guard.doubts.empty()) {
    return frozen_by_doubt(snapshot);
  }
  if (!snapshot.replica.leads) {
    return {.tone = Tone::Neutral,
            .title = "Standing by",
            .text = snapshot.replica.holder.empty()
                        ? "Nobody is known to hold the Lease. This replica asks for it."
                        : "Another replica acts, and knows of incidents under way: " +
                              holder_name(snapshot.replica.holder) + ".",
            .notices = {}};
  }
  if (snapshot.policies.mode == policy::Mode::Off) {
    return {.tone = Tone::Warning,
            .title = "Off: nothing is judged",
            .text = "Set by " + snapshot.policies.mode_set_by +
                    ". Whatever fails is left alone until it is lifted.",
            .notices = {}};
  }
  if (snapshot.guard.too_many_down) {
    return frozen_by_brake(snapshot);
  }
  if (snapshot.open_incidents > 0) {
    return fencing(snapshot);
  }
  const bool enforces = may_act(snapshot);
  return {.tone = Tone::Good,
          .title = "All quiet",
          .text = enforces ? "No incident is under way. When a node fails, this replica acts."
                           : "No incident is under way. When a node fails, its pods are judged and "
                             "nothing is deleted.",
          .notices = {}};
}

}  // namespace

Headline headline_of(const StatusSnapshot& snapshot, WallTime now) {
  Headline headline = state_of(snapshot, now);
  headline.notices = notices_of(snapshot);
  if (headline.tone == Tone::Good && !headline.notices.empty()) {
    headline.tone = headline.notices.front().tone;
    headline.title = "Quiet, but look at this";
  }
  return headline;
}

}  // namespace moonfence::app
