#include "kube/auth/kubeconfig.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "base/text.h"
#include "kube/text/yaml.h"
#include "kube/text/yaml_values.h"

namespace moonfence::kube {
namespace {

constexpr std::array<std::string_view, 4> kTrue = {"true", "yes", "on", "y"};
constexpr std::array<std::string_view, 4> kFalse = {"false", "no", "off", "n"};

bool is_one_of(std::string_view word, const std::array<std::string_view, 4>& words) {
  return std::find(words.begin(), words.end(), lower_cased(word)) != words.end();
}

// Reads the fields of one map. The first field of a wrong type is kept as the fault and everything
// after it reads as missing, so a reader of twenty fields asks once at its end.
class Fields {
 public:
  Fields(const Yaml* map, std::string place, std::optional<Error>& fault)
      : map_(map), place_(std::move(place)), fault_(fault) {
    if (map_ != nullptr && map_->kind != Yaml::Kind::Map) {
      refuse("", *map_, "must be a map");
      map_ = nullptr;
    }
  }

  [[nodiscard]] std::string text(std::string_view key) const {
    const Yaml* value = find(key);
    if (value == nullptr) {
      return {};
    }
    if (value->kind != Yaml::Kind::Scalar) {
      refuse(key, *value, "must be a string");
      return {};
    }
    return value->text;
  }

  [[nodiscard]] bool flag(std::string_view key) const {
    const Yaml* value = find(key);
    if (value == nullptr) {
      return false;
    }
    const bool scalar = value->kind == Yaml::Kind::Scalar && !value->quoted;
    const bool yes = scalar && is_one_of(value->text, kTrue);
    if (!yes && !(scalar && is_one_of(value->text, kFalse))) {
      refuse(key, *value, "must be true or false");
    }
    return yes;
  }

  [[nodiscard]] std::vector<std::string> texts(std::string_view key) const {
    std::vector<std::string> out;
    for (const Yaml& item : list(key)) {
      if (item.kind != Yaml::Kind::Scalar) {
        refuse(key, item, "must be a list of strings");
        return {};
      }
      out.push_back(item.text);
    }
    return out;
  }

  [[nodiscard]] const std::vector<Yaml>& list(std::string_view key) const {
    static const std::vector<Yaml> nothing;
    const Yaml* value = find(key);
    if (value != nullptr && value->kind != Yaml::Kind::Sequence) {
      refuse(key, *value, "must be a list");
      return nothing;
    }
    return value == nullptr ? nothing : value->items;
  }

  [[nodiscard]] int line(std::string_view key) const {
    const Yaml* value = find(key);
    return value == nullptr ? 0 : value->line;
  }

  [[nodiscard]] bool has(std::string_view key) const { return find(key) != nullptr; }

  [[nodiscard]] Fields map(std::string_view key) const {
    return {find(key), place_ + ": " + std::string(key), fault_};
  }

  // The names of a map, in the order written.
  [[nodiscard]] std::vector<std::string> names() const {
    return map_ == nullptr ? std::vector<std::string>{} : map_->keys;
  }

  void refuse(std::string_view key, const Yaml& value, std::string_view rule) const {
    refuse(std::string(key.empty() ? "" : ": ") + std::string(key) + " " + std::string(rule) +
           " (line " + std::to_string(value.line) + ")");
  }
  void refuse(const std::string& what) const {
    if (!fault_) {
      fault_ = Error{.kind = Error::Kind::Invalid,
                     .text = place_ + what,
                     .hint = "correct the file; kubectl config view shows what kubectl reads"};
    }
  }

 private:
  [[nodiscard]] const Yaml* find(std::string_view key) const {
    return map_ == nullptr || fault_ ? nullptr : map_->find(key);
  }

