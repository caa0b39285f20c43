#pragma once

// Plan is a rehearsal put in order for people: per node what keeps it, per pod what each policy
// said, what came of it and why, and the calls that would be made. Pure.

#include <optional>
#include <string>
#include <vector>

#include "app/rehearsal/rehearsal.h"

namespace moonfence::app {

struct Plan {
  struct Call {
    port::Method method = port::Method::Get;
    std::string path;
    std::string uid;   // of its precondition, "" without
    std::string what;  // "delete_pod", "delete_attachment", "patch_node", "write_record"
  };
  // One word of the audit: what was said or refused, by whom, and why.
  struct Word {
    std::string reason;  // audit::code()
    std::string policy;  // "" where none is involved
    std::string digest;
    std::string text;
    std::string action = {};      // of a refusal: what was wanted; of a change: what it is
    std::string attachment = {};  // of a refusal: of this one
  };
  struct Opinion {
    Word word;
    std::optional<policy::Mode> mode = std::nullopt;  // nullopt: it was not asked
    std::vector<policy::FieldRead> reads = {};
  };
  struct Pod {
    // What would become of it.
    enum class Fate {
      Deleted,   // and its attachments as the calls say
      Detached,  // its attachments go first
      Refused,   // a policy wants it, and something forbids it
      Waits,
      Kept,
    };
    std::string space;
    std::string name;
    std::string uid;
    Fate fate = Fate::Kept;
    Word because;  // what decided
    std::vector<Opinion> opinions = {};
    std::vector<Word> refusals = {};
    std::vector<Call> calls = {};
  };
  // A rehearsal has seen nothing before, and doubts nothing: the engine that acts may know better.
  struct EngineStand {
    std::string state;   // fence::to_string()
    std::string reason;  // audit::code(), "" when it is simply under way
    std::string text;
  };
  struct Node {
    std::string name;
    Engine::Supposed state = Engine::Supposed::Unknown;
    bool although_up = false;
    std::string opened_for;           // "" when there was no incident
    std::vector<Word> holds;          // why it does not go on, or did not at once
    std::optional<std::string> open;  // of a hold that lasts: its reason
    std::vector<Word> changes = {};   // of the node itself, before its pods: taints
    std::vector<Call> calls;          // not about a pod: the record, taints
    std::vector<Pod> pods;            // in the order in which they were judged
    bool complete = true;
    // How its open incident stands with the engine that acts.
    std::optional<EngineStand> engine = std::nullopt;

    [[nodiscard]] bool acts() const;
  };
  std::vector<Node> nodes;
  Duration hold_down{};
  std::vector<std::string> notes;
  std::string frozen = {};  // why the engine that acts deletes nothing now, whatever is planned

  [[nodiscard]] bool acts() const;
};

[[nodiscard]] std::string_view to_string(Plan::Pod::Fate fate);
[[nodiscard]] Plan plan_of(const Rehearsed& rehearsed);
// What the engine that acts tells of itself (app/status/situation.h) stands beside what was
// rehearsed.
void hear_engine(Plan& plan, const nlohmann::json& situation);

}  // namespace moonfence::app
