#include "kube/auth/kubeconfig_resolve.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "kube/auth/server_url.h"
#include "kube/text/base64.h"
#include "kube/text/pem.h"

namespace moonfence::kube {
namespace {

constexpr std::string_view kV1 = "client.authentication.k8s.io/v1";
constexpr std::string_view kV1Beta1 = "client.authentication.k8s.io/v1beta1";

std::string in_quotes(std::string_view value) {
  return "\"" + escaped(value, 256) + "\"";
}

std::string entry_place(const std::string& file, std::string_view kind, const std::string& name) {
  return "kubeconfig " + escaped(file) + ": " + std::string(kind) + " " + in_quotes(name);
}

std::string at_line(const std::string& place, int line) {
  return line == 0 ? place : place + ", line " + std::to_string(line);
}

Failure invalid(const std::string& place, const std::string& text, std::string hint) {
  return failure(Error::Kind::Invalid, place + ": " + text, std::move(hint));
}

// A value goes into a header or a file name as it is.
bool has_control_character(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7F;
  });
}

// A PEM text that is given as base64, else in a file, else not at all.
struct PemSource {
  std::string_view field;  // "client-key"; its data field is "client-key-data"
  const std::string& data;
  const std::string& file;
  Pem kind;
};

class Resolver {
 public:
  Resolver(port::Files& files, const ConfigOptions& options) : files_(files), options_(options) {}

  Result<void> read_cluster(const KubeconfigCluster& cluster, const std::string& name) {
    const std::string place = entry_place(cluster.file, "cluster", name);
    if (cluster.server.empty()) {
      return invalid(place, "has no server", "set server to https://HOST:PORT");
    }
    auto server = server_url(cluster.server);
    if (!server) {
      return failure(std::move(server).error().within(at_line(place, cluster.server_line)));
    }
    Connection& connection = loaded_.connection;
    connection.server = *std::move(server);
    if (!cluster.proxy_url.empty()) {
      auto proxy = proxy_url(cluster.proxy_url);
      if (!proxy) {
        return failure(std::move(proxy).error().within(at_line(place, cluster.proxy_line)));
      }
      connection.proxy_url = *std::move(proxy);
    }
    if (has_control_character(cluster.server_name)) {
      return invalid(place,
                     "tls-server-name " + in_quotes(cluster.server_name) + " is no host name",
                     "set it to a name in the server's certificate");
    }
    connection.server_name = cluster.server_name;
    if (cluster.insecure && !(cluster.authority_data.empty() && cluster.authority_file.empty())) {
      return invalid(place, "has a certificate-authority together with insecure-skip-tls-verify",
                     "remove insecure-skip-tls-verify");
    }
    connection.insecure = cluster.insecure;
    connection.plugin_config = cluster.plugin_config;
    if (cluster.insecure) {
      loaded_.warnings.push_back(
          place +
          ": insecure-skip-tls-verify: whoever sits between us and the API server can read "
          "the credentials and forge every answer");
    }
    return read_pem(place,
                    PemSource{.field = "certificate-authority",
                              .data = cluster.authority_data,
                              .file = cluster.authority_file,
                              .kind = Pem::Certificate},
                    connection.ca_pem, connection.ca_file);
  }

  Result<void> read_user(const KubeconfigUser& user, const std::string& name) {
    const std::string place = entry_place(user.file, "user", name);
    if (auto checked = check_methods(user, place); !checked) {
      return checked;
    }
    Identity& identity = loaded_.connection.identity;
    identity.token = user.token;
    identity.username = user.username;
    identity.password = user.password;
    if (auto read = read_token_file(user, place); !read) {
      return read;
    }
    if (auto read = read_certificate(user, place); !read) {
      return read;
    }
    if (user.exec) {
      if (auto checked = check_exec(user, place); !checked) {
        return checked;
      }
      identity.exec = user.exec;
    }
    return read_impersonation(user, place);
  }

