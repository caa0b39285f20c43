#include "app/cluster_commands/client_options.h"

#include <algorithm>
#include <array>

#include <CLI/CLI.hpp>

#include "base/text.h"

namespace moonfence::app {
namespace {

using Verb = ClientOptions::Verb;

constexpr const char* kPlanFooter = R"(
Nothing is changed: this runs the engine on the cluster and sends none of its writes.

Examples:
  moonfence plan node-7
      What the engine would do with node-7, which is down.
  moonfence plan node-7 --assume-down -o wide
      The same if its machine died now, with what the policies read.
  moonfence plan node-7 node-8 --assume-down -o json
      If both died together, for a program to read.
  moonfence plan node-7 --assume-down --policy my-db.lua --policy-namespace db --mode enforce
      With a policy that is not installed yet.

Exit codes: 0 nothing would be done, 10 something would be done, 1 the cluster cannot be read,
2 wrong command line, 3 kubeconfig or configuration unusable, 4 policy cannot be loaded,
5 no such node.)";

constexpr const char* kExplainFooter = R"(
A pod on a node that is up is explained as if its node's machine died now.

Examples:
  moonfence explain db-0 -n db
      Why the engine would delete this pod, or why not, and what to do about it.
  moonfence explain db/db-0 -o json
      For a program to read.

Exit codes: 0 it would not be touched, 10 it would be, 1 the cluster cannot be read,
2 wrong command line, 3 kubeconfig or configuration unusable, 4 policy cannot be loaded,
5 no such pod.)";

constexpr const char* kStatusFooter = R"(
Examples:
  moonfence status
      Who leads, which policies are in force, which nodes are down, what is being done.
  moonfence status -o yaml
      For a program to read.

Exit codes: 0 printed, 1 the cluster cannot be read, 2 wrong command line, 3 kubeconfig unusable.)";

constexpr const char* kIncidentsFooter = R"(
Incidents that deleted something have a record, ConfigMap moonfence-incident-ID; those that deleted
nothing have none.

Examples:
  moonfence incidents
      All that are recorded, the newest first.
  moonfence incidents -o json
      For a program to read.

Exit codes: 0 printed, 1 the cluster cannot be read, 2 wrong command line, 3 kubeconfig unusable.)";

constexpr const char* kIncidentFooter = R"(
Example:
  moonfence incident 3f09c1d2a7
      Each step of it, when it was planned, sent and answered, and how it ended.

Exit codes: 0 printed, 1 the cluster cannot be read, 2 wrong command line, 3 kubeconfig unusable,
5 no such incident.)";

constexpr const char* kAttestFooter = R"(
It writes the annotation moonfence.io/attested to the Node. Say it only of a machine whose power is
off: what runs on goes on writing. It counts until the kubelet or the machine is heard again;
docs/proof.md says what it is good for.

Examples:
  moonfence attest node-7 --off --reason "power cord pulled, rack 4"
      Its pods for which proof is demanded may go now.
  moonfence attest node-7 --withdraw
      Takes it back.

Exit codes: 0 written, 1 the cluster cannot be read or written, or the node cannot be attested because
it is Ready or shows no signs of its kubelet, 2 wrong command line, 3 kubeconfig unusable, 5 no such node.)";

constexpr const char* kFencerFooter = R"(
Example:
  moonfence fencer check
      Which nodes have no fencer that works.
  moonfence fencer rehearse node-7
      Whether the machine of node-7, which was drained, can be switched off: does it.)";

constexpr const char* kFencerRehearseFooter = R"(
It SWITCHES THE MACHINE OFF, without a shutdown, and never on again. Pause whatever else looks after
machines first, as MachineHealthCheck or NodeHealthCheck. It refuses unless the node is Ready, cordoned
and drained, nothing is attached to it, nobody holds it, moonfence's leader says that no incident of it is
open, and its fencers say that it is on. It asks for the node's name before it does anything.
docs/proof.md says what is proven by it.

Examples:
  kubectl drain node-7 --ignore-daemonsets
  moonfence fencer rehearse node-7
      Asks, tells the fencer, reads the power until it is off, and watches the kubelet's Lease.
  kubectl -n moonfence exec deployment/moonfence -- moonfence fencer rehearse node-7 --yes node-7
      Where the credentials are, for a script.

Exit codes: 0 it was switched off, and that is known, 10 a fencer was told, and what came of it is not
known, 6 refused: nobody was told, 1 the cluster cannot be read or written: nobody was told, 2 wrong
command line, 3 kubeconfig or configuration unusable, 5 no such node.)";

constexpr const char* kFencerCheckFooter = R"(
It only asks, and never switches a machine off. Every fencer of each node is asked. Credentials are
read from the files that the configuration names, which are mostly where the engine runs.

Examples:
  moonfence fencer check
      Whether the fencers of all nodes could prove that their machines are off.
  moonfence fencer check node-7 -o json
      The same of one node, for a program to read.
  kubectl -n moonfence exec deployment/moonfence -- moonfence fencer check
      Where the credentials are.

