#include "app/cluster_commands/cluster_client.h"

#include <optional>
#include <utility>

#include "app/settings/version.h"
#include "kube/auth/live_credentials.h"
#include "loop/loop.h"
#include "os/net/curl_http.h"
#include "os/net/curl_poller.h"
#include "os/system/clocks.h"
#include "os/system/processes.h"
#include "os/system/system_files.h"

namespace moonfence::app {
namespace {

class Silence final : public port::Log {
 public:
  void write(Level /*level*/, std::string_view /*event*/,
             const std::vector<port::LogField>& /*fields*/) override {}
};

std::string_view advice(Error::Kind kind) {
  switch (kind) {
    case Error::Kind::Forbidden:
      return "ask for the right to do it; docs/reference.md lists under Commands what each needs";
    case Error::Kind::Unauthorized:
      return "log in again; the API server does not know the credentials of this kubeconfig";
    default:
      return "check --kubeconfig and --context, and whether kubectl reaches the API server";
  }
}

}  // namespace

class ClusterClient::Line {
 public:
  explicit Line(const kube::LoadedConfig& config)
      : loop_(poller_),
        http_(poller_),
        processes_(loop_, poller_),
        credentials_({loop_, http_, files_, processes_, wall_clock_, log_}, config.connection),
        caller_(loop_, http_, credentials_, log_, config.connection.server, user_agent()) {}

  Result<nlohmann::json> call(kube::ApiRequest request) {
    std::optional<Result<kube::ApiReply>> answer;
    request.lane = port::Lane::Bulk;
    request.timeout = kTimeout;
    request.body_limit = kBodyLimit;
    const auto call = caller_.call(
        std::move(request), [&answer](Result<kube::ApiReply> reply) { answer = std::move(reply); });
    const loop::Timer limit = loop_.after(2 * kTimeout, [&answer] {
      answer = failure(Error::Kind::Retryable, "no answer within 20 s");
    });
    while (!answer) {
      loop_.turn();
    }
    if (*answer) {
      date_ = (*answer)->date ? (*answer)->date : date_;
      return std::move((*answer)->body);
    }
    Error error = answer->error();
    // The layer below speaks of the engine's account, and here it is the operator's own.
    const bool of_account =
        error.kind == Error::Kind::Forbidden || error.kind == Error::Kind::Unauthorized;
    if (of_account || (error.hint.empty() && error.kind != Error::Kind::NotFound)) {
      error.hint = advice(error.kind);
    }
    return failure(std::move(error));
  }

  [[nodiscard]] WallTime now() { return date_.value_or(wall_clock_.now()); }

 private:
  static constexpr std::size_t kBodyLimit = 256U << 20U;

  Silence log_;
  os::SystemWallClock wall_clock_;
  os::SystemFiles files_;
  os::CurlPoller poller_;
  loop::Loop loop_;
  os::CurlHttp http_;
  os::ChildProcesses processes_;
  kube::LiveCredentials credentials_;
  kube::Caller caller_;
  std::optional<WallTime> date_;  // of the newest answer
};

ClusterClient::ClusterClient(const kube::LoadedConfig& config)
    : line_(std::make_unique<Line>(config)) {}
ClusterClient::~ClusterClient() = default;

Result<nlohmann::json> ClusterClient::get(const std::string& path, const kube::Query& query) {
  kube::ApiRequest request;
  request.path = path;
  request.query = query;
  return line_->call(std::move(request));
}

namespace {

kube::ApiRequest with_body(port::Method method, const std::string& path, const nlohmann::json& body,
                           const char* type) {
  kube::ApiRequest request;
  request.method = method;
  request.path = path;
  request.body = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  request.content_type = type;
  return request;
}

}  // namespace

Result<nlohmann::json> ClusterClient::post(const std::string& path, const nlohmann::json& body) {
  return line_->call(with_body(port::Method::Post, path, body, "application/json"));
}

Result<nlohmann::json> ClusterClient::merge(const std::string& path, const nlohmann::json& patch) {
  return line_->call(with_body(port::Method::Patch, path, patch, "application/merge-patch+json"));
}

Result<nlohmann::json> ClusterClient::send(kube::ApiRequest request) {
  return line_->call(std::move(request));
}

WallTime ClusterClient::now() {
  return line_->now();
}

}  // namespace moonfence::app