  // What must hold between cluster and user.
  Result<void> check_whole(const std::string& place, const KubeconfigCluster& cluster) const {
    const Connection& connection = loaded_.connection;
    const Identity& identity = connection.identity;
    const bool credentials = !identity.token.empty() || !identity.token_file.empty() ||
                             !identity.username.empty() || !identity.certificate_pem.empty() ||
                             identity.exec.has_value();
    if (credentials && !connection.server.starts_with("https://")) {
      return invalid(at_line(place, cluster.server_line),
                     "server " + in_quotes(connection.server) +
                         " would get the user's credentials in clear text",
                     "kubectl leaves them out and asks as nobody; use https, or a user without "
                     "credentials");
    }
    return {};
  }

  LoadedConfig take() { return std::move(loaded_); }
  Connection& connection() { return loaded_.connection; }

 private:
  static std::string hint_for_provider(const std::string& name) {
    if (name == "gcp" || name == "azure") {
      return "Kubernetes 1.26 removed it; use the exec plugin of your platform, as kubectl does";
    }
    return name == "oidc"
               ? "kubectl renews its token by itself; use an exec plugin for OIDC, or the "
                 "token of a service account"
               : "kubectl does not know it either; use an exec plugin";
  }

  static Result<void> check_methods(const KubeconfigUser& user, const std::string& place) {
    if (!user.auth_provider.empty()) {
      return invalid(at_line(place, user.auth_provider_line),
                     "auth-provider " + in_quotes(user.auth_provider) + " is not supported",
                     hint_for_provider(user.auth_provider));
    }
    std::vector<std::string> methods;
    if (!user.token.empty() || !user.token_file.empty()) {
      methods.emplace_back(user.token.empty() ? "tokenFile" : "token");
    }
    if (!user.username.empty() || !user.password.empty()) {
      methods.emplace_back("username");
    }
    if (user.exec) {
      methods.emplace_back("exec");
    }
    if (methods.size() > 1) {
      return invalid(at_line(place, user.exec ? user.exec_line : 0),
                     "has " + joined(methods, " and ") + ", of which only one can be used",
                     user.exec && methods.size() == 2
                         ? "kubectl takes the " + methods.front() +
                               " and does not run the plugin; remove one of them"
                         : "remove all but one");
    }
    if (user.username.empty() && !user.password.empty()) {
      return invalid(place, "has a password without a username", "set username");
    }
    if (user.username.find(':') != std::string::npos) {
      return invalid(place, "username must not have a colon", "a colon ends the name in HTTP");
    }
    const std::string secrets = user.token + user.username + user.password;
    if (has_control_character(secrets)) {
      return invalid(place, "token, username and password must not have line breaks",
                     "was the value pasted with its line ends?");
    }
    return {};
  }

  Result<void> read_token_file(const KubeconfigUser& user, const std::string& place) {
    if (user.token_file.empty()) {
      return {};
    }
    Identity& identity = loaded_.connection.identity;
    identity.token_file = user.token_file;
    auto text = files_.read(user.token_file);
    std::optional<Error> fault;
    if (!text) {
      fault = std::move(text).error();
    } else if (const auto token = trimmed(*text); token.empty() || has_control_character(token)) {
      fault = Error{.kind = Error::Kind::Invalid,
                    .text = escaped(user.token_file) +
                            (token.empty() ? " is empty" : " must hold one line, the token"),
                    .hint = {}};
    } else {
      identity.token = std::string(token);
      return {};
    }
    *fault = std::move(*fault).within(place + ": tokenFile");
    if (user.token.empty()) {
      fault->hint = "put the token there, or correct the path";
      return failure(*std::move(fault));
    }
    loaded_.warnings.push_back(fault->text + "; using the fixed token");
    return {};
  }

  Result<void> read_certificate(const KubeconfigUser& user, const std::string& place) {
    Identity& identity = loaded_.connection.identity;
    auto certificate = read_pem(place,
                                PemSource{.field = "client-certificate",
                                          .data = user.certificate_data,
                                          .file = user.certificate_file,
                                          .kind = Pem::Certificate},
                                identity.certificate_pem, identity.certificate_file);
    if (!certificate) {
      return certificate;
    }
    auto key = read_pem(place,
                        PemSource{.field = "client-key",
                                  .data = user.key_data,
                                  .file = user.key_file,
                                  .kind = Pem::PrivateKey},
                        identity.key_pem, identity.key_file);
    if (!key) {
      return key;
    }
    if (identity.certificate_pem.empty() != identity.key_pem.empty()) {
      return invalid(place,
                     identity.key_pem.empty() ? "has a client-certificate without client-key"
                                              : "has a client-key without client-certificate",
                     "give both or none");
    }
    return {};
  }