  const Yaml* map_;
  std::string place_;
  std::optional<Error>& fault_;
};

// Under the name by which client-go looks for it (pkg/apis/clientauthentication, Cluster.Config).
std::string read_plugin_config(const Fields& fields, const std::string& place,
                               std::optional<Error>& fault) {
  std::string config;
  for (const Yaml& item : fields.list("extensions")) {
    const Fields entry(&item, place + ": extensions", fault);
    const Yaml* extension = item.find("extension");
    if (entry.text("name") != "client.authentication.k8s.io/exec" || extension == nullptr) {
      continue;
    }
    const auto json = to_json(*extension);
    if (!json) {
      entry.refuse("extension", *extension, json.error().text);
      return {};
    }
    config = json->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  return config;
}

KubeconfigCluster read_cluster(const Fields& fields, const std::string& path,
                               std::optional<Error>& fault) {
  return {
      .file = path,
      .server = fields.text("server"),
      .authority_file = path_beside(path, fields.text("certificate-authority")),
      .authority_data = fields.text("certificate-authority-data"),
      .server_name = fields.text("tls-server-name"),
      .proxy_url = fields.text("proxy-url"),
      .plugin_config = read_plugin_config(fields, "kubeconfig " + escaped(path), fault),
      .server_line = fields.line("server"),
      .proxy_line = fields.line("proxy-url"),
      .insecure = fields.flag("insecure-skip-tls-verify"),
  };
}

ExecPlugin read_exec(const Fields& fields, const std::string& path, std::optional<Error>& fault) {
  ExecPlugin plugin{.api_version = fields.text("apiVersion"),
                    .command = fields.text("command"),
                    .arguments = fields.texts("args"),
                    .environment = {},
                    .install_hint = {},
                    .provide_cluster_info = fields.flag("provideClusterInfo")};
  if (plugin.command.find('/') != std::string::npos) {
    plugin.command = path_beside(path, plugin.command);
  }
  for (const Yaml& item : fields.list("env")) {
    const Fields pair(&item, "kubeconfig " + escaped(path) + ": exec: env", fault);
    plugin.environment.emplace_back(pair.text("name"), pair.text("value"));
  }
  // Only what can be printed: a hint must not paint the terminal it appears on.
  for (const char c : fields.text("installHint")) {
    const bool space = c == '\n' || c == '\t' || c == '\r';
    if (space || static_cast<unsigned char>(c) >= 0x20) {
      plugin.install_hint += space ? ' ' : c;
    }
  }
  plugin.install_hint = escaped(trimmed(plugin.install_hint));
  return plugin;
}

KubeconfigUser read_user(const Fields& fields, const std::string& path,
                         std::optional<Error>& fault) {
  KubeconfigUser user{
      .file = path,
      .token = fields.text("token"),
      .token_file = path_beside(path, fields.text("tokenFile")),
      .username = fields.text("username"),
      .password = fields.text("password"),
      .certificate_file = path_beside(path, fields.text("client-certificate")),
      .certificate_data = fields.text("client-certificate-data"),
      .key_file = path_beside(path, fields.text("client-key")),
      .key_data = fields.text("client-key-data"),
      .auth_provider = {},
      .exec = std::nullopt,
      .interactive_mode = {},
      .as = fields.text("as"),
      .as_uid = fields.text("as-uid"),
      .as_groups = fields.texts("as-groups"),
      .as_extra = {},
  };
  if (fields.has("auth-provider")) {
    const std::string name = fields.map("auth-provider").text("name");
    user.auth_provider = name.empty() ? "(without a name)" : name;
    user.auth_provider_line = fields.line("auth-provider");
  }
  if (fields.has("exec")) {
    const Fields exec = fields.map("exec");
    user.exec = read_exec(exec, path, fault);
    user.exec_line = fields.line("exec");
    user.interactive_mode = exec.text("interactiveMode");
  }
  const Fields extra = fields.map("as-user-extra");
  for (const std::string& name : extra.names()) {
    user.as_extra[name] = extra.texts(name);
  }
  return user;
}

// Calls `read(name, fields)` for each entry of a list like "users", whose content is under `kind`.
template <class Read>
void read_entries(const Fields& file, const std::string& place, std::string_view list,
                  std::string_view kind, std::optional<Error>& fault, Read read) {
  std::size_t position = 0;
  for (const Yaml& item : file.list(list)) {
    ++position;
    const std::string nth = place + ": " + std::string(list) + " entry " + std::to_string(position);
    const Fields entry(&item, nth, fault);
    const std::string name = entry.text("name");
    if (name.empty() && !fault) {
      entry.refuse(": has no name");
    }
    const std::string named = place + ": " + std::string(kind) + " \"" + escaped(name, 256) + "\"";
    const Yaml* content = item.find(kind);
    const Fields fields(content, named, fault);
    if (!read(name, fields) && !fault) {
      fields.refuse(" is defined twice in this file");
    }
  }
}

std::optional<Error> header_fault(const Fields& file, const std::string& place) {
  const std::string kind = file.text("kind");
  const std::string version = file.text("apiVersion");
  if ((!kind.empty() && kind != "Config") || (!version.empty() && version != "v1")) {
    return Error{.kind = Error::Kind::Invalid,
                 .text = place + ": is no kubeconfig but apiVersion \"" + escaped(version, 64) +
                         "\", kind \"" + escaped(kind, 64) + "\"",
                 .hint = "give a file with apiVersion v1, kind Config"};
  }
  return std::nullopt;
}

// Where we are stricter than kubectl: what kubectl would have made of it.
std::string difference_from_kubectl(const std::string& fault) {
  if (fault.find("is given twice") != std::string::npos) {
    return "kubectl takes the last of them without a word; leave one";
  }
  if (fault.find("aliases are not accepted") != std::string::npos) {
    return "kubectl follows them; a few of them can make a file grow without end, so write the "
           "value out";
  }
  if (fault.find("more than one YAML document") != std::string::npos) {
    return "kubectl reads the first one and leaves out the others; give one per file";
  }
  return "is this a kubeconfig? kubectl --kubeconfig FILE config view tells";
}

}  // namespace

std::string path_beside(const std::string& file, const std::string& path) {
  if (path.empty() || path.starts_with('/')) {
    return path;
  }
  const auto slash = file.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : file.substr(0, slash + 1);
  const std::string joined = std::filesystem::path(folder + "/" + path).lexically_normal().string();
  // Without a slash a command would be looked up in PATH.
  return joined.find('/') == std::string::npos ? "./" + joined : joined;
}

Result<Kubeconfig> parse_kubeconfig(std::string_view text, const std::string& path) {
  const std::string place = "kubeconfig " + escaped(path);
  auto yaml = parse_yaml(text, YamlLimits{.bytes = kKubeconfigLimit});
  if (!yaml) {
    Error error = std::move(yaml).error().within(place);
    error.hint = difference_from_kubectl(error.text);
    return failure(std::move(error));
  }
  std::optional<Error> fault;
  const Fields file(yaml->kind == Yaml::Kind::Null ? nullptr : &*yaml, place, fault);
  Kubeconfig out;
  out.current_context = file.text("current-context");
  if (auto wrong = header_fault(file, place)) {
    return failure(*std::move(wrong));
  }
  read_entries(file, place, "clusters", "cluster", fault,
               [&](const std::string& name, const Fields& fields) {
                 return out.clusters.emplace(name, read_cluster(fields, path, fault)).second;
               });
  read_entries(file, place, "users", "user", fault,
               [&](const std::string& name, const Fields& fields) {
                 return out.users.emplace(name, read_user(fields, path, fault)).second;
               });
  read_entries(file, place, "contexts", "context", fault,
               [&](const std::string& name, const Fields& fields) {
                 const KubeconfigContext context{.file = path,
                                                 .cluster = fields.text("cluster"),
                                                 .user = fields.text("user"),
                                                 .space = fields.text("namespace")};
                 return out.contexts.emplace(name, context).second;
               });
  if (fault) {
    return failure(*std::move(fault));
  }
  return out;
}

void merge_kubeconfig(Kubeconfig& first, const Kubeconfig& later) {
  if (first.current_context.empty()) {
    first.current_context = later.current_context;
  }
  // insert() keeps what is there.
  first.clusters.insert(later.clusters.begin(), later.clusters.end());
  first.users.insert(later.users.begin(), later.users.end());
  first.contexts.insert(later.contexts.begin(), later.contexts.end());
}

}  // namespace moonfence::kube
