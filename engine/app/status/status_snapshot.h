#pragma once

// StatusSnapshot is everything that the status page shows, at one moment, as values: made by the
// loop's thread (app/engine/status_reporter.h), read by the HTTP server's. The pages and the JSON
// are pure functions of it and of the time.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/status/incident_book.h"
#include "cluster/detection/detection.h"
#include "cluster/detection/machine_history.h"
#include "cluster/nodes/node_cache.h"
#include "cluster/witness/witnesses.h"
#include "fence/fencers/fencer_check.h"
#include "fence/incident/incident_status.h"
#include "fence/sources/source_state.h"
#include "kube/leader_election/election.h"
#include "policy/bundle/reload_report.h"

namespace moonfence::app {

// A node that is shown, and what is said of it beside Kubernetes' word.
struct NodeStatus {
  cluster::NodeView view;
  bool called_failed = false;  // by a health source
};

struct StatusSnapshot {
  struct Replica {
    std::string instance;
    std::string node;    // on which it runs; "" not known
    std::string server;  // the API server
    WallTime started{};
    bool elects = false;  // else it is the only one
    bool leads = false;
    std::string holder;                  // who holds the Lease, as it is written there
    kube::Seat seat = kube::Seat::Well;  // its node
    // Where and by which key other replicas ask it about machines; "" nowhere.
    std::string witness_address = {};
    std::string witness_key = {};
  };
  struct Guard {
    bool too_many_down = false;  // the brake is engaged
    std::int64_t workers = 0;
    std::int64_t workers_down = 0;  // newly
    std::string down_text;          // the same two numbers, with names
    std::vector<std::string> down_names;
    std::uint64_t disrupted_zones = 0;
    std::uint64_t being_fenced = 0;
    std::uint64_t waiting = 0;  // incidents that wait for the brake or for us to trust ourselves
    std::uint64_t failing = 0;  // in which something has failed for a minute; it is tried again
    std::string max_down;       // the limits, in words: "50 %", "5 nodes", "off"
    std::string at_once;
    std::string per_window;
    std::string window;                // "10m"
    std::vector<std::string> doubts;   // what speaks against ourselves (fence/rules/self_doubt.h)
    std::string slowness = {};         // why no limit suffices for the API server's pace
    std::uint64_t fenced_nodes = 0;    // carry our taint
    std::uint64_t doubtful_nodes = 0;  // and those of them that are back and not proven clean
    std::uint64_t silent_nodes = 0;    // carry our taint moonfence.io/silent
    std::uint64_t audit_failures = 0;
    // Nodes that are back and keep our taint, and what is not proven of each.
    std::map<NodeName, std::string> kept = {};
    std::vector<fence::SourceState> sources = {};  // that policies ask
  };
  // An open incident: how it stands, and when it is looked at next.
  struct Stand {
    fence::IncidentStatus incident_status;
    std::optional<WallTime> next;
  };

  struct Machine {
    cluster::MachineHistory::Machine history;
    bool is_confirmed = false;  // another replica does not hear it either
  };
  // Where machines are watched.
  struct Detection {
    cluster::Detection::Counts counts;
    cluster::Silences::Lasted silences{};  // since this replica started
    cluster::Witnesses::Counts witnesses = {};
    std::vector<Machine> machines = {};  // that did not answer at some time in the last minutes
    std::size_t machines_cut = 0;        // and how many more
  };

  WallTime taken{};
  Replica replica;
  Guard guard;
  std::optional<Detection> detection = {};
  std::optional<fence::FencerCheck::Told> fencers = {};  // where some are bound, of whoever leads
  std::map<std::string, std::string> not_ready;          // failing checks of /readyz: why

  bool synced = false;  // the nodes were listed
  cluster::NodeCounts counts;
  std::vector<NodeStatus> nodes;  // those that are not simply Ready first
  std::uint64_t nodes_cut = 0;

  policy::ReloadReport policies;
  std::map<std::string, std::string> versions;  // of the policies that run, by digest
  std::string policy_file;                      // of --policy: its name; no ConfigMap is watched

  std::vector<IncidentBook::Story> under_way;  // newest first
  std::vector<IncidentBook::Story> past;
  std::uint64_t open_incidents = 0;  // all, also those that are not among them
  std::vector<Stand> stands;         // of all that are open, the newest first

  // Null: it is not open.
  [[nodiscard]] const Stand* stand_of(const IncidentId& id) const;
  [[nodiscard]] std::uint64_t count(fence::IncidentStatus::State state) const;
};

}  // namespace moonfence::app