  Result<void> check_exec(const KubeconfigUser& user, const std::string& place) const {
    const ExecPlugin& plugin = *user.exec;
    if (plugin.command.empty()) {
      return invalid(place, "exec has no command", "set command to the plugin");
    }
    if (plugin.api_version != kV1 && plugin.api_version != kV1Beta1) {
      return invalid(place,
                     "exec apiVersion " + in_quotes(plugin.api_version) + " is not supported; " +
                         std::string(kV1) + " and v1beta1 are",
                     "update the plugin and let it write the kubeconfig again");
    }
    const std::string& mode = user.interactive_mode;
    if (mode == "Always") {
      return invalid(place, "exec interactiveMode \"Always\" needs a person at a terminal",
                     "use a plugin that can run without one");
    }
    if (mode.empty() && plugin.api_version == kV1) {
      return invalid(place, "exec has no interactiveMode, which v1 demands",
                     "set interactiveMode: Never");
    }
    if (!mode.empty() && mode != "Never" && mode != "IfAvailable") {
      return invalid(place, "exec interactiveMode " + in_quotes(mode) + " is unknown",
                     "set interactiveMode: Never");
    }
    for (const auto& [name, value] : plugin.environment) {
      if (name.empty() || name.find('=') != std::string::npos) {
        return invalid(place, "exec env name " + in_quotes(name) + " is no variable's name",
                       "correct it");
      }
    }
    return check_allowed(plugin.command, place);
  }

  Result<void> check_allowed(const std::string& command, const std::string& place) const {
    const auto clean = [](const std::string& path) {
      return std::filesystem::path(path).lexically_normal().string();
    };
    const auto& allowed = options_.allowed_plugins;
    // A bare name is looked up in PATH and "./name" is not: they must never be taken for each
    // other.
    const bool found =
        std::any_of(allowed.begin(), allowed.end(), [&](const std::string& candidate) {
          const bool same_kind = (candidate.find('/') == std::string::npos) ==
                                 (command.find('/') == std::string::npos);
          return same_kind && clean(candidate) == clean(command);
        });
    if (allowed.empty() || found) {
      return {};
    }
    return failure(
        Error::Kind::Forbidden,
        place + ": exec command " + in_quotes(command) + " is not among the allowed plugins",
        "allow it in the configuration, or use another user");
  }

  Result<void> read_impersonation(const KubeconfigUser& user, const std::string& place) {
    auto& headers = loaded_.connection.identity.impersonation;
    if (user.as.empty()) {
      if (!user.as_uid.empty() || !user.as_groups.empty() || !user.as_extra.empty()) {
        return invalid(place, "has as-uid, as-groups or as-user-extra without as",
                       "set as to the user to act as");
      }
      return {};
    }
    headers.push_back({"Impersonate-User", user.as});
    if (!user.as_uid.empty()) {
      headers.push_back({"Impersonate-Uid", user.as_uid});
    }
    for (const std::string& group : user.as_groups) {
      headers.push_back({"Impersonate-Group", group});
    }
    for (const auto& [name, values] : user.as_extra) {
      for (const std::string& value : values) {
        headers.push_back({"Impersonate-Extra-" + header_key(name), value});
      }
    }
    for (const port::Header& header : headers) {
      if (has_control_character(header.value)) {
        return invalid(place,
                       header.name + " " + in_quotes(header.value) + " has control characters",
                       "correct as, as-uid, as-groups or as-user-extra");
      }
    }
    return {};
  }