Exit codes: 0 every node has fencers, and all of them work, 10 some node has not, 1 the cluster cannot
be read, 2 wrong command line, 3 kubeconfig or configuration unusable, 5 no such node.)";

constexpr const char* kCaptureFooter = R"(
Writes NODE.objects.json, which tests take as fixtures, and NODE.decisions.json, what the policies
in force say of each pod. Values of environment variables are left out.

Example:
  moonfence policy capture node-7 --assume-down -o captures
  moonfence policy replay my-db.lua --records captures

Exit codes: 0 written, 1 the cluster cannot be read, 3 kubeconfig, configuration or folder unusable,
4 policy cannot be loaded, 5 no such node, or it is up, 64 wrong command line.)";

CLI::App* add_verb(CLI::App& app, ClientOptions& options, Verb verb, const char* name,
                   const char* help, const char* footer) {
  CLI::App* command = app.add_subcommand(name, help);
  command->footer(footer);
  command->parse_complete_callback([&options, verb] { options.verb = verb; });
  command
      ->add_option("--kubeconfig", options.kubeconfig,
                   "Kubeconfig file (default: KUBECONFIG, the pod's service account, "
                   "~/.kube/config)")
      ->type_name("FILE");
  command->add_option("--context", options.context, "Context of the kubeconfig")->type_name("NAME");
  return command;
}

void add_output(CLI::App& command, ClientOptions& options, const std::vector<std::string>& forms) {
  command
      .add_option("-o,--output", options.output, "How to print it (default: " + forms.front() + ")")
      ->check(CLI::IsMember(forms).description(""))
      ->type_name([&forms] {
        std::string names;
        for (const std::string& form : forms) {
          names += (names.empty() ? "" : "|") + form;
        }
        return names;
      }());
}

void add_engine_namespace(CLI::App& command, ClientOptions& options, const char* flags) {
  command
      .add_option(flags, options.engine_namespace,
                  "Namespace of the engine's own objects (default: the pod's, else moonfence)")
      ->type_name("NS");
}

// What `moonfence run` is told, too.
void add_config(CLI::App& command, ClientOptions& options) {
  command
      .add_option("--config", options.config,
                  "The engine's configuration file (default: ConfigMap moonfence-config)")
      ->type_name("FILE");
}

void add_engine_options(CLI::App& command, ClientOptions& options) {
  add_config(command, options);
  command
      .add_option("--policy", options.policy,
                  "Decide by this one policy, a Lua file (default: those of ConfigMap "
                  "moonfence-policies)")
      ->type_name("FILE");
  command
      .add_option("--policy-namespace", options.policy_namespace,
                  "The only namespace in which --policy may act")
      ->type_name("NS");
  command
      .add_option("--mode", options.mode,
                  "The --mode of the engine (default: the ConfigMap's; with --policy: observe)")
      ->check(CLI::IsMember({"off", "observe", "enforce"}).description(""))
      ->type_name("observe|enforce|off");
}

constexpr const char* kOwnNamespace = "-n,--namespace,--engine-namespace";
const std::vector<std::string>& documents() {
  static const std::vector<std::string> words = {"table", "json", "yaml"};
  return words;
}

void add_attest(CLI::App& app, ClientOptions& options) {
  CLI::App* attest =
      add_verb(app, options, Verb::Attest, "attest",
               "Say that the machine of a node is off, where proof is demanded", kAttestFooter);
  attest->add_option("NODE", options.names, "The node")->required()->expected(1);
  attest->add_flag("--off", options.off, "Its machine has no power");
  attest->add_option("--reason", options.reason, "How you know; it is recorded with your name")
      ->type_name("TEXT");
  attest->add_flag("--withdraw", options.withdraw, "Take it back");
}

void add_fencer(CLI::App& app, ClientOptions& options) {
  CLI::App* fencer =
      app.add_subcommand("fencer", "Test the fencers, which ask whether machines have power");
  fencer->footer(kFencerFooter);
  fencer->require_subcommand(1);
  CLI::App* check = add_verb(*fencer, options, Verb::FencerCheck, "check",
                             "Ask the fencers of nodes, and say which do not work; changes nothing",
                             kFencerCheckFooter);
  check->add_option("NODE", options.names, "Nodes (default: all)");
  add_output(*check, options, documents());
  add_engine_namespace(*check, options, kOwnNamespace);
  add_config(*check, options);
  CLI::App* rehearse = add_verb(
      *fencer, options, Verb::FencerRehearse, "rehearse",
      "Switch the machine of a drained node off, to see whether that works", kFencerRehearseFooter);
  rehearse->add_option("NODE", options.names, "The node")->required()->expected(1);
  rehearse->add_option("--yes", options.yes, "Its name once more: do not ask for it")
      ->type_name("NODE");
  rehearse->add_flag("--control-plane", options.control_plane,
                     "Also a machine of the control plane, if all others of it are well");
  add_engine_namespace(*rehearse, options, kOwnNamespace);
  add_config(*rehearse, options);
}

}  // namespace

OutputForm ClientOptions::form() const {
  return output == "json"   ? OutputForm::Json
         : output == "yaml" ? OutputForm::Yaml
         : output == "wide" ? OutputForm::Wide
                            : OutputForm::Table;
}

