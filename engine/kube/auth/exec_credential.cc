#include "kube/auth/exec_credential.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "kube/text/base64.h"
#include "kube/text/pem.h"

namespace moonfence::kube {
namespace {

using nlohmann::json;

Failure malformed(std::string text) {
  return failure(Error::Kind::Malformed, std::move(text),
                 "run the plugin by hand and look at what it prints");
}

// A string field; "" when missing or null.
Result<std::string> text_of(const json& object, const char* field) {
  const auto found = object.find(field);
  if (found == object.end() || found->is_null()) {
    return std::string();
  }
  if (!found->is_string()) {
    return malformed("its " + std::string(field) + " is no string");
  }
  return found->get<std::string>();
}

bool is_token(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7F; });
}

std::optional<std::string> fault_of(const ExecCredential& credential) {
  if (credential.token.empty() && credential.certificate_pem.empty() &&
      credential.key_pem.empty()) {
    return "it gave neither a token nor a certificate";
  }
  if (credential.certificate_pem.empty() != credential.key_pem.empty()) {
    return "it gave only one of clientCertificateData and clientKeyData";
  }
  if (!is_token(credential.token)) {
    return "its token has white space or other characters that no token has";
  }
  if (credential.certificate_pem.empty()) {
    return std::nullopt;
  }
  if (const auto fault = pem_fault(credential.certificate_pem, Pem::Certificate)) {
    return "its clientCertificateData " + *fault;
  }
  if (const auto fault = pem_fault(credential.key_pem, Pem::PrivateKey)) {
    return "its clientKeyData " + *fault;
  }
  return std::nullopt;
}

// The document's frame; a pointer to its status.
Result<const json*> status_of(const json& document, const std::string& api_version) {
  if (!document.is_object()) {
    return malformed("it printed no JSON object");
  }
  const auto kind = text_of(document, "kind");
  if (!kind || *kind != "ExecCredential") {
    return malformed("it printed something other than an ExecCredential");
  }
  const auto version = text_of(document, "apiVersion");
  if (!version || *version != api_version) {
    return malformed("it answered in apiVersion \"" + escaped(version.value_or("?"), 128) +
                     "\", but the kubeconfig says \"" + escaped(api_version, 128) + "\"");
  }
  const auto status = document.find("status");
  if (status == document.end() || !status->is_object()) {
    return malformed("its ExecCredential has no status");
  }
  return &*status;
}

}  // namespace

std::string exec_info(const ExecPlugin& plugin, const Connection& connection) {
  json spec = {{"interactive", false}};
  if (plugin.provide_cluster_info) {
    json cluster = {{"server", connection.server}};
    if (!connection.server_name.empty()) {
      cluster["tls-server-name"] = connection.server_name;
    }
    if (connection.insecure) {
      cluster["insecure-skip-tls-verify"] = true;
    }
    if (!connection.ca_pem.empty()) {
      cluster["certificate-authority-data"] = base64_encoded(connection.ca_pem);
    }
    if (!connection.proxy_url.empty()) {
      cluster["proxy-url"] = connection.proxy_url;
    }
    if (!connection.plugin_config.empty()) {
      cluster["config"] = json::parse(connection.plugin_config, nullptr, false);
    }
    spec["cluster"] = std::move(cluster);
  }
  const json document = {
      {"apiVersion", plugin.api_version}, {"kind", "ExecCredential"}, {"spec", std::move(spec)}};
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<ExecCredential> parse_exec_credential(std::string_view output,
                                             const std::string& api_version) {
  const json document = json::parse(output, nullptr, false);
  if (document.is_discarded()) {
    return malformed("it printed no JSON");
  }
  const auto status = status_of(document, api_version);
  if (!status) {
    return failure(status.error());
  }
  ExecCredential credential;
  std::string expires;
  const std::pair<const char*, std::string*> fields[] = {
      {"token", &credential.token},
      {"clientCertificateData", &credential.certificate_pem},
      {"clientKeyData", &credential.key_pem},
      {"expirationTimestamp", &expires},
  };
  for (const auto& [field, target] : fields) {
    auto text = text_of(**status, field);
    if (!text) {
      return failure(std::move(text).error());
    }
    *target = *std::move(text);
  }
  if (const auto fault = fault_of(credential)) {
    return malformed(*fault);
  }
  if (!expires.empty()) {
    credential.expires = parse_rfc3339(expires);
    if (!credential.expires) {
      return malformed("its expirationTimestamp \"" + escaped(expires, 64) +
                       "\" is no RFC 3339 time");
    }
  }
  return credential;
}

}  // namespace moonfence::kube