  // client-go transport/round_trippers.go headerKeyEscape: what no header name may hold, and '%'.
  static std::string header_key(const std::string& name) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    constexpr std::string_view kLegal = "!#$&'*+-.^_`|~";
    std::string out;
    for (const char c : name) {
      const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      if (letter || (c >= '0' && c <= '9') || kLegal.find(c) != std::string_view::npos) {
        out += c;
      } else {
        const auto byte = static_cast<unsigned char>(c);
        out += {'%', kDigits[byte >> 4U], kDigits[byte & 0x0FU]};
      }
    }
    return out;
  }

  Result<void> read_pem(const std::string& place, const PemSource& source, std::string& pem,
                        std::string& file) {
    const std::string field(source.field);
    std::string where = field;
    if (!source.data.empty()) {
      where += "-data";
      auto decoded = base64_decoded(source.data);
      if (!decoded) {
        return invalid(place, where + " is not base64", "encode the PEM file with base64 -w0");
      }
      pem = *std::move(decoded);
      if (!source.file.empty()) {
        loaded_.warnings.push_back(place + ": " + where + " is used and " + field + " ignored");
      }
    } else if (!source.file.empty()) {
      where += " " + escaped(source.file);
      auto text = files_.read(source.file);
      if (!text) {
        Error error = std::move(text).error().within(place + ": " + field);
        error.hint = "correct the path, which is relative to the kubeconfig's folder";
        return failure(std::move(error));
      }
      pem = *std::move(text);
      file = source.file;
    } else {
      return {};
    }
    if (const auto fault = pem_fault(pem, source.kind)) {
      return invalid(place, where + " " + *fault, "give a PEM file");
    }
    return {};
  }

  port::Files& files_;
  const ConfigOptions& options_;
  LoadedConfig loaded_;
};

// "has no such context" with the names there are.
Failure unknown_context(const Kubeconfig& config, const std::string& wanted,
                        const std::string& place) {
  std::vector<std::string> names;
  for (const auto& [name, context] : config.contexts) {
    names.push_back(escaped(name, 64));
  }
  constexpr std::size_t kMostNames = 20;
  const bool cut = names.size() > kMostNames;
  names.resize(std::min(names.size(), kMostNames));
  const std::string known = names.empty()
                                ? "there are no contexts"
                                : "there are: " + joined(names, ", ") + (cut ? ", …" : "");
  if (wanted.empty()) {
    return invalid(place, "has no current-context; " + known,
                   "give --context, or run kubectl config use-context NAME");
  }
  return invalid(place, "has no context " + in_quotes(wanted) + "; " + known,
                 "give --context with one of these");
}

}  // namespace

Result<LoadedConfig> resolve_kubeconfig(port::Files& files, const Kubeconfig& config,
                                        const ConfigOptions& options, const std::string& place) {
  const std::string& wanted = options.context.empty() ? config.current_context : options.context;
  const auto found = config.contexts.find(wanted);
  if (wanted.empty() || found == config.contexts.end()) {
    return unknown_context(config, wanted, place);
  }
  const KubeconfigContext& context = found->second;
  const std::string context_place = entry_place(context.file, "context", wanted);
  const auto cluster = config.clusters.find(context.cluster);
  if (cluster == config.clusters.end()) {
    return invalid(context_place,
                   context.cluster.empty()
                       ? "has no cluster"
                       : "cluster " + in_quotes(context.cluster) + " is not defined",
                   "name an entry of clusters");
  }
  Resolver resolver(files, options);
  if (auto read = resolver.read_cluster(cluster->second, cluster->first); !read) {
    return failure(std::move(read).error());
  }
  // Without a user nobody is shown; that is how a local kubectl proxy is reached.
  if (!context.user.empty()) {
    const auto user = config.users.find(context.user);
    if (user == config.users.end()) {
      return invalid(context_place, "user " + in_quotes(context.user) + " is not defined",
                     "name an entry of users");
    }
    if (auto read = resolver.read_user(user->second, user->first); !read) {
      return failure(std::move(read).error());
    }
  }
  if (auto checked = resolver.check_whole(context_place, cluster->second); !checked) {
    return failure(std::move(checked).error());
  }
  Connection& connection = resolver.connection();
  if (!context.space.empty()) {
    connection.default_namespace = context.space;
  }
  connection.origin = "context " + escaped(wanted) + " of " + escaped(context.file);
  return resolver.take();
}

}  // namespace moonfence::kube
