#include <array>
#include <string_view>
#include <vector>

#include "sim/draw.h"
#include "sim/drawing.h"
#include "sim/net/chance.h"

namespace moonfence::sim {
namespace {

using std::chrono::seconds;

constexpr std::string_view kStateful = R"(-- sim: always
return policy {
  api = 1,
  name = "stateful",
  version = "1.0.0",
  summary = "Delete every pod of a node whose kubelet is silent",
  trigger = { failures = 1 },
  pod = function(pod)
    return fence.delete_pod("the node is silent")
  end,
}
)";

// In place of the one above, in some worlds.
constexpr std::string_view kDetaching = R"(-- sim: always
return policy {
  api = 1,
  name = "stateful",
  version = "1.0.0",
  summary = "Delete every pod of a node whose kubelet is silent, and detach its volumes",
  needs = { "volumes" },
  trigger = { failures = 1, deleted = true },
  pod = function(pod)
    return fence.delete_pod_and_attachments("the node is silent", { release = true })
  end,
}
)";

constexpr std::string_view kEager = R"(-- sim: always
return policy {
  api = 1,
  name = "eager",
  version = "1.0.0",
  summary = "Delete the pods of a tier as soon as their node is not Ready",
  select = { labels = "tier=front" },
  trigger = { failures = 1, live_kubelet = true, deleted = true },
  pod = function(pod)
    return fence.delete_pod("the node is not Ready")
  end,
}
)";

constexpr std::string_view kPatient = R"(-- sim: always
return policy {
  api = 1,
  name = "patient",
  version = "1.0.0",
  summary = "Delete after three observations",
  trigger = { failures = 3, interval = "3s" },
  pod = function(pod)
    return fence.delete_pod("the node is silent for long")
  end,
}
)";

constexpr std::string_view kHesitant = R"(
return policy {
  api = 1,
  name = "hesitant",
  version = "1.0.0",
  summary = "Hold the first pod of each set while the cluster is small",
  trigger = { failures = 1 },
  pod = function(pod, s, cluster)
    if pod.name:ends_with("-0") and cluster.nodes_ready < 4 then
      return fence.wait("too few nodes for the first one", 5)
    end
    return fence.delete_pod("the node is silent")
  end,
}
)";

constexpr std::string_view kWarden = R"(
return policy {
  api = 1,
  name = "warden",
  version = "1.0.0",
  summary = "Nobody may touch a pod that is marked precious",
  trigger = { failures = 1, live_kubelet = true },
  pod = function(pod)
    if pod.labels.precious == "yes" then
      return fence.forbid("it is precious")
    end
    return fence.skip("not precious")
  end,
}
)";

constexpr std::string_view kShaky = R"(
return policy {
  api = 1,
  name = "shaky",
  version = "1.0.0",
  summary = "Fails over some pods",
  trigger = { failures = 1 },
  pod = function(pod)
    if pod.name:ends_with("-1") then
      error("no opinion")
    end
    return fence.delete_pod("the node is silent")
  end,
}
)";

// Beside the others, in some worlds; on a server before 1.26 its pods are held.
constexpr std::string_view kRetiring = R"(
return policy {
  api = 1,
  name = "retiring",
  version = "1.0.0",
  summary = "Put a node out of service, and delete the pods of a queue then",
  trigger = { failures = 1 },
  node = function(node)
    return fence.taint_out_of_service("the node is silent")
  end,
  pod = function(pod)
    if pod.namespace == "queue" then
      return fence.delete_pod("its node is out of service")
    end
    return fence.skip("Kubernetes evicts it")
  end,
}
)";

// Beside the others, in some worlds: it fails, waits or holds where others delete.
constexpr std::string_view kUndecided = R"(
return policy {
  api = 1,
  name = "undecided",
  version = "1.0.0",
  summary = "Has no opinion, waits for nothing, or holds",
  trigger = { failures = 1, live_kubelet = true },
  pod = function(pod)
    if pod.name:ends_with("-0") then
      error("no opinion")
    elseif pod.name:ends_with("-1") then
      return fence.wait("nothing to wait for", 3)
    elseif pod.name:ends_with("-2") then
      return fence.hold("held", 7)
    end
    return fence.skip("not mine")
  end,
}
)";

