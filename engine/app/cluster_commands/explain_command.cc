#include "app/cluster_commands/client_command.h"
#include "app/cluster_commands/explanation.h"
#include "base/text.h"
#include "kube/objects/decode.h"
#include "kube/wire/url.h"

namespace moonfence::app {

using nlohmann::json;

namespace {

// NAME, NAMESPACE/NAME, or pod/NAME as kubectl prints it.
Result<PodRef> parse_pod(const ClientOptions& options, const std::string& default_space) {
  std::string name = options.names.front();
  std::string space = options.space.empty() ? default_space : options.space;
  if (const std::size_t slash = name.find('/'); slash != std::string::npos) {
    const std::string before = name.substr(0, slash);
    if (before != "pod" && before != "pods") {
      if (!options.space.empty() && options.space != before) {
        return failure(
            Error::Kind::Invalid,
            "the pod '" + escaped(name, 256) + "' is not in --namespace " + options.space,
            "give the namespace once");
      }
      space = before;
    }
    name = name.substr(slash + 1);
  }
  return PodRef{.space = Namespace(space), .name = name};
}

}  // namespace

ClientOutput explain_pod(const ClientOptions& options, ClientGround& ground) {
  const auto ref = parse_pod(options, ground.config.connection.default_namespace);
  const auto path = ref ? kube::pod_path(*ref) : Result<std::string>(failure(ref.error()));
  if (!path) {
    return refused(ClientExit::Usage, path.error());
  }
  const auto object = ground.client.get(*path);
  if (!object) {
    Error error = object.error();
    if (error.kind == Error::Kind::NotFound) {
      error = Error{.kind = error.kind,
                    .text = "no pod " + escaped(ref->text(), 512),
                    .hint = "name its namespace with -n; kubectl get pods -A shows all"};
    }
    return refused(error);
  }
  const auto pod = kube::decode_pod(*object);
  if (!pod) {
    return refused(pod.error());
  }
  if (pod->node.empty()) {
    return {.code = ClientExit::Ok,
            .out = "Pod " + ref->text() +
                   " is bound to no node yet: no node's failure concerns it.\n"
                   "Next: kubectl describe pod tells why it is not scheduled.\n",
            .err = {}};
  }
  const auto rehearsal = rehearse_nodes(options, ground, {pod->node}, /*assume_down=*/true);
  if (!rehearsal) {
    return rehearsal.error();
  }
  Plan plan = plan_of(rehearsal->rehearsed);
  hear_engine(plan, rehearsal->situation);
  plan.notes.insert(plan.notes.begin(), rehearsal->notes.begin(), rehearsal->notes.end());
  const Explained explained = explain(*ref, pod->labels, *rehearsal->rehearsed.policies, plan);
  ClientOutput output;
  if (options.output == "json" || options.output == "yaml") {
    output.out = document_text(explained_document(explained, plan), options.form());
  } else {
    output.out = explained_text(explained);
    for (const std::string& note : plan.notes) {
      output.err += "note: " + note + "\n";
    }
  }
  if (explained.acts()) {
    output.code = ClientExit::WouldAct;
  }
  return output;
}

}  // namespace moonfence::app
