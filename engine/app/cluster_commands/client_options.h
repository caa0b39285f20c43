#pragma once

// The command lines of what asks a cluster: plan, explain, status, incidents, incident, attest,
// `fencer check`, `fencer rehearse` and `policy capture`. As values.

#include <string>
#include <vector>

#include "app/terminal/output.h"
#include "policy/values/mode.h"

namespace CLI {
class App;
}

namespace moonfence::app {

// Exit codes of these commands, part of their documentation.
enum class ClientExit : int {
  Ok = 0,         // the answer was printed; of plan and explain: nothing would be done
  Failed = 1,     // the cluster could not be read
  Usage = 2,      // wrong command line
  Config = 3,     // kubeconfig or configuration unusable
  Policy = 4,     // --policy cannot be loaded
  NotFound = 5,   // the cluster has no such node, pod or incident
  Refused = 6,    // of fencer rehearse: something speaks against it, and nothing was switched off
  WouldAct = 10,  // of plan and explain: something would be done
  Unproven = 10   // of fencer check: some node has no fencer that works; of fencer rehearse: it was
                  // told to switch a machine off, and that it did is not known
};

struct ClientOptions {
  enum class Verb {
    Plan,
    Explain,
    Status,
    Incidents,
    Incident,
    Attest,
    FencerCheck,
    FencerRehearse,
    Capture
  };

  std::vector<std::string> names;  // nodes, the pod, or the incident's id
  std::string kubeconfig;
  std::string context;
  std::string space;             // of explain: the pod's
  std::string engine_namespace;  // empty: the pod's in which we run, else moonfence
  // What `moonfence run` is, or would be, given: of plan and explain, the first of fencer check
  // and rehearse.
  std::string config;  // empty: ConfigMap moonfence-config of the engine's namespace
  std::string policy;
  std::string policy_namespace;
  std::string mode;  // "" for what the ConfigMap says
  std::string output = "table";
  std::string folder;  // of capture: where to write

  Verb verb = Verb::Plan;
  bool assume_down = false;
  // Of attest.
  std::string reason;
  bool off = false;
  bool withdraw = false;
  // Of fencer rehearse.
  std::string yes;  // the node's name once more: nobody is asked
  bool control_plane = false;

  [[nodiscard]] OutputForm form() const;
};

// Adds the subcommands; `options` outlives the parsing.
void add_client_commands(CLI::App& app, ClientOptions& options);
// `moonfence policy capture`.
void add_capture(CLI::App& policy, ClientOptions& options);
// Whether one of them was given.
[[nodiscard]] bool is_client_command(const CLI::App& app);
// What the parser cannot see; "" when all is well.
[[nodiscard]] std::string problem_of(const ClientOptions& options);

}  // namespace moonfence::app