void add_client_commands(CLI::App& app, ClientOptions& options) {
  CLI::App* plan =
      add_verb(app, options, Verb::Plan, "plan",
               "Say what the engine would do with nodes; changes nothing", kPlanFooter);
  plan->add_option("NODE", options.names, "Nodes; several fail together")->required();
  plan->add_flag("--assume-down", options.assume_down,
                 "Treat nodes that are up as if they lost their power now");
  add_output(*plan, options, {"table", "wide", "json", "yaml"});
  add_engine_namespace(*plan, options, kOwnNamespace);
  add_engine_options(*plan, options);

  CLI::App* explain =
      add_verb(app, options, Verb::Explain, "explain",
               "Say in sentences what would become of a pod, and why", kExplainFooter);
  explain->add_option("POD", options.names, "The pod: NAME, or NAMESPACE/NAME")
      ->required()
      ->expected(1);
  explain
      ->add_option("-n,--namespace", options.space, "The pod's namespace (default: the context's)")
      ->type_name("NS");
  add_output(*explain, options, {"text", "json", "yaml"});
  add_engine_namespace(*explain, options, "--engine-namespace");
  add_engine_options(*explain, options);

  CLI::App* status =
      add_verb(app, options, Verb::Status, "status",
               "Show who leads, what is in force and what is being done", kStatusFooter);
  add_output(*status, options, documents());
  add_engine_namespace(*status, options, kOwnNamespace);

  CLI::App* incidents = add_verb(app, options, Verb::Incidents, "incidents",
                                 "List the recorded incidents", kIncidentsFooter);
  add_output(*incidents, options, documents());
  add_engine_namespace(*incidents, options, kOwnNamespace);

  CLI::App* incident = add_verb(app, options, Verb::Incident, "incident",
                                "Show the record of one incident", kIncidentFooter);
  incident->add_option("ID", options.names, "Its id, as in events, logs and records")
      ->required()
      ->expected(1);
  add_output(*incident, options, documents());
  add_engine_namespace(*incident, options, kOwnNamespace);

  add_attest(app, options);
  add_fencer(app, options);
}

void add_capture(CLI::App& policy, ClientOptions& options) {
  CLI::App* capture =
      add_verb(policy, options, Verb::Capture, "capture",
               "Record a node's pods from a live cluster, for test, eval and replay; reads only",
               kCaptureFooter);
  capture->add_option("NODE", options.names, "The node")->required()->expected(1);
  capture->add_option("-o,--output", options.folder, "Folder to write to")
      ->required()
      ->type_name("DIR");
  capture->add_flag("--assume-down", options.assume_down,
                    "A node that is up is recorded as if it had lost its power now");
  add_engine_namespace(*capture, options, kOwnNamespace);
  add_engine_options(*capture, options);
}

bool is_client_command(const CLI::App& app) {
  if (app.got_subcommand("policy") && app.get_subcommand("policy")->got_subcommand("capture")) {
    return true;
  }
  constexpr std::array kNames = {"plan",     "explain", "status", "incidents",
                                 "incident", "attest",  "fencer"};
  return std::any_of(kNames.begin(), kNames.end(),
                     [&app](const char* name) { return app.got_subcommand(name); });
}

namespace {

std::string problem_of_attest(const ClientOptions& options) {
  constexpr std::size_t kLongestReason = 512;
  if (options.off == options.withdraw) {
    return "say either --off or --withdraw";
  }
  if (options.off && trimmed(options.reason).empty()) {
    return "--reason is missing: say how you know that the machine is off";
  }
  if (options.withdraw && !options.reason.empty()) {
    return "--reason belongs to --off alone";
  }
  return options.reason.size() > kLongestReason
             ? "--reason: at most " + std::to_string(kLongestReason) + " bytes"
             : std::string();
}

}  // namespace

std::string problem_of(const ClientOptions& options) {
  const auto fault = [](const char* flag, const std::string& given) {
    return std::string(flag) + ": '" + escaped(given, 128) +
           "' is no namespace: name one, in lower case letters, digits and '-'";
  };
  if (options.verb == Verb::Attest) {
    return problem_of_attest(options);
  }
  if (!options.yes.empty() && options.yes != options.names.front()) {
    return "--yes: '" + escaped(options.yes, 128) + "' is not the node: repeat its name";
  }
  if (options.policy.empty() != options.policy_namespace.empty()) {
    return options.policy.empty()
               ? "--policy is missing: --policy-namespace says where it may act"
               : "--policy-namespace is missing: name the one namespace in which --policy may act";
  }
  if (!options.engine_namespace.empty() && !is_dns_label(options.engine_namespace)) {
    return fault("--engine-namespace", options.engine_namespace);
  }
  if (!options.space.empty() && !is_dns_label(options.space)) {
    return fault("--namespace", options.space);
  }
  if (!options.policy_namespace.empty() && !is_dns_label(options.policy_namespace)) {
    return fault("--policy-namespace", options.policy_namespace);
  }
  return {};
}

}  // namespace moonfence::app
