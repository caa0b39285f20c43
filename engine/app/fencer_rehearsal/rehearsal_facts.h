#pragma once

// What has to be known of a node before its machine is switched off for a rehearsal, read from the
// API server a moment ago, and what speaks against it. Whatever cannot be read or understood is an
// error: nothing is switched off by it.

#include <string>
#include <vector>

#include "app/fencer_check/list_pages.h"
#include "base/result.h"
#include "fence/rules/hold_annotations.h"
#include "kube/objects/objects.h"

namespace moonfence::app {

struct RehearsalFacts {
  kube::Node node;                            // with its raw JSON
  std::vector<std::string> pods = {};         // in the way: "db/web-0"
  std::vector<std::string> attachments = {};  // VolumeAttachments that name it
  std::vector<std::string> holds = {};        // "node n1: disk is being changed"
  std::vector<std::string> incidents = {};    // open ones, and records that nobody understands
  std::string leader = {};                    // of moonfence; "": nobody leads
  std::string leader_node = {};               // on which it runs; "": it does not say
  bool is_frozen = false;                     // the leader deletes nothing at the moment
  std::size_t left = 0;                       // pods that may run on: they end with the machine
};

struct RehearsalScope {
  std::string node;
  std::string engine_namespace;
  const fence::HoldMarks& hold_marks;
};
[[nodiscard]] Result<RehearsalFacts> read_facts(const GetJson& get, const RehearsalScope& scope);

// The node alone, with its raw JSON.
[[nodiscard]] Result<kube::Node> read_node(const GetJson& get, const std::string& name);

// What keeps its machine on, a sentence each; none: it may be switched off. `asked`: the node as it
// was when its fencers were asked. `control_plane`: it may be a machine of the control plane, and
// the leader may be one that does not say where it runs.
[[nodiscard]] std::vector<std::string> objections(const RehearsalFacts& facts,
                                                  const kube::Node& asked, bool control_plane);

}  // namespace moonfence::app
