#pragma once

// What has to be known of a node before its machine is switched off for a rehearsal, read from the
// API server a moment ago, and what speaks against it. Whatever cannot be read or understood is an
// error: nothing is switched off by it.

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "app/fencer_check/list_pages.h"
#include "base/names.h"
#include "base/result.h"
#include "base/time.h"
#include "fence/rules/hold_annotations.h"
#include "kube/objects/objects.h"

namespace moonfence::app {

struct RehearsalFacts {
  kube::Node node;                            // with its raw JSON
  std::vector<std::string> pods = {};         // in the way: "db/web-0"
  std::vector<std::string> attachments = {};  // VolumeAttachments that name it
  std::vector<std::string> holds = {};        // "node n1: disk is being changed"
  std::vector<std::string> incidents = {};    // open ones, and records that nobody understands
  std::string leader = {};                    // of moonfence
  std::string leader_node = {};               // on which it runs; "": it does not say
  std::string untold = {};                    // why no leader tells of incidents; "": one does
  bool control_plane = false;                 // it runs on this machine
  std::vector<std::string> weak_peers = {};   // others of it that are not Ready, or cordoned
  std::size_t peers = 0;                      // others of it, all
  bool is_frozen = false;                     // the leader deletes nothing at the moment
  std::size_t left = 0;                       // pods that may run on: they end with the machine
};

struct RehearsalScope {
  std::string node;
  std::string engine_namespace;
  const fence::HoldMarks& hold_marks;
  std::function<WallTime()> now;  // by the API server's clock
};
[[nodiscard]] Result<RehearsalFacts> read_facts(const GetJson& get, const RehearsalScope& scope);

// The node alone, with its raw JSON.
[[nodiscard]] Result<kube::Node> read_node(const GetJson& get, const std::string& name);

// What keeps its machine on, a sentence each; none: it may be switched off. `asked`: the node as it
// was when its fencers were asked. `control_plane`: it may be a machine of the control plane, if
// all others of it are well.
[[nodiscard]] std::vector<std::string> objections(const RehearsalFacts& facts,
                                                  const kube::Node& asked, bool control_plane);

// What somebody is asked about, and what is done after that: it has to be the same.
struct RehearsalOrder {
  Uid node;
  std::string boot_id;
  std::string fencer;
  std::string endpoint;
  std::string path;
};
[[nodiscard]] std::vector<std::string> changes(const RehearsalOrder& shown,
                                               const RehearsalOrder& now);

}  // namespace moonfence::app
