#include "app/next_step.h"

#include <array>
#include <cctype>

#include "audit/explanation.h"
#include "audit/reason.h"

namespace moonfence::app {
namespace {

using audit::Reason;

struct Advice {
  Reason reason;
  std::string_view text;
};

constexpr std::array kAdvices = {
    Advice{Reason::ModeObserves,
           "set `mode: enforce` in the policy's binding, in moonfence.yaml, and see that neither "
           "the ConfigMap's mode nor --mode holds it back"},
    Advice{Reason::PolicyForbids,
           "ask whoever wrote the policy that forbids it; it wins over all "
           "others, and is asked again every minute"},
    Advice{Reason::PolicyHolds, "nothing: the policy that holds it is asked again by itself"},
    Advice{Reason::PolicySkips,
           "nothing, if that is what the policy is meant to say; its settings "
           "stand in moonfence.yaml, `moonfence policy doc NAME` lists them"},
    Advice{Reason::PolicyWaits, "nothing: it is asked again by itself"},
    Advice{Reason::PolicyFailed, "mend the policy; `moonfence policy eval` runs it on this pod"},
    Advice{Reason::PolicyFailing, "mend the policy; it is asked again, at least every minute"},
    Advice{Reason::GuardFailed, "mend the policy that fails; until then it holds the pod"},
    Advice{Reason::GuardBroken,
           "mend the policy that cannot be loaded; `moonfence status` shows "
           "its error"},
    Advice{Reason::PolicyConflict,
           "read what each policy says: one that waits wins over one that acts; of two that want "
           "other actions, put the binding that is to decide first in moonfence.yaml"},
    Advice{
        Reason::NeedsUnread,
        "see why it cannot be read, it is tried again by itself: whether who is asked answers, and "
        "whether the engine has the right to read it"},
    Advice{Reason::MirrorPod, "nothing: a static pod comes back with its machine"},
    Advice{Reason::DaemonSetPod, "nothing: a DaemonSet's pod would be made on the same node again"},
    Advice{Reason::FinishedPod,
           "nothing, unless something waits for it: `allow: [finished-pods]` "
           "in the binding"},
    Advice{Reason::BarePod,
           "delete it by hand, or `allow: [bare-pods]` in the binding: nothing "
           "would make it anew"},
    Advice{Reason::OwnerNotController,
           "find out whether its owner makes it anew; if so, `allow: [bare-pods]` in the binding"},
    Advice{Reason::ProtectedNamespace,
           "nothing, unless the namespace should be touched: "
           "protectedNamespaces of the engine's configuration"},
    Advice{Reason::OnHold, "ask whoever set the annotation, or take it off"},
    Advice{Reason::OwnNode,
           "run a second replica on another node: the one that acts sits on this "
           "node and hands over to any that sits better"},
    Advice{Reason::TooManyDown,
           "find out why so many nodes are down; leave out those that do not "
           "matter by brake.exclude, raise brake.maxDown only if that is usual"},
    Advice{Reason::TooManyAtOnce, "nothing: it waits for its turn"},
    Advice{Reason::TooManyInWindow,
           "nothing: it goes on when the window has passed, see "
           "brake.maxPerWindow"},
    Advice{Reason::ZoneDisrupted,
           "find out what is wrong with the zone; its nodes go one at a "
           "time"},
    Advice{Reason::LeaseAlive, "look at the machine: its kubelet still renews its Lease"},
    Advice{Reason::LeaseUnreadable,
           "see whether the API server answers and whether the engine may read Leases in "
           "kube-node-lease"},
    Advice{Reason::SignalUnfit,
           "nothing while its kubelet lives: the policy acts on dead machines "
           "only"},
    Advice{Reason::AwaitingTaint,
           "nothing: Kubernetes sets the taint within seconds; with "
           "`quarantine: missing` the engine sets one of its own"},
    Advice{Reason::NotTainted,
           "nothing: Kubernetes sets the taint within seconds; with "
           "`quarantine: missing` the engine sets one of its own"},
    Advice{Reason::DriverNotDeclared,
           "name the CSI driver in fencingDrivers of the engine's "
           "configuration, if detaching keeps a dead node from writing"},
    Advice{Reason::VolumeInUse, "find the other pod of the node that uses the volume"},
    Advice{Reason::TaintNotServed,
           "use a policy that deletes pods: Kubernetes serves the out-of-service taint from 1.26 "
           "on"},
    Advice{Reason::ReleaseNotServed, "set `release: on` in the engine's configuration"},
    Advice{Reason::Unreadable, "see whether the API server answers and what the account may read"},
    Advice{Reason::ServerSlow,
           "find out what is slow: etcd's disks, a server that is missing, an admission webhook; "
           "it goes on by itself"},
    Advice{Reason::HoldingDown, "nothing: the policy wants the node to be down for longer"},
    Advice{Reason::DoubtsItself, "see whether the API server answers in time"},
    Advice{Reason::HandledBefore, "see which finalizer keeps the object"},
};

bool has(std::string_view detail, std::string_view word) {
  return detail.find(word) != std::string_view::npos;
}

// What cannot be read is somebody else's matter than what may not be; "" where nobody knows.
std::string step_by_detail(Reason reason, std::string_view detail) {
  if (reason != Reason::NeedsUnread && reason != Reason::LeaseUnreadable) {
    return {};
  }
  if (has(detail, "allowedReads")) {
    return "name it in allowedReads of the engine's configuration, and give the engine the right "
           "to read it.";
  }
  if (has(detail, "is not configured")) {
    return "name the endpoint in endpoints of the engine's configuration.";
  }
  constexpr std::string_view kEndpoint = "endpoint ";
  if (const auto at = detail.find(kEndpoint); at != std::string_view::npos) {
    const std::string_view rest = detail.substr(at + kEndpoint.size());
    const std::string name(rest.substr(0, rest.find(':')));
    const bool refuses = has(detail, "HTTP 401") || has(detail, "HTTP 403");
    return refuses
               ? "see which user the endpoint " + name + " wants: it refuses the engine's."
               : "see what is wrong with the endpoint " + name + "; it is asked again by itself.";
  }
  if (has(detail, "403") || has(detail, "orbidden")) {
    return reason == Reason::LeaseUnreadable
               ? "give the engine the right to read Leases in kube-node-lease."
               : "give the engine the right to read it; docs/operating.md has the table of rights.";
  }
  return has(detail, "GET /api")
             ? "see whether the API server answers; it is asked again by itself."
             : "";
}

}  // namespace

std::string next_step(std::string_view code, std::string_view detail) {
  const auto reason = audit::find_reason(code);
  if (reason) {
    if (std::string step = step_by_detail(*reason, detail); !step.empty()) {
      return step;
    }
  }
  for (const Advice& advice : kAdvices) {
    if (reason == advice.reason) {
      return std::string(advice.text) + ".";
    }
  }
  std::string text = reason ? audit::explain(*reason).what_to_do : std::string();
  if (!text.empty()) {
    text.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(text.front())));
  }
  return text;
}

}  // namespace moonfence::app
