#include "app/engine/preparation.h"

#include <algorithm>
#include <utility>

#include "app/engine/load_fencers.h"
#include "os/system/entropy.h"
#include "os/system/process.h"
#include "policy/host/lua_self_test.h"

namespace moonfence::app {
namespace {

// Every message about bad input ends with a next step.
Error advised(Error error, std::string_view hint) {
  if (error.hint.empty()) {
    error.hint = hint;
  }
  return error;
}

constexpr std::string_view kCheckPath = "check the path and who may read it";

Result<std::shared_ptr<const policy::Policy>> load_policy(port::Files& files, port::CpuClock& clock,
                                                          const std::string& path) {
  auto source = files.read(path, 1U << 20U);
  if (!source) {
    return failure(advised(source.error(), kCheckPath).within("--policy"));
  }
  auto loaded = policy::Policy::load(std::move(*source), path, clock);
  if (!loaded) {
    return failure(advised(loaded.error(),
                           "mend the policy; policies/noobaa/policy.lua shows the form of one"));
  }
  if (loaded->is_fencer()) {
    return failure(Error::Kind::Invalid, "--policy: " + path + " declares a fencer",
                   "bind it in the engine's configuration: docs/proof.md, Fencers");
  }
  return std::make_shared<const policy::Policy>(std::move(*loaded));
}

// A key of ConfigMap moonfence-status: letters, digits and -._, at most 253.
std::string instance_name(port::Files& files) {
  std::string name = files.environment("POD_NAME").value_or("");
  if (name.empty()) {
    name = os::host_name().value_or("moonfence");
  }
  constexpr std::size_t kLongest = 253;
  name.resize(std::min(name.size(), kLongest));
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!plain && c != '.' && c != '_') {
      c = '-';
    }
  }
  return name;
}

// Where other replicas reach what is bound to all addresses of our pod; "" nowhere.
std::string witness_address(port::Files& files, const std::string& bind_address) {
  const std::string ip = files.environment("POD_IP").value_or("");
  const std::size_t colon = std::min(bind_address.rfind(':'), bind_address.size());
  const std::string host = bind_address.substr(0, colon);
  const std::string port = bind_address.substr(colon);  // ":8081"
  const bool is_everywhere = host.empty() || host == "0.0.0.0" || host == "[::]";
  if (ip.empty() || !is_everywhere || port.empty() || port == ":0") {
    return {};
  }
  return (ip.find(':') == std::string::npos ? ip : "[" + ip + "]") + port;
}

}  // namespace

Result<Settings> load_settings(port::Files& files, const std::string& path) {
  if (path.empty()) {
    return Settings{};
  }
  auto text = files.read(path, 1U << 20U);
  if (!text) {
    return failure(advised(text.error(), kCheckPath).within("--config"));
  }
  return parse_settings(*text, path);
}

tl::expected<Prepared, Refusal> prepare(const RunOptions& options, port::Files& files,
                                        port::CpuClock& clock) {
  const auto refuse = [](ExitCode code, const Error& error) {
    return tl::unexpected(Refusal{.code = code, .error = error});
  };
  Prepared prepared;
  Assignment& told = prepared.assignment;
  told.policy_namespace = options.policy_namespace;
  told.hold_down = parse_duration(options.hold_down).value_or(policy::kHoldDown);
  told.mode = options.mode;
  told.leader_elect = options.leader_elect.value_or(options.policy.empty());
  auto settings = load_settings(files, options.config);
  if (!settings) {
    return refuse(ExitCode::Config, settings.error());
  }
  told.settings = *settings;
  if (auto tested = policy::lua_self_test(); !tested) {
    return refuse(ExitCode::Policy, tested.error());
  }
  auto fencers = load_fencers(told.settings, files, clock);
  if (!fencers) {
    return refuse(ExitCode::Config, fencers.error());
  }
  told.fencers = *std::move(fencers);
  if (!options.policy.empty()) {
    auto loaded = load_policy(files, clock, options.policy);
    if (!loaded) {
      return refuse(ExitCode::Policy, loaded.error());
    }
    told.policy = std::move(*loaded);
  }
  auto config =
      kube::load_config(files, {.kubeconfig = options.kubeconfig, .context = options.context});
  if (!config) {
    return refuse(ExitCode::Config, config.error());
  }
  told.config = std::move(*config);
  if (!options.audit_log.empty() && options.audit_log != "-") {
    auto file = os::AppendFile::open(options.audit_log, os::AppendFile::Durability::Written);
    if (!file) {
      return refuse(
          ExitCode::Config,
          advised(file.error(), "name a plain file that may be written").within("--audit-log"));
    }
    prepared.audit_file = std::make_unique<os::AppendFile>(std::move(*file));
  }
  told.engine_namespace = options.engine_namespace.empty() ? kube::own_namespace(files, "moonfence")
                                                           : options.engine_namespace;
  told.instance = instance_name(files);
  told.node_name =
      options.node_name.empty() ? files.environment("NODE_NAME").value_or("") : options.node_name;
  told.witness_address = witness_address(files, options.health_probe_bind_address);
  told.witness_secret = os::system_secret();
  return prepared;
}

}  // namespace moonfence::app