// Beside the others, in some worlds: it asks a service, which answers as it should in the end.
constexpr std::string_view kAsking = R"(-- sim: always
return policy {
  api = 1,
  name = "asking",
  version = "1.0.0",
  summary = "Delete pods as soon as the array has expelled their host",
  trigger = { failures = 1 },
  fetch = function(pod, s, got)
    if not got.host then
      return { host = fence.http("array", "/v1/host") }
    end
  end,
  pod = function(pod)
    if pod.fetched.host.body.fenced then
      return fence.delete_pod("its host is expelled")
    end
    return fence.wait("its host is not expelled", 5)
  end,
}
)";

// Beside the others, in some worlds: for a node whose machine is lost, or is off.
std::string deletes_all(const std::string& name) {
  return R"(
return policy {
  api = 1,
  name = ")" +
         name + R"(",
  version = "1.0.0",
  summary = "Delete the pods of a lost node",
  trigger = { failures = 1 },
  pod = function(pod)
    return fence.delete_pod("the node is lost")
  end,
}
)";
}

struct Choice {
  std::string_view name;
  std::string_view source;
};
constexpr std::array<Choice, 6> kChoices = {{{"stateful", kStateful},
                                             {"eager", kEager},
                                             {"patient", kPatient},
                                             {"hesitant", kHesitant},
                                             {"warden", kWarden},
                                             {"shaky", kShaky}}};

std::string binding(std::string_view policy, bool builtin, const std::string& spaces,
                    std::string_view mode) {
  std::string text = "- policy: ";
  text += policy;
  text += "\n";
  if (!builtin) {
    text += "  source: ";
    text += policy;
    text += ".lua\n";
  }
  text += "  namespaces: [";
  text += spaces;
  text += "]\n  mode: ";
  text += mode;
  text += "\n";
  return text;
}

std::string draw_spaces(port::Random& random) {
  constexpr std::array<std::string_view, 6> kSpaces = {"db",  "db, queue",  "db, queue, web",
                                                       "web", "queue, web", "\"*\""};
  return std::string(kSpaces[number(random, 0, kSpaces.size() - 1)]);
}

// Whether bindings say how long a kubelet that speaks is held down, and how long.
std::string draw_hold_down(port::Random& random) {
  constexpr std::array<std::string_view, 4> kLines = {"", "  holdDown: 0s\n", "  holdDown: 0s\n",
                                                      "  holdDown: 15s\n"};
  return std::string(kLines[number(random, 0, kLines.size() - 1)]);
}

}  // namespace

std::map<std::string, std::string> default_policies() {
  std::string bindings = "api: 1\nbindings:\n";
  bindings += binding("noobaa", true, "noobaa", "enforce");
  bindings += binding("stateful", false, "db, queue", "enforce");
  bindings += binding("eager", false, "web", "observe");
  return {{"moonfence.yaml", bindings},
          {"stateful.lua", std::string(kStateful)},
          {"eager.lua", std::string(kEager)}};
}

