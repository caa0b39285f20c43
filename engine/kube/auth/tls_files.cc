#include "kube/auth/tls_files.h"

#include <utility>

#include "base/text.h"
#include "kube/text/pem.h"

namespace moonfence::kube {
namespace {

constexpr std::size_t kPemLimit = 4U << 20U;

port::TlsSettings settings_of(const Connection& connection) {
  return {.ca_pem = connection.ca_pem,
          .certificate_pem = connection.identity.certificate_pem,
          .key_pem = connection.identity.key_pem,
          .server_name = connection.server_name,
          .insecure = connection.insecure,
          .proxy_url = connection.proxy_url};
}

Result<std::string> read_pem_file(port::Files& files, const std::string& path, Pem kind) {
  auto text = files.read(path, kPemLimit);
  if (!text) {
    return text;
  }
  if (const auto fault = pem_fault(*text, kind)) {
    return failure(Error::Kind::Invalid, escaped(path) + " " + *fault);
  }
  return text;
}

}  // namespace

TlsFiles::TlsFiles(loop::Loop& loop, port::Http& http, port::Files& files, port::Log& log,
                   const Connection& connection)
    : loop_(loop),
      http_(http),
      files_(files),
      log_(log),
      authority_file_(connection.ca_file),
      certificate_file_(connection.identity.certificate_file),
      key_file_(connection.identity.key_file),
      settings_(settings_of(connection)) {
  http_.use_tls(settings_);
  if (!authority_file_.empty() || !certificate_file_.empty() || !key_file_.empty()) {
    timer_ = loop_.after(kPeriod, [this] { tick(); });
  }
}

void TlsFiles::tick() {
  timer_ = loop_.after(kPeriod, [this] { tick(); });
  reload();
}

void TlsFiles::reload() {
  reload_authority();
  reload_certificate(false);
}

void TlsFiles::reload_authority() {
  if (authority_file_.empty()) {
    return;
  }
  auto text = read_pem_file(files_, authority_file_, Pem::Certificate);
  if (!text) {
    authority_reloads_.fail(log_, "authority", text.error().text);
    return;
  }
  const bool changed = *text != settings_.ca_pem;
  if (changed) {
    settings_.ca_pem = *std::move(text);
    http_.use_tls(settings_);
  }
  authority_reloads_.succeed(log_, "authority", changed);
}

std::optional<TlsFiles::Pair> TlsFiles::read_pair() {
  // One of the two may have come as data; that half is fixed.
  Pair pair{.certificate = settings_.certificate_pem, .key = settings_.key_pem};
  if (!certificate_file_.empty()) {
    auto text = read_pem_file(files_, certificate_file_, Pem::Certificate);
    if (!text) {
      certificate_reloads_.fail(log_, "certificate", text.error().text);
      return std::nullopt;
    }
    pair.certificate = *std::move(text);
  }
  if (!key_file_.empty()) {
    auto text = read_pem_file(files_, key_file_, Pem::PrivateKey);
    if (!text) {
      certificate_reloads_.fail(log_, "certificate", text.error().text);
      return std::nullopt;
    }
    pair.key = *std::move(text);
  }
  return pair;
}

void TlsFiles::reload_certificate(bool settled) {
  if ((certificate_file_.empty() && key_file_.empty()) || (settle_.pending() && !settled)) {
    return;
  }
  auto pair = read_pair();
  if (!pair) {
    seen_.reset();
    return;
  }
  if (*pair == Pair{.certificate = settings_.certificate_pem, .key = settings_.key_pem}) {
    seen_.reset();
    certificate_reloads_.succeed(log_, "certificate", false);
    return;
  }
  if (settled && seen_ == pair) {
    seen_.reset();
    replace_certificate(pair->certificate, pair->key);
    certificate_reloads_.succeed(log_, "certificate", true);
    return;
  }
  seen_ = std::move(pair);
  settle_ = loop_.after(kSettle, [this] { reload_certificate(true); });
}

void TlsFiles::use_certificate(const std::string& certificate_pem, const std::string& key_pem) {
  certificate_file_.clear();
  key_file_.clear();
  settle_.cancel();
  if (certificate_pem != settings_.certificate_pem || key_pem != settings_.key_pem) {
    replace_certificate(certificate_pem, key_pem);
  }
}

void TlsFiles::replace_certificate(const std::string& certificate_pem, const std::string& key_pem) {
  settings_.certificate_pem = certificate_pem;
  settings_.key_pem = key_pem;
  http_.use_tls(settings_);
  // Also when there was none before: nobody is known by a certificate on connections without one.
  http_.drop_connections();
}

}  // namespace moonfence::kube
