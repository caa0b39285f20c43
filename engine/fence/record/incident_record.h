#pragma once

// IncidentRecord is what the cluster knows of an incident that acts: on which node, by which
// policies, what is to be deleted and what was. It is written before the first deletion and stands
// in a ConfigMap of its own (fence/record/journal), so that the next leader finishes what this one
// began, and operators can read it. The form is described in docs/incident-record.md.
//
// Who reads it trusts nothing in it: it says what was meant, and the guard decides as ever.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "audit/reason.h"
#include "base/names.h"
#include "base/result.h"
#include "base/time.h"

namespace moonfence::fence {

struct IncidentRecord {
  // One deletion, or the taint that puts the node out of service.
  struct Step {
    enum class Kind { DeletePod, DeleteAttachment, TaintNode };

    Kind kind = Kind::DeletePod;
    // The pod that was judged: of an attachment the one that held it.
    PodRef pod;
    Uid pod_uid;
    std::string controller;  // kind of the owner that manages it, "" for none
    std::string phase;
    // The controller itself, by which a replacement is known.
    std::string owner_api;
    std::string owner;
    Uid owner_uid;
    // Of an attachment.
    std::string attachment;
    Uid attachment_uid;
    std::string driver;
    std::string handle;
    std::string volume;       // PersistentVolume
    bool before_pod = false;  // attachments-first
    // Its volume is to be released when it is gone. What the node's status showed when that was
    // meant: neither changes as long as nobody hears of its kubelet. Absent also when the attacher
    // did not hold the attachment, whose absence proves nothing then, and when nothing is left to
    // be done.
    struct Release {
      std::string boot_id;
      std::string heartbeat;  // of the Ready condition

      friend bool operator==(const Release&, const Release&) = default;
    };
    std::optional<Release> release = {};
    Uid node_uid;  // of a taint, which has nothing of the above
    // Whose verdict it rests on, among whom it was reached, and the policy's own words.
    std::string policy;
    std::string policy_digest;
    std::string set_digest;
    std::string why;
    std::string proof = {};     // that policies demanded (policy/values/evidence.h)
    std::string evidence = {};  // what was known of the node then, where some was demanded

    WallTime planned{};
    std::optional<WallTime> sent;          // the newest call
    std::optional<WallTime> ended;         // its answer
    std::optional<audit::Reason> outcome;  // of the newest call, or why none was made
    std::optional<WallTime> gone = {};     // of an attachment that was marked: it was absent
    std::uint32_t calls = 0;
    // Of a pod that was deleted: what was last told of its replacement.
    struct Follow {
      audit::Reason state = audit::Reason::ReplacementAbsent;
      std::string text = {};
      NodeName node = {};
      Uid uid = {};
      WallTime at{};
    };
    std::optional<Follow> follow = {};

    [[nodiscard]] const Uid& uid() const {
      return kind == Kind::DeletePod          ? pod_uid
             : kind == Kind::DeleteAttachment ? attachment_uid
                                              : node_uid;
    }
    // Nothing is left to do about it.
    [[nodiscard]] bool settled() const;
    // An attachment that went because it was asked to, and whose volume is still to be released.
    [[nodiscard]] bool awaits_release() const;
    // A pod that was deleted by us, as far as that is known, and whose replacement is to be
    // awaited.
    [[nodiscard]] bool awaits_replacement() const;
  };
  struct Leader {
    std::string identity;
    WallTime since{};
  };
  struct Closed {
    WallTime at{};
    audit::Reason reason = audit::Reason::Settled;
  };

  IncidentId id;
  NodeName node;
  Uid node_uid;
  std::string boot_id;  // of the node's newest reading
  std::string zone;
  std::string hold = {};  // why nobody may touch the node, by its newest reading; "": nothing
  std::string source;     // whose word opened it: a health source's key, "" for Kubernetes
  bool fell = false;      // we saw it fall: policies without `sweep` are concerned
  // When a reading of this very node last found its kubelet dead, to within kSilenceLasts; absent
  // where the newest one did not.
  std::optional<WallTime> silent = {};
  // When its machine was last heard, by whoever opened it; absent where machines are not watched,
  // and where it answered.
  std::optional<WallTime> last_sign = {};
  WallTime opened{};
  audit::Reason opened_for = audit::Reason::NodeUnknown;
  std::vector<Leader> leaders;  // who kept it, one after the other
  std::optional<Closed> closed;
  std::vector<Step> steps;      // in the order in which they were planned
  std::uint64_t steps_cut = 0;  // settled ones that were left out because of the size

  [[nodiscard]] Step* find(const Uid& uid);
  [[nodiscard]] const Step* find(const Uid& uid) const;
  // When something was last done to the node; nullopt: nothing was.
  [[nodiscard]] std::optional<WallTime> acted() const;
};

[[nodiscard]] inline std::optional<std::string> hold_of(const IncidentRecord& record) {
  return record.hold.empty() ? std::nullopt : std::optional(record.hold);
}

// A ConfigMap holds 1 MiB.
constexpr std::size_t kRecordLimit = 900'000;
constexpr std::int64_t kRecordVersion = 1;  // of its form

[[nodiscard]] std::string_view to_string(IncidentRecord::Step::Kind kind);  // "delete_pod"
[[nodiscard]] std::string to_text(const IncidentRecord& record);
// Leaves settled steps out, the oldest first, until it fits. Limit when what is not settled alone
// is too much.
[[nodiscard]] Result<std::string> fit(IncidentRecord& record, std::size_t limit = kRecordLimit);
// Malformed for what is no such record, or one of a newer form.
[[nodiscard]] Result<IncidentRecord> parse_record(std::string_view text);

// Which records are to be removed: closed ones that are empty or older than `age`, and of the
// others the oldest, but for the newest `count`. Open ones stay.
struct KeptRecord {
  std::string name;
  WallTime opened{};
  std::optional<WallTime> closed;
  bool empty = false;  // nothing was meant to be done in the end
};
struct RetentionRules {
  std::size_t count = 100;
  Duration age = std::chrono::hours(7 * 24);
};
[[nodiscard]] std::vector<std::string> outdated(const std::vector<KeptRecord>& records,
                                                const RetentionRules& rules, WallTime now);

}  // namespace moonfence::fence