std::map<std::string, std::string> draw_policies(port::Random& random) {
  const std::string held = draw_hold_down(*random.fork("hold-down"));
  std::map<std::string, std::string> data;
  std::string bindings = "api: 1\nbindings:\n";
  bindings += binding("noobaa", true, "noobaa", happens(random, 0.9) ? "enforce" : "observe");
  bindings += held;
  const bool plain = happens(random, 0.5);
  for (const Choice& choice : kChoices) {
    // Half of the worlds have only policies that delete at once: their ends can be demanded.
    const bool simple = choice.name == "stateful" || choice.name == "eager";
    if (plain ? !simple : !happens(random, 0.5)) {
      continue;
    }
    bindings += binding(choice.name, false, draw_spaces(random),
                        happens(random, 0.8) ? "enforce" : "observe");
    bindings += held;
    data.emplace(std::string(choice.name) + ".lua", choice.source);
  }
  // Of a stream of its own: everything else is drawn as if it were not there.
  if (happens(*random.fork("detaching"), 0.4) && data.contains("stateful.lua")) {
    data["stateful.lua"] = kDetaching;
  }
  if (happens(*random.fork("retiring"), 0.25)) {
    bindings += binding("retiring", false, "\"*\"", "enforce");
    bindings += "  allow: [out-of-service, bare-pods, finished-pods]\n";
    data.emplace("retiring.lua", kRetiring);
  }
  if (const auto undecided = random.fork("undecided"); happens(*undecided, 0.15)) {
    bindings += binding("undecided", false, draw_spaces(*undecided), "enforce");
    data.emplace("undecided.lua", kUndecided);
  }
  data.emplace("moonfence.yaml", bindings);
  return data;
}

void bind_to_silence(Drawing& drawing, const std::string& policy, const WhenSilent& when,
                     port::Random& random) {
  drawing.plan.settings["quarantine"] = happens(random, 0.5) ? "always" : "missing";
  drawing.plan.policies[policy + ".lua"] = deletes_all(policy);
  std::string text = binding(policy, false, draw_spaces(random), "enforce");
  text += happens(random, 0.7) ? when.mostly : when.sometimes;
  drawing.plan.policies["moonfence.yaml"] += text;
}

void draw_lost(Drawing& drawing, port::Random& random) {
  if (happens(random, 0.34)) {
    bind_to_silence(
        drawing, "stateless",
        {.mostly = "  actOn: lost\n  after: 12s\n", .sometimes = "  actOn: lost\n  after: 20s\n"},
        random);
  }
}

void draw_asking(Drawing& drawing, port::Random& random) {
  if (!happens(random, 0.15)) {
    return;
  }
  drawing.plan.policies["asking.lua"] = kAsking;
  drawing.plan.policies["moonfence.yaml"] +=
      binding("asking", false, draw_spaces(random), "enforce");
  add_config(drawing.plan, "endpoints:\n  array: {url: \"https://array.example\", timeout: 2s}\n");
  constexpr std::array<std::string_view, 8> kAnswers = {
      R"("body": [])",
      R"("body": "fenced")",
      R"("body": {"fenced": false})",
      R"("text": "<html>Bad Gateway</html>")",
      R"("status": 500)",
      R"("status": 0)",
      R"("takes": "10s", "body": {"fenced": true})",
      R"("body": {"fenced": true})"};
  std::string answers;
  for (Duration from{}; from < drawing.noise;
       from += drawn_between(random, seconds(5), seconds(60))) {
    answers += "{\"from\": \"" + text_of(from) + "\", ";
    answers += kAnswers[number(random, 0, kAnswers.size() - 1)];
    answers += "},\n ";
  }
  drawing.plan.responses = "{\"http array /v1/host\": [\n " + answers + "{\"from\": \"" +
                           text_of(drawing.noise) + "\", " + std::string(kAnswers.back()) + "}]}\n";
}

std::map<std::string, std::string> draw_edit(port::Random& random) {
  std::map<std::string, std::string> data = draw_policies(random);
  for (const Choice& choice : kChoices) {
    data.try_emplace(std::string(choice.name) + ".lua", "");
  }
  data.try_emplace("retiring.lua", "");
  data.try_emplace("undecided.lua", "");
  data["mode"] = "";
  switch (number(random, 0, 7)) {
    case 0:
      data["mode"] = "observe";
      break;
    case 1:
      data["mode"] = "off";
      break;
    case 2:
      data["moonfence.yaml"] = "api: 1\nbindings: [\n";
      break;
    case 3:
      data["stateful.lua"] = "return policy {";
      break;
    default:
      break;
  }
  return data;
}

}  // namespace moonfence::sim
